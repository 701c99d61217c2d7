import { ok, type Result, refuse } from "../result.ts";
import {
  ancestorOf,
  type DomainName,
  domainNameFromWire,
  formatDomainName,
  isSubdomain,
  labelsOf,
  sameName,
} from "./name.ts";
import { rdataNames } from "./rdata/rdata.ts";
import { MAX_TTL_SECONDS, type ResourceRecord } from "./record.ts";
import { isMetaType, TYPE, typeMnemonic } from "./rr-types.ts";

/** Why a zone may not be as a change would leave it. */
export interface ZoneRefusal {
  readonly message: string;
  /** The record that is in the way, where there is one. */
  readonly record?: ResourceRecord;
}

/**
 * All records but the SOA at the owner names that a change touches, as they would be after it.
 * Keys are `DomainName.key`; a name that is left empty has an empty list.
 */
export type RecordsByOwner = ReadonlyMap<string, readonly ResourceRecord[]>;

/**
 * Refuses what no zone may hold: data outside the zone, lawless TTLs and types, a CNAME beside other data or a second
 * one (RFC 1034 §3.6.2, RFC 2181 §10.1), two DNAMEs at a name (RFC 6672 §2.4), an apex without NS. The records at the
 * touched names are all that it takes, so the size of the zone does not matter.
 */
export function checkTouchedNames(apex: DomainName, touched: RecordsByOwner): Result<void, ZoneRefusal> {
  const isReverse = isReverseName(apex);
  for (const [ownerKey, records] of touched) {
    const refusal = recordRefusal(apex, isReverse, records) ?? nameRefusal(apex, ownerKey === apex.key, records);
    if (refusal !== undefined) return refuse(refusal);
  }
  return ok(undefined);
}

/** Whether records of the type can be put into the zone: not SOA, no meta types, in reverse zones NS and PTR only. */
export function checkRecordType(apex: DomainName, type: number): Result<void, ZoneRefusal> {
  const message = typeRefusal(type, isReverseName(apex));
  return message === undefined ? ok(undefined) : refuse({ message });
}

/** Whether a zone of this name may be made, and whether it is a reverse one. */
export function checkZoneName(name: DomainName): Result<{ readonly reverse: boolean }, { readonly message: string }> {
  const text = formatDomainName(name);
  if (name.labelCount === 0) return refuse({ message: "the root cannot be a zone here" });
  if (!isReverseName(name)) return ok({ reverse: false });
  const labels = labelsOf(name).map((label) => Buffer.from(label).toString("latin1").toLowerCase());
  const prefix = labels.slice(0, -2);
  if (labels.at(-2) === "in-addr") {
    const isSlash24 =
      prefix.length === 3 && prefix.every((label) => /^(?:0|[1-9]\d{0,2})$/.test(label) && Number(label) <= 255);
    if (!isSlash24) return refuse({ message: `${text} is not the reverse name of an IPv4 /24` });
  } else if (prefix.length === 0 || prefix.length > 32 || !prefix.every((label) => /^[0-9a-f]$/.test(label))) {
    return refuse({ message: `${text} is not the nibble-reversed name of an IPv6 prefix` });
  }
  return ok({ reverse: true });
}

/** Whether the name ends in in-addr.arpa or ip6.arpa. */
export function isReverseName(name: DomainName): boolean {
  return name.labelCount >= 2 && REVERSE_SUFFIX_KEYS.has(ancestorOf(name, 2).key);
}

/** Whether the name has host name syntax: letters, digits and inner hyphens (RFC 952, RFC 1123 §2.1). */
export function isHostName(name: DomainName): boolean {
  return (
    name.labelCount > 0 &&
    labelsOf(name).every((label) => /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/i.test(Buffer.from(label).toString("latin1")))
  );
}

/** What {@link findWarnings} has to know of the zone around a change. */
export interface Surroundings {
  /** Names whose own records are needed: targets, ancestors, the primary server. */
  readonly names: readonly DomainName[];
  /** Names below which any record is needed: new zone cuts and DNAMEs. A few records of each do. */
  readonly subtrees: readonly DomainName[];
}

/** The zone around a change, after it. */
export interface ZoneView {
  /** All records but the SOA at the name. */
  recordsAt(name: DomainName): readonly ResourceRecord[];
  /** Some or all records strictly below the name. */
  recordsBelow(name: DomainName): readonly ResourceRecord[];
}

/**
 * The names to look up before {@link findWarnings} is asked about the same records.
 * @param changed records that are new or modified
 * @param mname the primary server of the SOA, when that is new or changed
 */
