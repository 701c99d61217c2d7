import { type Sentence, sentence } from "../sentences.ts";
import { runAtOnce, type Steps } from "../steps.ts";
import { isCostlyToHash } from "./dnssec/denial.ts";
import {
  ancestorOf,
  type DomainName,
  domainNameFromWire,
  formatDomainName,
  isSubdomain,
  isWildcard,
  sameName,
} from "./name.ts";
import { numberOf } from "./rdata/basic-fields.ts";
import { rdataNames } from "./rdata/rdata.ts";
import type { ResourceRecord } from "./record.ts";
import { TYPE, typeMnemonic } from "./rr-types.ts";
import { WarningList } from "./warning-list.ts";

/** What {@link findWarnings} has to know of the zone around a change. */
export interface Surroundings {
  /** Names whose own records are needed: the changed ones, targets, ancestors, the primary server. */
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
    note(record.owner);
    const target = targetOf(record);
    if (target !== undefined) note(target);
    if (occludes(record, apex)) subtrees.set(record.owner.key, record.owner);
  }
  if (mname !== undefined) note(mname);
  return { names: [...names.values()], subtrees: [...subtrees.values()] };
}

/**
 * The names at which a change alters what others that point there rely on: a CNAME has appeared, or the last address
 * has gone. Records elsewhere that point to them become doubtful without being touched.
 * @param after all records at the names that the change touches, as they will be; by `DomainName.key`
 */
export function alteredTargets(
  difference: { readonly deleted: readonly ResourceRecord[]; readonly added: readonly ResourceRecord[] },
  after: ReadonlyMap<string, readonly ResourceRecord[]>,
): DomainName[] {
  const hadCname = new Set(difference.deleted.filter(isCname).map(({ owner }) => owner.key));
  const newCnames = difference.added.filter((record) => isCname(record) && !hadCname.has(record.owner.key));
  const lostAddresses = difference.deleted.filter(
    (record) => isAddress(record) && !after.get(record.owner.key)?.some(isAddress),
  );
  return [...new Map([...newCnames, ...lostAddresses].map(({ owner }) => [owner.key, owner])).values()];
}

/** A change of a zone, as far as its warnings go. */
export interface DoubtfulChange {
  readonly apex: DomainName;
  /** Records that are new or modified. */
  readonly changed: readonly ResourceRecord[];
  /** Untouched records that point to {@link alteredTargets}. */
  readonly pointing?: readonly ResourceRecord[] | undefined;
  /** The primary server of the SOA, when that is new, or its addresses went. */
  readonly mname?: DomainName | undefined;
}

/**
 * Doubtful but lawful data, each once: data below a DNAME, and below or at a zone cut, MX, NS or SRV targets that are
 * CNAMEs in the zone, name servers of the zone without an address in it, the same for `mname`, parameters that clients
 * ignore, NSEC3 that costs too much, DS at the apex, and what BIND refuses as a secondary. The list is bounded ({@link WarningList}).
 */
export function findWarnings(change: DoubtfulChange, view: ZoneView): Sentence[] {
  return runAtOnce(findWarningsSteps(change, view));
}

/** As {@link findWarnings}, in steps, for whole zones. */
export function* findWarningsSteps(
  { apex, changed, pointing = [], mname }: DoubtfulChange,
  view: ZoneView,
): Steps<Sentence[]> {
  const warnings = new WarningList();
  const factsAt = rememberFacts(apex, view);
  const besideCutAt = rememberCuts(apex, view, factsAt);
  for (const record of changed) {
    if (warnings.isFull) break;
    for (const warning of occlusionWarnings(apex, record, { factsAt, view })) warnings.add(warning);
    for (const warning of besideCutAt(record.owner)) warnings.add(warning);
    yield;
  }
  for (const record of [...changed, ...pointing]) {
    if (warnings.isFull) break;
    const warning =
      targetWarning(apex, record, factsAt) ?? aliasWarning(record) ?? denialWarning(record) ?? dsWarning(apex, record);
    if (warning !== undefined) warnings.add(warning);
    yield;
  }
  const refusalsAt = rememberRefusals(apex, view);
  for (const { owner } of changed) {
    if (warnings.isFull) break;
    for (const warning of refusalsAt(owner)) warnings.add(warning);
    yield;
  }
  if (mname !== undefined && isSubdomain(mname, apex) && !factsAt(mname).hasAddress) {
    warnings.add(sentence("mname-without-address", { name: formatDomainName(mname) }));
  }
  return warnings.sentences();
}

