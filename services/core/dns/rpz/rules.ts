import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";
import { type AddressBlock, formatAddressBlock, ipv4OfMapped, parseAddressBlock } from "../address-block.ts";
import { longestZeroRun } from "../ip-address.ts";
import {
  ancestorOf,
  type DomainName,
  formatDomainName,
  isSubdomain,
  labelsOf,
  nameFromLabels,
  parseDomainName,
  ROOT,
} from "../name.ts";
import { formatRdata, parseRdata, rdataReason } from "../rdata/rdata.ts";
import type { ResourceRecord } from "../record.ts";
import { isMetaType, TYPE, typeCode, typeMnemonic } from "../rr-types.ts";

/** TTL of the records of a feed, seconds: a removed rule is forgotten soon. */
export const RPZ_TTL_SECONDS = 60;

/** Prefixes of a policy zone's blocks are 1 at least (draft-vixie-dnsop-dns-rpz). */
const LEAST_PREFIX = 1;

/** What a rule of a response policy zone looks at (draft-vixie-dnsop-dns-rpz §4). */
export type RpzTrigger =
  /** The name asked for; a wildcard stands for everything below. */
  | { readonly kind: "qname" | "nsdname"; readonly name: DomainName }
  | { readonly kind: "ip" | "client-ip" | "nsip"; readonly block: AddressBlock };

/** What a rule does (draft-vixie-dnsop-dns-rpz §3). */
export type RpzAction =
  | { readonly kind: "nxdomain" | "nodata" | "passthru" | "drop" | "tcp-only" }
  /** Local data: a record that is answered instead. */
  | { readonly kind: "local-data"; readonly type: number; readonly rdata: Uint8Array };

/** Why a rule was refused, in words. */
export type RpzError = Sentence;

/** Reads `kind:what`, such as `qname:*.bad.example` or `client-ip:2001:db8::/32`. */
export function parseRpzTrigger(text: string): Result<RpzTrigger, RpzError> {
  const colon = text.indexOf(":");
  const kind = text.slice(0, colon).toLowerCase();
  const what = text.slice(colon + 1);
  switch (kind) {
    case "qname":
    case "nsdname":
      return nameTrigger(kind, what);
    case "ip":
    case "client-ip":
    case "nsip": {
      const block = parseAddressBlock(what, LEAST_PREFIX);
      return block.ok ? ok({ kind, block: block.value }) : block;
    }
    default:
      return refuse(sentence("no-trigger", { text }));
  }
}

/** The trigger in the form that {@link parseRpzTrigger} reads; equal triggers, equal texts. */
export function formatRpzTrigger(trigger: RpzTrigger): string {
  if ("name" in trigger) return `${trigger.kind}:${withoutFinalDot(formatDomainName(trigger.name)).toLowerCase()}`;
  return `${trigger.kind}:${formatAddressBlock(trigger.block)}`;
}

/** Reads an action: one of the five words, or local data as `TYPE value` with absolute names. */
export function parseRpzAction(text: string): Result<RpzAction, RpzError> {
  const word = text.trim().toLowerCase();
  if (ACTION_TARGETS.has(word as PolicyKind)) return ok({ kind: word as PolicyKind });
  const [, mnemonic, value] = /^\s*(\S+)\s+(\S.*)$/s.exec(text) ?? [];
  const type = typeCode(mnemonic ?? "");
  if (type === undefined || value === undefined) {
    return refuse(sentence("no-action", { text }));
  }
  if (isMetaType(type) || TYPES_WITHOUT_POLICY.has(type)) {
    return refuse(sentence("no-local-data", { type: typeMnemonic(type) }));
  }
  const rdata = parseRdata(type, value, undefined, "value");
  return rdata.ok ? ok(actionOfRecord(type, rdata.value)) : refuse(rdataReason(rdata.error));
}

/** The action in the form that {@link parseRpzAction} reads. */
export function formatRpzAction(action: RpzAction): string {
  return action.kind === "local-data"
    ? `${typeMnemonic(action.type)} ${formatRdata(action.type, action.rdata)}`
    : action.kind;
}

/**
 * The record that carries the rule in the feed's zone.
 * @returns refused when trigger and apex are more than 255 octets together
 */
export function encodeRpzRule(
  trigger: RpzTrigger,
  action: RpzAction,
  apex: DomainName,
): Result<ResourceRecord, RpzError> {
  const owner = nameFromLabels([...triggerLabels(trigger), ...labelsOf(apex)]);
  if (!owner.ok) return refuse(sentence("rule-too-long", { trigger: formatRpzTrigger(trigger), reason: owner.error }));
  const data =
    action.kind === "local-data" ? action : { type: TYPE.CNAME, rdata: ACTION_TARGETS.get(action.kind)!.wire };
  return ok({ owner: owner.value, type: data.type, ttl: RPZ_TTL_SECONDS, rdata: data.rdata });
}

