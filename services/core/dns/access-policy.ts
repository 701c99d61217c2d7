import { invalidField, type Refusal } from "../refusal.ts";
import { ok, type Result, refuse } from "../result.ts";
import { formatAddressBlock, parseAddressBlock, readAddressBlock } from "./address-block.ts";
import { type DomainName, MAX_NAME_OCTETS, withAncestors } from "./name.ts";
import { formatPattern, leastOctetsOfBoth, matchesPattern, type NamePattern, readPattern } from "./name-pattern.ts";
import { POLICY_VERBS, type PolicyVerb, RECORD_VERBS, type RecordVerb } from "./policy-verbs.ts";
import { isMetaType, typeCode, typeMnemonic } from "./rr-types.ts";

/**
 * What a token or a TSIG key may do, within what its owner may. Plain data, so that it travels between threads.
 * Nulls do not restrict; lists are never empty, but for `verbs`: without any it is for reading alone.
 */
export interface AccessPolicy {
  /** Address blocks in CIDR form that requests may come from. */
  readonly networks: readonly string[] | null;
  /** Names of zones. */
  readonly zones: readonly NamePattern[] | null;
  /** Names that own records. */
  readonly names: readonly NamePattern[] | null;
  readonly types: readonly number[] | null;
  readonly verbs: readonly PolicyVerb[];
}

/** A policy as somebody writes it down, and as it is stored and shown. */
export interface PolicyText {
  readonly access: "read" | "write";
  readonly networks?: readonly string[] | null | undefined;
  readonly zones?: readonly string[] | null | undefined;
  readonly names?: readonly string[] | null | undefined;
  readonly types?: readonly string[] | null | undefined;
  /** Those of records when absent. */
  readonly verbs?: readonly PolicyVerb[] | null | undefined;
}

/** The parts of a policy, any of which may refuse. */
export type PolicyPart = "networks" | "zones" | "names" | "types" | "verbs";

/** Without a list of zones: zones have two labels or more, as one label needs the operator's leave. */
const ANY_ZONE: readonly NamePattern[] = [[{ wild: "**" }, { wild: "*" }, { wild: "*" }]];

const MOST_ENTRIES = 100;

/** Labels of all entries of one list, which are compared with all of another: twenty an entry where there are most of them. */
const MOST_LABELS = 2_000;

/** Octets of a policy as it is stored: lists of tokens show many. */
const MOST_OCTETS = 16 * 1024;

/** Refuses what is no policy, contradicts itself, or could never let anything pass. */
export function readPolicy(text: PolicyText): Result<AccessPolicy, Refusal> {
  const policy = parsePolicy(text);
  if (!policy.ok) return policy;
  const unfit = findTooLong(policy.value) ?? findUseless(policy.value);
  return unfit ? refuse(unfit) : policy;
}

/** A policy that was found useful when it was made, as it is stored. Refuses what is no policy. */
export function parsePolicy(text: PolicyText): Result<AccessPolicy, Refusal> {
  const networks = readList("networks", text.networks, readNetwork);
  if (!networks.ok) return networks;
  const zones = readList("zones", text.zones, (entry) => readName("zones", entry));
  if (!zones.ok) return zones;
  const names = readList("names", text.names, (entry) => readName("names", entry));
  if (!names.ok) return names;
  const types = readList("types", text.types, readType);
  if (!types.ok) return types;
  const verbs = readVerbs(text);
  if (!verbs.ok) return verbs;
  return ok({
    networks: networks.value,
    zones: zones.value,
    names: names.value,
    types: types.value,
    verbs: verbs.value,
  });
}

export function showPolicy({ networks, zones, names, types, verbs }: AccessPolicy): Required<PolicyText> {
  return {
    access: verbs.length === 0 ? "read" : "write",
    networks,
    zones: zones?.map(formatPattern) ?? null,
    names: names?.map(formatPattern) ?? null,
    types: types?.map(typeMnemonic) ?? null,
    verbs,
  };
}

/** Whether it is for a zone of this name at all, of which then at least something may be read. */
export function coversZone({ zones }: AccessPolicy, apex: DomainName): boolean {
  return zones === null || zones.some((pattern) => matchesPattern(pattern, apex));
}

/** Whether all records of its zones may be read. */
export function coversWholeZones({ names, types }: AccessPolicy): boolean {
  return names === null && types === null;
}

/** Whether a record of a zone that is covered may be read. */
export function coversRecord(
  policy: AccessPolicy,
  { owner, type }: { readonly owner: DomainName; readonly type: number },
): boolean {
  return coversName(policy, owner) && coversType(policy, type);
}

/** Whether some record of this name may be read. */
export function coversName({ names }: AccessPolicy, owner: DomainName): boolean {
  return names === null || names.some((pattern) => matchesPattern(pattern, owner));
}

/** Whether some record of this type may be read. */
export function coversType({ types }: AccessPolicy, type: number): boolean {
  return types === null || types.includes(type);
}

/** What of a policy does not let an RRset be changed so; undefined when all of it does. What may be made and deleted may be replaced. */
export function refusingPart(
  policy: AccessPolicy,
  { owner, type, verb }: { readonly owner: DomainName; readonly type: number; readonly verb: RecordVerb },
): PolicyPart | undefined {
  if (!mayDo(policy, verb)) return "verbs";
  if (!coversName(policy, owner)) return "names";
  return coversType(policy, type) ? undefined : "types";
}