/**
 * What a new serial makes void: in a zone whose DNSSEC records were brought in the signature of its SOA (RFC 4034 §3.1.8.1), and
 * in any zone what {@link digestWarnings} names.
 * @param records all of the zone, or those at its apex, as they will be
 */
export function outdatedWarnings(zone: DigestedZone, serial: number, records: readonly ResourceRecord[]): Sentence[] {
  const { apex } = zone;
  const isSigned = records.some((record) => isSoaSignature(record) && sameName(record.owner, apex));
  const signature = isSigned ? [sentence("signature-outdated", { domain: formatDomainName(apex), serial })] : [];
  return [...signature, ...digestWarnings(zone, serial, records)];
}

/** A zone, and whether it is signed here. */
interface DigestedZone {
  readonly apex: DomainName;
  readonly signed: boolean;
}

/**
 * Of a zone with digests none of which can be of it: their serials are other than the SOA's (RFC 8976 §4), or the zone is signed
 * here, so that nobody else knows all of its records.
 * @param records as of {@link outdatedWarnings}
 */
export function digestWarnings(
  { apex, signed }: DigestedZone,
  serial: number,
  records: readonly ResourceRecord[],
): Sentence[] {
  const digests = records.filter(({ type, owner }) => type === TYPE.ZONEMD && sameName(owner, apex));
  if (digests.length === 0) return [];
  const domain = formatDomainName(apex);
  if (signed) return [sentence("digest-of-signed", { domain })];
  const isCurrent = digests.some(({ rdata }) => numberOf(rdata.subarray(0, 4)) === serial);
  return isCurrent ? [] : [sentence("digest-outdated", { domain, serial })];
}

/** RFC 4034 §3.1.1: an RRSIG begins with the type that it covers. */
function isSoaSignature({ type, rdata }: ResourceRecord): boolean {
  return type === TYPE.RRSIG && rdata[0] === 0 && rdata[1] === TYPE.SOA;
}

/** The proper ancestors of a name from the apex down. */
function* ancestorsInZone(name: DomainName, apex: DomainName): Generator<DomainName, void> {
  for (let count = apex.labelCount; count < name.labelCount; count += 1) yield ancestorOf(name, count);
}

/** Whether the record hides what is below its owner: a DNAME, or the NS of a delegation. */
function occludes({ owner, type }: ResourceRecord, apex: DomainName): boolean {
  return type === TYPE.DNAME || (type === TYPE.NS && !sameName(owner, apex));
}

/** What the warnings have to know of a name. */
interface NameFacts {
  readonly hasAddress: boolean;
  readonly hasCname: boolean;
  /** What hides the names below, a DNAME or a zone cut: by what is said of them. */
  readonly hiding: "below-dname" | "below-zone-cut" | undefined;
  /** Keys of the names that the NS records of a cut point to: their addresses are glue. */
  readonly glueKeys: ReadonlySet<string>;
}

type FactsAt = (name: DomainName) => NameFacts;

/**
 * Looks at the records of each name once, however many records of the zone have to do with it. Names without records
 * are not kept: a deep name has a hundred of them above it.
 */
function rememberFacts(apex: DomainName, view: ZoneView): FactsAt {
  const known = new Map<string, NameFacts>();
  return (name) => {
    const remembered = known.get(name.key);
    if (remembered) return remembered;
    const records = view.recordsAt(name);
    if (records.length === 0) return NO_FACTS;
    const facts = factsOf(apex, records);
    known.set(name.key, facts);
    return facts;
  };
}