export function surroundingsOf(apex: DomainName, changed: readonly ResourceRecord[], mname?: DomainName): Surroundings {
  const names = new Map<string, DomainName>();
  const subtrees = new Map<string, DomainName>();
  const note = (name: DomainName): void => {
    if (isSubdomain(name, apex)) names.set(name.key, name);
  };
  for (const record of changed) {
    for (const ancestor of ancestorsInZone(record.owner, apex)) note(ancestor);
    const target = targetOf(record);
    if (target !== undefined) note(target);
    if (occludes(record, apex)) {
      note(record.owner);
      subtrees.set(record.owner.key, record.owner);
    }
  }
  if (mname !== undefined) note(mname);
  return { names: [...names.values()], subtrees: [...subtrees.values()] };
}

/**
 * Doubtful but lawful data, in words, each once: data below a DNAME or a zone cut, MX or NS targets that are CNAMEs in
 * the zone, name servers of the zone without an address in it, and the same for `mname`.
 * @param changed records that are new or modified
 * @param mname the primary server of the SOA, when that is new or changed
 */
export function findWarnings(
  apex: DomainName,
  changed: readonly ResourceRecord[],
  view: ZoneView,
  mname?: DomainName,
): string[] {
  const warnings = new Set<string>();
  const factsAt = rememberFacts(apex, view);
  for (const record of changed) {
    for (const warning of occlusionWarnings(apex, record, { factsAt, view })) warnings.add(warning);
    const warning = targetWarning(apex, record, factsAt);
    if (warning !== undefined) warnings.add(warning);
  }
  if (mname !== undefined && isSubdomain(mname, apex) && !factsAt(mname).hasAddress) {
    warnings.add(`mname ${formatDomainName(mname)} has no address in the zone`);
  }
  return [...warnings];
}

/**
 * Every check on a whole zone, for imports.
 * @param zone.records all records but the SOA
 * @returns the warnings, or the first refusal
 */
export function checkWholeZone(zone: {
  readonly apex: DomainName;
  readonly mname?: DomainName;
  readonly records: readonly ResourceRecord[];
}): Result<string[], ZoneRefusal> {
  const byOwner = new Map<string, ResourceRecord[]>([[zone.apex.key, []]]);
  for (const record of zone.records) {
    const siblings = byOwner.get(record.owner.key);
    if (siblings === undefined) byOwner.set(record.owner.key, [record]);
    else siblings.push(record);
  }
  const checked = checkTouchedNames(zone.apex, byOwner);
  if (!checked.ok) return checked;
  const view: ZoneView = {
    recordsAt: (name) => byOwner.get(name.key) ?? [],
    // Every record is among the changed and looks up to what may hide it.
    recordsBelow: () => [],
  };
  return ok(findWarnings(zone.apex, zone.records, view, zone.mname));
}

const REVERSE_SUFFIX_KEYS: ReadonlySet<string> = new Set(["\x07in-addr\x04arpa\0", "\x03ip6\x04arpa\0"]);

/** What RFC 4034 §2.5 and RFC 2181 §10.1 let stand beside a CNAME. */
const ALLOWED_BESIDE_CNAME: ReadonlySet<number> = new Set([
  TYPE.CNAME,
  TYPE.RRSIG,
  TYPE.NSEC,
  TYPE.SIG,
  TYPE.KEY,
  TYPE.NXT,
]);

function typeRefusal(type: number, isReverse: boolean): string | undefined {
  if (type === TYPE.SOA) return "the SOA record is no ordinary record: it has an operation of its own";
  if (isMetaType(type)) return `${typeMnemonic(type)} is not a type of data`;
  if (!isReverse || type === TYPE.NS || type === TYPE.PTR) return undefined;
  return `a reverse zone accepts only NS and PTR records, not ${typeMnemonic(type)}`;
}

/** What is wrong with a record by itself. */
function recordRefusal(
  apex: DomainName,
  isReverse: boolean,
  records: readonly ResourceRecord[],
): ZoneRefusal | undefined {
  for (const record of records) {
    const { owner, type, ttl } = record;
    if (!isSubdomain(owner, apex)) return { message: `${formatDomainName(owner)} is outside the zone`, record };
    if (ttl > MAX_TTL_SECONDS) return { message: `the TTL ${ttl} is above ${MAX_TTL_SECONDS}`, record };
    const message = typeRefusal(type, isReverse);
    if (message !== undefined) return { message, record };
  }
  return undefined;
}

/** What is wrong with the records of one name together. */
function nameRefusal(apex: DomainName, isApex: boolean, records: readonly ResourceRecord[]): ZoneRefusal | undefined {
  const [cname, secondCname] = records.filter(({ type }) => type === TYPE.CNAME);
  const secondDname = records.filter(({ type }) => type === TYPE.DNAME)[1];
  const other = records.find(({ type }) => !ALLOWED_BESIDE_CNAME.has(type));
  const second = secondCname ?? secondDname;
  if (second !== undefined) {
    return { message: `a second ${typeMnemonic(second.type)} at ${formatDomainName(second.owner)}`, record: second };
  }
  if (cname !== undefined && isApex) {
    return { message: "a CNAME cannot stand at the apex, beside the SOA", record: cname };
  }
  if (cname !== undefined && other !== undefined) {
    const at = formatDomainName(cname.owner);
    return { message: `a CNAME beside other data (${typeMnemonic(other.type)}) at ${at}`, record: cname };
  }
  if (isApex && !records.some(({ type }) => type === TYPE.NS)) {
    return { message: `the apex ${formatDomainName(apex)} needs an NS record` };
  }
  return undefined;
}