/** The rule that a record of a policy zone carries; what is no rule, such as its SOA and NS, is refused. */
export function decodeRpzRule(
  record: ResourceRecord,
  apex: DomainName,
): Result<{ readonly trigger: RpzTrigger; readonly action: RpzAction }, RpzError> {
  const { owner, type, rdata } = record;
  if (!isSubdomain(owner, apex) || owner.labelCount === apex.labelCount || TYPES_WITHOUT_POLICY.has(type)) {
    return refuse(sentence("no-rule", { text: `${formatDomainName(owner)} ${typeMnemonic(type)}` }));
  }
  const trigger = triggerOfLabels(labelsOf(owner).slice(0, owner.labelCount - apex.labelCount));
  return trigger.ok ? ok({ trigger: trigger.value, action: actionOfRecord(type, rdata) }) : trigger;
}

/** What a record of a feed is shown as. */
export interface ShownRule {
  /** In the form that {@link readRuleOwner} reads. */
  readonly trigger: string;
  readonly action: string;
  /** Why it is no rule that we would take, and is shown as the record stands; null of all others. */
  readonly fault: RpzError | null;
}

/** Begins what stands for the owner of a record that is no rule: earlier releases took more. */
const OWNER = "owner:";

/** Any record of a feed but its apex's. */
export function showRpzRecord(record: ResourceRecord, apex: DomainName): ShownRule {
  const rule = decodeRpzRule(record, apex);
  if (rule.ok) {
    const { trigger, action } = rule.value;
    return { trigger: formatRpzTrigger(trigger), action: formatRpzAction(action), fault: null };
  }
  const relative = nameFromLabels(labelsOf(record.owner).slice(0, record.owner.labelCount - apex.labelCount));
  if (!relative.ok) throw new Error(relative.error.message);
  return {
    trigger: OWNER + withoutFinalDot(formatDomainName(relative.value)),
    action: `${typeMnemonic(record.type)} ${formatRdata(record.type, record.rdata)}`,
    fault: rule.error,
  };
}

/** Where the records of a trigger stand in a feed. @param text a trigger, or `owner:` and a name below the feed's apex */
export function readRuleOwner(
  text: string,
  apex: DomainName,
): Result<{ readonly owner: DomainName; readonly trigger: string }, RpzError> {
  if (text.toLowerCase().startsWith(OWNER)) {
    const what = text.slice(OWNER.length);
    const name = parseDomainName(what);
    if (!name.ok) return refuse(sentence("bad-domain-name", { text: what, reason: name.error }));
    if (name.value.labelCount === 0) return refuse(sentence("rule-for-root"));
    const owner = nameFromLabels([...labelsOf(name.value), ...labelsOf(apex)]);
    if (!owner.ok) return refuse(sentence("rule-too-long", { trigger: text, reason: owner.error }));
    return ok({ owner: owner.value, trigger: OWNER + withoutFinalDot(formatDomainName(name.value)) });
  }
  const trigger = parseRpzTrigger(text);
  if (!trigger.ok) return trigger;
  // Of the record only the owner counts.
  const record = encodeRpzRule(trigger.value, { kind: "nxdomain" }, apex);
  return record.ok ? ok({ owner: record.value.owner, trigger: formatRpzTrigger(trigger.value) }) : record;
}

/** Why BIND would pass over a rule of the trigger: it writes IPv4-mapped addresses as IPv4, and takes no other form of them. */
export function whyPassedOver(trigger: RpzTrigger): RpzError | undefined {
  const block = "block" in trigger ? ipv4OfMapped(trigger.block) : undefined;
  if (!block) return undefined;
  return sentence("mapped-addresses", {
    text: formatRpzTrigger(trigger),
    ipv4: formatRpzTrigger({ ...trigger, block } as RpzTrigger),
  });
}

type PolicyKind = Exclude<RpzAction["kind"], "local-data">;

/** Targets of the CNAME that says what to do (draft-vixie-dnsop-dns-rpz §3). */
const ACTION_TARGETS: ReadonlyMap<PolicyKind, DomainName> = new Map([
  ["nxdomain", ROOT],
  ["nodata", wellKnownName("*")],
  ["passthru", wellKnownName("rpz-passthru")],
  ["drop", wellKnownName("rpz-drop")],
  ["tcp-only", wellKnownName("rpz-tcp-only")],
]);

const ACTION_BY_TARGET = new Map([...ACTION_TARGETS].map(([kind, target]) => [target.key, kind]));

