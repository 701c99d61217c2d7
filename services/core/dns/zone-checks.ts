import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { runAtOnce, type Steps } from "../steps.ts";
import { FaultList, type FirstFault } from "./fault-list.ts";
import { ancestorOf, type DomainName, formatDomainName, isSubdomain, labelsOf } from "./name.ts";
import { MAX_TTL_SECONDS, type ResourceRecord } from "./record.ts";
import { isMetaType, TYPE, typeMnemonic } from "./rr-types.ts";
import { findWarningsSteps, type ZoneView } from "./zone-warnings.ts";

/** Why a zone may not be as a change would leave it. */
export interface ZoneRefusal extends Sentence {
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
 * one (RFC 1034 §3.6.2, RFC 2181 §10.1), two DNAMEs at a name (RFC 6672 §2.4), a DNAME beside NS below the apex
 * (RFC 6672 §2.3), an apex without NS, more data of a type than a message can carry. The records at the touched names are
 * all that it takes, so the size of the zone does not matter.
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
  const refusal = typeRefusal(type, isReverseName(apex));
  return refusal === undefined ? ok(undefined) : refuse(refusal);
}

/**
 * Whether a zone of this name may be made, and whether it is a reverse one. Reverse zones have rules of their own, and
 * in all others a label consists of letters, digits, `-` and `_`, or of the `*` and `/` that some zones have. Any octet
 * is lawful in a label (RFC 2181 §11), but in the name of a zone a space or an `@` is a mistake.
 */