/** The proper ancestors of a name from the apex down. */
function ancestorsInZone(name: DomainName, apex: DomainName): DomainName[] {
  const ancestors: DomainName[] = [];
  for (let count = apex.labelCount; count < name.labelCount; count += 1) ancestors.push(ancestorOf(name, count));
  return ancestors;
}

/** Whether the record hides what is below its owner: a DNAME, or the NS of a delegation. */
function occludes({ owner, type }: ResourceRecord, apex: DomainName): boolean {
  return type === TYPE.DNAME || (type === TYPE.NS && !sameName(owner, apex));
}

/** What the warnings have to know of a name. */
interface NameFacts {
  readonly hasAddress: boolean;
  readonly hasCname: boolean;
  /** What hides the names below: a DNAME or a zone cut. */
  readonly hiding: "the DNAME" | "the zone cut" | undefined;
  /** Keys of the names that the NS records of a cut point to: their addresses are glue. */
  readonly glueKeys: ReadonlySet<string>;
}

type FactsAt = (name: DomainName) => NameFacts;

/** Looks at the records of each name once, however many records of the zone have to do with it. */
function rememberFacts(apex: DomainName, view: ZoneView): FactsAt {
  const known = new Map<string, NameFacts>();
  return (name) => {
    const facts = known.get(name.key) ?? factsOf(apex, view.recordsAt(name));
    known.set(name.key, facts);
    return facts;
  };
}

function factsOf(apex: DomainName, records: readonly ResourceRecord[]): NameFacts {
  const cut = records.filter((record) => occludes(record, apex));
  const hasDname = cut.some(({ type }) => type === TYPE.DNAME);
  return {
    hasAddress: records.some(isAddress),
    hasCname: records.some(({ type }) => type === TYPE.CNAME),
    hiding: hasDname ? "the DNAME" : cut.length > 0 ? "the zone cut" : undefined,
    glueKeys: new Set(cut.flatMap((record) => targetOf(record)?.key ?? [])),
  };
}

function occlusionWarnings(
  apex: DomainName,
  record: ResourceRecord,
  { factsAt, view }: { readonly factsAt: FactsAt; readonly view: ZoneView },
): string[] {
  const warnings = ancestorsInZone(record.owner, apex).map((ancestor) =>
    hiddenBelow(ancestor, factsAt(ancestor), record),
  );
  if (occludes(record, apex)) {
    const facts = factsAt(record.owner);
    for (const below of view.recordsBelow(record.owner)) warnings.push(hiddenBelow(record.owner, facts, below));
  }
  return warnings.filter((warning) => warning !== undefined);
}

/** What is said of a record that lies below a name with these facts. */
function hiddenBelow(
  ancestor: DomainName,
  { hiding, glueKeys }: NameFacts,
  record: ResourceRecord,
): string | undefined {
  if (hiding === undefined || (isAddress(record) && glueKeys.has(record.owner.key))) return undefined;
  const data = `${formatDomainName(record.owner)} ${typeMnemonic(record.type)}`;
  return `${data} lies below ${hiding} at ${formatDomainName(ancestor)} and is not served as an answer`;
}

function targetWarning(apex: DomainName, record: ResourceRecord, factsAt: FactsAt): string | undefined {
  const target = targetOf(record);
  if (target === undefined || !isSubdomain(target, apex)) return undefined;
  const { hasCname, hasAddress } = factsAt(target);
  const data = `the ${typeMnemonic(record.type)} of ${formatDomainName(record.owner)}`;
  const place = `${data} points to ${formatDomainName(target)}`;
  if (hasCname) return `${place}, which is a CNAME`;
  if (record.type !== TYPE.NS || hasAddress) return undefined;
  return `${place}, which has no address in the zone (missing glue)`;
}

/** Where an MX or NS record points. */
function targetOf({ type, rdata }: ResourceRecord): DomainName | undefined {
  if (type !== TYPE.MX && type !== TYPE.NS) return undefined;
  const [name] = rdataNames(type, rdata);
  const target = name && domainNameFromWire(rdata, name.offset);
  // RFC 7505: a null MX points to the root, which is no host.
  return target?.ok && target.value.labelCount > 0 ? target.value : undefined;
}

function isAddress({ type }: ResourceRecord): boolean {
  return type === TYPE.A || type === TYPE.AAAA;
}