const NO_GLUE: ReadonlySet<string> = new Set();
const NO_FACTS: NameFacts = { hasAddress: false, hasCname: false, hiding: undefined, glueKeys: NO_GLUE };

function factsOf(apex: DomainName, records: readonly ResourceRecord[]): NameFacts {
  const cut = records.filter((record) => occludes(record, apex));
  const hasDname = cut.some(({ type }) => type === TYPE.DNAME);
  return {
    hasAddress: records.some(isAddress),
    hasCname: records.some(isCname),
    hiding: hasDname ? "below-dname" : cut.length > 0 ? "below-zone-cut" : undefined,
    glueKeys: cut.length > 0 ? new Set(cut.flatMap((record) => targetOf(record)?.key ?? [])) : NO_GLUE,
  };
}

function occlusionWarnings(
  apex: DomainName,
  record: ResourceRecord,
  { factsAt, view }: { readonly factsAt: FactsAt; readonly view: ZoneView },
): Sentence[] {
  const hider = hiderAbove(apex, record.owner, factsAt) ?? (occludes(record, apex) ? record.owner : undefined);
  if (!hider) return [];
  const hidden = hider === record.owner ? view.recordsBelow(hider) : [record];
  return hidden.map((each) => hiddenBelow(hider, factsAt(hider), each)).filter((warning) => warning !== undefined);
}

/** The highest name above this one that hides it: nobody ever gets to a lower one. */
function hiderAbove(apex: DomainName, name: DomainName, factsAt: FactsAt): DomainName | undefined {
  for (const ancestor of ancestorsInZone(name, apex)) if (factsAt(ancestor).hiding) return ancestor;
  return undefined;
}

/** What is said of a record that lies below a name with these facts. */
function hiddenBelow(
  ancestor: DomainName,
  { hiding, glueKeys }: NameFacts,
  record: ResourceRecord,
): Sentence | undefined {
  if (hiding === undefined || (isAddress(record) && glueKeys.has(record.owner.key))) return undefined;
  const [owner, above] = [formatDomainName(record.owner), formatDomainName(ancestor)];
  return sentence(hiding, { owner, type: typeMnemonic(record.type), above });
}

/** What a zone cut has beside its NS and is answered of it (RFC 4035 §2.4 to §2.6). */
const TYPES_AT_CUT: ReadonlySet<number> = new Set([TYPE.NS, TYPE.DS, TYPE.NSEC, TYPE.RRSIG]);

/** Data at a zone cut that is answered as little as what is below it; each cut is looked at once. */
function rememberCuts(apex: DomainName, view: ZoneView, factsAt: FactsAt): (name: DomainName) => Sentence[] {
  const seen = new Set<string>();
  return (name) => {
    const records = view.recordsAt(name);
    if (records.length < 2) return [];
    const { hiding, glueKeys } = factsAt(name);
    if (hiding !== "below-zone-cut" || seen.has(name.key)) return [];
    seen.add(name.key);
    // Below another cut or a DNAME that is said of all of them.
    if (hiderAbove(apex, name, factsAt)) return [];
    const hidden = records.filter(
      (record) => !TYPES_AT_CUT.has(record.type) && !(isAddress(record) && glueKeys.has(name.key)),
    );
    const owner = formatDomainName(name);
    return hidden.map(({ type }) => sentence("at-zone-cut", { owner, type: typeMnemonic(type) }));
  };
}

function targetWarning(apex: DomainName, record: ResourceRecord, factsAt: FactsAt): Sentence | undefined {
  const target = targetOf(record);
  if (target === undefined || !isSubdomain(target, apex)) return undefined;
  const { hasCname, hasAddress } = factsAt(target);
  const place = {
    type: typeMnemonic(record.type),
    owner: formatDomainName(record.owner),
    target: formatDomainName(target),
  };
  if (hasCname) return sentence("target-is-alias", place);
  return record.type !== TYPE.NS || hasAddress ? undefined : sentence("no-glue", place);
}