export function mayDo({ verbs }: AccessPolicy, verb: PolicyVerb): boolean {
  return verbs.includes(verb) || (verb === "modify" && verbs.includes("create") && verbs.includes("delete"));
}

/** What a policy lets somebody do with records of a name. */
export interface Permissions {
  readonly read: boolean;
  readonly verbs: readonly RecordVerb[];
  /** What refuses, where nothing may be done. */
  readonly refusedBy: PolicyPart | null;
}

/** @param type null: of any type, so that a list of types does not count */
export function permissionsFor(policy: AccessPolicy, owner: DomainName, type: number | null): Permissions {
  const isInZone = withAncestors(owner).some((apex) => coversZone(policy, apex));
  const refused = !isInZone
    ? "zones"
    : !coversName(policy, owner)
      ? "names"
      : type !== null && !coversType(policy, type)
        ? "types"
        : null;
  if (refused) return { read: false, verbs: [], refusedBy: refused };
  return { read: true, verbs: RECORD_VERBS.filter((verb) => mayDo(policy, verb)), refusedBy: null };
}

/** Whether records may be changed without a look at each. */
export function mayChangeAll(policy: AccessPolicy): boolean {
  return coversWholeZones(policy) && RECORD_VERBS.every((verb) => mayDo(policy, verb));
}

function readList<Entry>(
  field: string,
  texts: readonly string[] | null | undefined,
  read: (text: string) => Result<Entry, Refusal>,
): Result<readonly Entry[] | null, Refusal> {
  if (texts === null || texts === undefined) return ok(null);
  if (texts.length === 0) return refuse(invalidField(field, "policy-empty-list"));
  if (texts.length > MOST_ENTRIES) return refuse(invalidField(field, "policy-list-too-long", { most: MOST_ENTRIES }));
  const entries = new Map<string, Entry>();
  for (const text of texts) {
    const entry = read(text);
    if (!entry.ok) return entry;
    entries.set(JSON.stringify(entry.value), entry.value);
  }
  return ok([...entries.values()]);
}

function readNetwork(text: string): Result<string, Refusal> {
  const block = parseAddressBlock(text);
  return block.ok ? ok(formatAddressBlock(block.value)) : refuse(invalidField("networks", block.error));
}

function readName(field: string, text: string): Result<NamePattern, Refusal> {
  const pattern = readPattern(text);
  return pattern.ok ? pattern : refuse(invalidField(field, "for-name", { name: text, reason: pattern.error }));
}

function readType(text: string): Result<number, Refusal> {
  const code = typeCode(text.toUpperCase());
  return code === undefined || isMetaType(code) ? refuse(invalidField("types", "policy-no-type", { text })) : ok(code);
}

function readVerbs({ access, verbs }: PolicyText): Result<readonly PolicyVerb[], Refusal> {
  if (access === "read") {
    return verbs && verbs.length > 0 ? refuse(invalidField("verbs", "policy-reads-alone")) : ok([]);
  }
  const given = verbs ?? RECORD_VERBS;
  if (given.length === 0) return refuse(invalidField("verbs", "policy-empty-list"));
  return ok(POLICY_VERBS.filter((verb) => given.includes(verb)));
}

function findTooLong(policy: AccessPolicy): Refusal | undefined {
  const labelsOf = (patterns: readonly NamePattern[] | null) => patterns?.flat().length ?? 0;
  const field = (["zones", "names"] as const).find((list) => labelsOf(policy[list]) > MOST_LABELS);
  if (field) return invalidField(field, "policy-too-many-labels", { most: MOST_LABELS });
  const { names, ...others } = showPolicy(policy);
  const octetsOf = (part: unknown) => Buffer.byteLength(JSON.stringify(part));
  const [ofNames, ofOthers] = [octetsOf(names), octetsOf(others)];
  if (ofNames + ofOthers <= MOST_OCTETS) return undefined;
  return invalidField(ofNames > ofOthers ? "names" : "zones", "policy-too-long", { most: MOST_OCTETS });
}

/** What of a policy lets nothing pass. */
function findUseless(policy: AccessPolicy): Refusal | undefined {
  const { networks, zones, names, verbs } = policy;
  for (const network of networks ?? []) {
    const block = readAddressBlock(network);
    if (!block.ok) return invalidField("networks", block.error);
  }
  const ofZones = verbs.find((verb) => !(RECORD_VERBS as readonly string[]).includes(verb));
  if (ofZones !== undefined && !coversWholeZones(policy))
    return invalidField("verbs", "policy-whole-zones", { verb: ofZones });
  for (const pattern of names ?? []) {
    const isPossible = (zones ?? ANY_ZONE).some(
      (zone) => leastOctetsOfBoth(pattern, [{ wild: "**" }, ...zone]) <= MAX_NAME_OCTETS,
    );
    if (!isPossible) return invalidField("names", "policy-no-such-name", { pattern: formatPattern(pattern) });
  }
  for (const pattern of zones ?? []) {
    const isNeeded =
      !names || names.some((name) => leastOctetsOfBoth(name, [{ wild: "**" }, ...pattern]) <= MAX_NAME_OCTETS);
    if (!isNeeded) return invalidField("zones", "policy-no-such-name", { pattern: formatPattern(pattern) });
  }
  return undefined;
}