export function checkZoneName(name: DomainName): Result<{ readonly reverse: boolean }, Sentence> {
  const text = formatDomainName(name);
  if (name.labelCount === 0) return refuse(sentence("root-as-zone"));
  if (!isReverseName(name)) {
    const isOrdinary = labelsOf(name).every((label) => /^[a-z0-9_*/-]+$/i.test(Buffer.from(label).toString("latin1")));
    return isOrdinary ? ok({ reverse: false }) : refuse(sentence("no-zone-name", { text }));
  }
  const labels = labelsOf(name).map((label) => Buffer.from(label).toString("latin1").toLowerCase());
  const prefix = labels.slice(0, -2);
  if (labels.at(-2) === "in-addr") {
    const isSlash24 =
      prefix.length === 3 && prefix.every((label) => /^(?:0|[1-9]\d{0,2})$/.test(label) && Number(label) <= 255);
    if (!isSlash24) return refuse(sentence("no-reverse-24", { text }));
  } else if (prefix.length === 0 || prefix.length > 32 || !prefix.every((label) => /^[0-9a-f]$/.test(label))) {
    return refuse(sentence("no-reverse-ipv6", { text }));
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

/** A zone as an import would have it. */
export interface WholeZone {
  readonly apex: DomainName;
  readonly mname?: DomainName | undefined;
  /** All records but the SOA. */
  readonly records: readonly ResourceRecord[];
}

/**
 * Every check on a whole zone, for imports.
 * @returns the warnings, or the first refusal
 */
export function checkWholeZone(zone: WholeZone): Result<Sentence[], ZoneRefusal> {
  return runAtOnce(checkWholeZoneSteps(zone));
}

/** As {@link checkWholeZone}, in steps. */
export function* checkWholeZoneSteps({
  apex,
  mname,
  records,
}: WholeZone): Steps<Result<Sentence[], FirstFault<ZoneRefusal>>> {
  const byOwner = new Map<string, ResourceRecord[]>([[apex.key, []]]);
  for (const record of records) {
    const siblings = byOwner.get(record.owner.key);
    if (siblings === undefined) byOwner.set(record.owner.key, [record]);
    else siblings.push(record);
    yield;
  }
  const faults = new FaultList<ZoneRefusal>();
  for (const [ownerKey, siblings] of byOwner) {
    const checked = checkTouchedNames(apex, new Map([[ownerKey, siblings]]));
    if (!checked.ok) faults.add(checked.error);
    if (faults.isFull) break;
    yield;
  }
  const fault = faults.first();
  if (fault) return refuse(fault);
  const view: ZoneView = {
    recordsAt: (name) => byOwner.get(name.key) ?? [],
    // Every record is among the changed and looks up to what may hide it.
    recordsBelow: () => [],
  };
  return ok(yield* findWarningsSteps({ apex, changed: records, mname }, view));
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

/** Whether records of the type may stand beside a CNAME. */
export function isAllowedBesideCname(type: number): boolean {
  return ALLOWED_BESIDE_CNAME.has(type);
}

function typeRefusal(type: number, isReverse: boolean): Sentence | undefined {
  if (type === TYPE.SOA) return sentence("soa-elsewhere");
  if (isMetaType(type)) return sentence("no-data-type", { type: typeMnemonic(type) });
  if (!isReverse || type === TYPE.NS || type === TYPE.PTR) return undefined;
  return sentence("reverse-types", { type: typeMnemonic(type) });
}

/** What is wrong with a record by itself. */
function recordRefusal(
  apex: DomainName,
  isReverse: boolean,
  records: readonly ResourceRecord[],
): ZoneRefusal | undefined {
  for (const record of records) {
    const { owner, type, ttl } = record;
    if (!isSubdomain(owner, apex)) return { ...sentence("outside-zone", { owner: formatDomainName(owner) }), record };
    if (ttl > MAX_TTL_SECONDS) return { ...sentence("ttl-above", { ttl, most: MAX_TTL_SECONDS }), record };
    const refusal = typeRefusal(type, isReverse);
    if (refusal !== undefined) return { ...refusal, record };
  }
  return undefined;
}

/** What is wrong with the records of one name together. */
function nameRefusal(apex: DomainName, isApex: boolean, records: readonly ResourceRecord[]): ZoneRefusal | undefined {
  const [cname, secondCname] = records.filter(({ type }) => type === TYPE.CNAME);
  const [dname, secondDname] = records.filter(({ type }) => type === TYPE.DNAME);
  const other = records.find(({ type }) => !ALLOWED_BESIDE_CNAME.has(type));
  const second = secondCname ?? secondDname;
  if (second !== undefined) {
    return {
      ...sentence("second-record", { type: typeMnemonic(second.type), owner: formatDomainName(second.owner) }),
      record: second,
    };
  }
  if (cname !== undefined && isApex) {
    return { ...sentence("cname-at-apex"), record: cname };
  }
  if (cname !== undefined && other !== undefined) {
    const at = formatDomainName(cname.owner);
    return { ...sentence("cname-beside-data", { type: typeMnemonic(other.type), owner: at }), record: cname };
  }
  const hasNs = records.some(({ type }) => type === TYPE.NS);
  if (dname !== undefined && hasNs && !isApex) {
    return { ...sentence("dname-beside-ns", { owner: formatDomainName(dname.owner) }), record: dname };
  }
  if (isApex && !hasNs) {
    return { ...sentence("apex-without-ns", { domain: formatDomainName(apex) }) };
  }
  return sizeRefusal(records);
}

/**
 * Octets that an RRset may take of a message. A message has 65,535 (RFC 1035 §4.2.2), and header, question, signature,
 * OPT and TSIG need room as well: a larger RRset could never be asked for, a larger record would fail every transfer.
 */
const MAX_RRSET_OCTETS = 64_000;

/** Octets before the RDATA in a message whose question has the owner: pointer, type, class, TTL, RDLENGTH. */
const RECORD_HEAD_OCTETS = 12;

/** What is wrong with the size of the RRsets of one name. */
function sizeRefusal(records: readonly ResourceRecord[]): ZoneRefusal | undefined {
  const octetsByType = new Map<number, number>();
  for (const record of records) {
    const octets = (octetsByType.get(record.type) ?? 0) + RECORD_HEAD_OCTETS + record.rdata.length;
    octetsByType.set(record.type, octets);
    if (octets <= MAX_RRSET_OCTETS) continue;
    const [rrtype, owner] = [typeMnemonic(record.type), formatDomainName(record.owner)];
    return { ...sentence("rrset-too-large", { type: rrtype, owner, most: MAX_RRSET_OCTETS }), record };
  }
  return undefined;
}