/** RFC 9460 §2.4.2: in AliasMode, which is SvcPriority 0, clients ignore parameters. */
function aliasWarning({ owner, type, rdata }: ResourceRecord): Sentence | undefined {
  if (type !== TYPE.SVCB && type !== TYPE.HTTPS) return undefined;
  const [target] = rdataNames(type, rdata);
  const isAlias = rdata[0] === 0 && rdata[1] === 0;
  if (!target || !isAlias || target.offset + target.length === rdata.length) return undefined;
  return sentence("alias-with-parameters", { owner: formatDomainName(owner), type: typeMnemonic(type) });
}

/** NSEC3 parameters by which our servers, for what it would cost them, do not deny. */
function denialWarning({ type, rdata }: ResourceRecord): Sentence | undefined {
  return type === TYPE.NSEC3PARAM && isCostlyToHash(rdata) ? sentence("nsec3-costly") : undefined;
}

/** RFC 4035 §2.4: the DS of a zone is its parent's, which answers for it. */
function dsWarning(apex: DomainName, { owner, type }: ResourceRecord): Sentence | undefined {
  return type === TYPE.DS && sameName(owner, apex)
    ? sentence("ds-at-apex", { owner: formatDomainName(owner) })
    : undefined;
}

/** BIND's `max-records-per-type`, unless its configuration has another. */
const BIND_RECORDS_PER_TYPE = 100;
/** And its `max-types-per-name`. */
const BIND_TYPES_PER_NAME = 100;

/**
 * What BIND refuses of a name as a secondary, and the whole zone for it: NS at a wildcard, whose meaning RFC 4592 §4.2
 * leaves open, more records of a type than it takes, and more types. A name is looked at once, however many of its records change.
 */
function rememberRefusals(apex: DomainName, view: ZoneView): (name: DomainName) => Sentence[] {
  const seen = new Set<string>();
  return (name) => {
    const records = view.recordsAt(name);
    // The SOA is no record of the view.
    const others = sameName(name, apex) ? 1 : 0;
    const isCrowded = records.length + others > Math.min(BIND_RECORDS_PER_TYPE, BIND_TYPES_PER_NAME);
    if ((!isCrowded && !isWildcard(name)) || seen.has(name.key)) return [];
    seen.add(name.key);
    const owner = formatDomainName(name);
    const counts = new Map<number, number>();
    for (const { type } of records) counts.set(type, (counts.get(type) ?? 0) + 1);
    const crowded = [...counts].filter(([, count]) => count > BIND_RECORDS_PER_TYPE);
    const types = counts.size + others;
    return [
      ...(isWildcard(name) && counts.has(TYPE.NS) ? [sentence("wildcard-ns", { owner })] : []),
      ...crowded.map(([type, count]) =>
        sentence("many-records", { owner, type: typeMnemonic(type), count, most: BIND_RECORDS_PER_TYPE }),
      ),
      ...(types > BIND_TYPES_PER_NAME
        ? [sentence("many-types", { owner, count: types, most: BIND_TYPES_PER_NAME })]
        : []),
    ];
  };
}

/** The types whose targets must be no aliases (RFC 2181 §10.3, RFC 2782). */
const POINTING_TYPES: readonly number[] = [TYPE.NS, TYPE.MX, TYPE.SRV];

/** Where an MX, NS or SRV record points. */
function targetOf({ type, rdata }: ResourceRecord): DomainName | undefined {
  if (!POINTING_TYPES.includes(type)) return undefined;
  const [name] = rdataNames(type, rdata);
  const target = name && domainNameFromWire(rdata, name.offset);
  // RFC 7505, RFC 2782: a null MX and a service that is not there point to the root, which is no host.
  return target?.ok && target.value.labelCount > 0 ? target.value : undefined;
}

function isAddress({ type }: ResourceRecord): boolean {
  return type === TYPE.A || type === TYPE.AAAA;
}

function isCname({ type }: ResourceRecord): boolean {
  return type === TYPE.CNAME;
}