/** Types that consumers do not take for local data: what makes a zone, and what signs it. */
const TYPES_WITHOUT_POLICY: ReadonlySet<number> = new Set([
  TYPE.SOA,
  TYPE.NS,
  TYPE.DNAME,
  TYPE.RRSIG,
  TYPE.NSEC,
  TYPE.NSEC3,
  TYPE.NSEC3PARAM,
  TYPE.DNSKEY,
  TYPE.DS,
]);

/** Last label of the owner, below the apex, by kind of trigger. */
const TRIGGER_LABELS = {
  ip: "rpz-ip",
  "client-ip": "rpz-client-ip",
  nsip: "rpz-nsip",
  nsdname: "rpz-nsdname",
} as const;

const KIND_BY_LABEL = new Map(
  Object.entries(TRIGGER_LABELS).map(([kind, label]) => [label as string, kind as keyof typeof TRIGGER_LABELS]),
);

function wellKnownName(label: string): DomainName {
  const name = nameFromLabels([Buffer.from(label, "latin1")]);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}

function nameTrigger(kind: "qname" | "nsdname", text: string): Result<RpzTrigger, RpzError> {
  const name = parseDomainName(text);
  if (!name.ok) return refuse(sentence("bad-domain-name", { text, reason: name.error }));
  if (name.value.labelCount === 0) return refuse(sentence("rule-for-root"));
  const marked = whyMarked(name.value, text);
  return marked ? refuse(marked) : ok({ kind, name: name.value });
}

/** Why a name, as it was written, cannot be one that a rule is about: in a policy zone it stands for something else. */
export function whyMarked(name: DomainName, text: string): RpzError | undefined {
  const label = textOf(labelsOf(ancestorOf(name, 1))[0]!);
  return KIND_BY_LABEL.has(label) ? sentence("trigger-mark", { text, label }) : undefined;
}

function triggerLabels(trigger: RpzTrigger): Uint8Array[] {
  if (trigger.kind === "qname") return labelsOf(trigger.name);
  const marker = Buffer.from(TRIGGER_LABELS[trigger.kind], "latin1");
  if ("name" in trigger) return [...labelsOf(trigger.name), marker];
  return [...blockLabels(trigger.block).map((label) => Buffer.from(label, "latin1")), marker];
}

/** `24.0.2.0.192`; IPv6 as words in hexadecimal from the last, the longest run of zeros as `zz`. */
function blockLabels({ address, prefixLength }: AddressBlock): string[] {
  if (address.length === 4) return [String(prefixLength), ...[...address].reverse().map(String)];
  const view = new DataView(address.buffer, address.byteOffset, 16);
  const words = Array.from({ length: 8 }, (_, index) => view.getUint16(index * 2));
  const run = longestZeroRun(words);
  const texts = words.map((word) => word.toString(16));
  if (run.length >= 2) texts.splice(run.start, run.length, "zz");
  return [String(prefixLength), ...texts.reverse()];
}

function triggerOfLabels(labels: readonly Uint8Array[]): Result<RpzTrigger, RpzError> {
  const kind = KIND_BY_LABEL.get(textOf(labels.at(-1)!));
  if (kind === undefined || kind === "nsdname") {
    const name = nameFromLabels(kind === undefined ? labels : labels.slice(0, -1));
    if (!name.ok) return refuse(name.error);
    if (name.value.labelCount === 0) return refuse(sentence("rule-without-name"));
    return ok({ kind: kind ?? "qname", name: name.value });
  }
  const texts = labels.slice(0, -1).map(textOf);
  const block = parseAddressBlock(blockText(texts), LEAST_PREFIX);
  if (!block.ok) return block;
  // Consumers ignore what is not in the canonical form.
  const isCanonical = blockLabels(block.value).join(".") === texts.join(".");
  return isCanonical ? ok({ kind, block: block.value }) : refuse(sentence("not-canonical", { text: texts.join(".") }));
}

function blockText([prefix = "", ...reversed]: readonly string[]): string {
  const parts = [...reversed].reverse();
  if (parts.length === 4 && !parts.includes("zz")) return `${parts.join(".")}/${prefix}`;
  return `${parts.join(":").replace(/(?:^|:)zz(?:$|:)/, "::")}/${prefix}`;
}

function actionOfRecord(type: number, rdata: Uint8Array): RpzAction {
  const kind = type === TYPE.CNAME ? ACTION_BY_TARGET.get(textOf(rdata)) : undefined;
  return kind === undefined ? { kind: "local-data", type, rdata } : { kind };
}

/** Octets as lower-case text. */
function textOf(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1").toLowerCase();
}

function withoutFinalDot(text: string): string {
  return text.length > 1 && text.endsWith(".") ? text.slice(0, -1) : text;
}
