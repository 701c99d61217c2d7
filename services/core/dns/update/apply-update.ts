import { ok, type Result, refuse } from "../../result.ts";
import { type DomainName, isWildcard, sameName } from "../name.ts";
import { canonicalRdata, type ResourceRecord, recordIdentity } from "../record.ts";
import { RCODE, TYPE } from "../rr-types.ts";
import { serialIsAhead } from "../serial.ts";
import { decodeSoaRdata, type SoaRdata, soaRecord } from "../soa.ts";
import { isAllowedBesideCname } from "../zone-checks.ts";
import { exactKey, type RecordEdits, type StoredRecord } from "../zone-edit.ts";
import type { Prerequisite, UpdateRequest, UpdateStep } from "./update-request.ts";

/** What an update makes of a zone. */
export interface UpdateEffect {
  readonly edits: RecordEdits;
  /** The SOA that the update sets, its serial ahead of the zone's. */
  readonly soa?: { readonly rdata: SoaRdata; readonly ttl: number };
}

/** The zone that an update is for. */
export interface UpdatedZone {
  readonly apex: DomainName;
  readonly soa: SoaRdata;
  /** TTL of the SOA. */
  readonly ttl: number;
}

/**
 * Evaluates an update against a zone: all of it or nothing. What may not be done to a zone is left out and does not fail
 * the rest, as RFC 2136 §3.4.2 has it.
 * @param records all records but the SOA at the names of the request, and the apex
 * @returns what is to be edited; refused with YXDOMAIN, NXDOMAIN, YXRRSET or NXRRSET when a prerequisite is not met
 */
export function applyUpdate(
  zone: UpdatedZone,
  records: readonly StoredRecord[],
  request: UpdateRequest,
): Result<UpdateEffect, number> {
  const names = namesOf(zone, records);
  for (const prerequisite of request.prerequisites) {
    const unmet = judgePrerequisite(names, prerequisite);
    if (unmet !== undefined) return refuse(unmet);
  }
  const draft = new ZoneDraft(zone, records);
  for (const step of request.steps) draft.take(step);
  return ok(draft.effect());
}

/** Whether an update leaves all as it is. */
export function changesNothing({ edits, soa }: UpdateEffect): boolean {
  return !soa && edits.creations.length + edits.modifications.length + edits.deletionIds.length === 0;
}

type RecordsByName = ReadonlyMap<string, readonly ResourceRecord[]>;

function namesOf({ apex, soa, ttl }: UpdatedZone, records: readonly ResourceRecord[]): RecordsByName {
  const names = new Map<string, ResourceRecord[]>();
  for (const record of [soaRecord(apex, soa, ttl), ...records]) {
    const others = names.get(record.owner.key);
    if (others) others.push(record);
    else names.set(record.owner.key, [record]);
  }
  return names;
}

/** RFC 2136 §3.2.5. @returns the response code of what is not met */
function judgePrerequisite(names: RecordsByName, prerequisite: Prerequisite): number | undefined {
  const present = names.get(prerequisite.owner.key) ?? [];
  switch (prerequisite.kind) {
    case "name-in-use":
      return present.length > 0 ? undefined : RCODE.NXDOMAIN;
    case "name-not-in-use":
      return present.length > 0 ? RCODE.YXDOMAIN : undefined;
    case "rrset-exists":
      return present.some(({ type }) => type === prerequisite.type) ? undefined : RCODE.NXRRSET;
    case "rrset-absent":
      return present.some(({ type }) => type === prerequisite.type) ? RCODE.YXRRSET : undefined;
    case "rrset-equals": {
      const has = new Set(present.filter(({ type }) => type === prerequisite.type).map(recordIdentity));
      const wanted = new Set(prerequisite.records.map(recordIdentity));
      return has.size === wanted.size && [...wanted].every((one) => has.has(one)) ? undefined : RCODE.NXRRSET;
    }
  }
}

/** A record's way through the update; `after` is undefined while it is not there. */
interface Line {
  readonly before?: StoredRecord;
  after: ResourceRecord | undefined;
}

/** The names of an update as its steps leave them, one after the other (RFC 2136 §3.4.2.7). */
class ZoneDraft {
  readonly #zone: UpdatedZone;
  readonly #lines = new Map<string, Line[]>();
  #soa: UpdateEffect["soa"];

  constructor(zone: UpdatedZone, records: readonly StoredRecord[]) {
    this.#zone = zone;
    for (const record of records) this.#linesAt(record.owner).push({ before: record, after: record });
  }

  take(step: UpdateStep): void {
    switch (step.kind) {
      case "add":
        if (step.record.type === TYPE.SOA) this.#setSoa(step.record);
        else this.#add(step.record);
        return;
      case "delete-name":
        this.#deleteWhere(step.owner, ({ type }) => !this.#isKeptAtApex(step.owner, type));
        return;
      case "delete-rrset":
        if (!this.#isKeptAtApex(step.owner, step.type)) {
          this.#deleteWhere(step.owner, ({ type }) => type === step.type);
        }
        return;
      case "delete-record":
        this.#deleteRecord(step.record);
    }
  }

  effect(): UpdateEffect {
    const creations: RecordEdits["creations"][number][] = [];
    const modifications: RecordEdits["modifications"][number][] = [];
    const deletionIds: number[] = [];
    for (const { before, after } of [...this.#lines.values()].flat()) {
      if (!before) {
        if (after) creations.push(after);
      } else if (!after) deletionIds.push(before.id);
      else if (exactKey(before) !== exactKey(after)) {
        modifications.push({ id: before.id, newOwner: undefined, draft: () => ok(after) });
      }
    }
    return { edits: { creations, modifications, deletionIds }, ...(this.#soa && { soa: this.#soa }) };
  }

  /** RFC 2136 §3.4.2.2: a SOA whose serial is not ahead is left out, and so is one that is not the zone's. */
  #setSoa({ owner, ttl, rdata }: ResourceRecord): void {
    const soa = decodeSoaRdata(rdata);
    const current = this.#soa?.rdata ?? this.#zone.soa;
    if (!sameName(owner, this.#zone.apex) || !serialIsAhead(soa.serial, current.serial)) return;
    this.#soa = { rdata: soa, ttl };
  }

  #add(record: ResourceRecord): void {
    const lines = this.#linesAt(record.owner);
    const present = lines.flatMap(({ after }) => after ?? []);
    if (this.#isBarred(record, present)) return;
    for (const line of lines) if (line.after && replaces(record, line.after)) line.after = undefined;
    const identity = recordIdentity(record);
    const isSame = (other: ResourceRecord | undefined) => other !== undefined && recordIdentity(other) === identity;
    const known = lines.find(({ before, after }) => isSame(after ?? before));
    if (known) known.after = replacement(record, known);
    else lines.push({ after: record });
    // RFC 2181 §5.2: an RRset has one TTL, that of the record added last.
    for (const line of lines) {
      if (line.after?.type === record.type && line.after.ttl !== record.ttl) {
        line.after = { ...line.after, ttl: record.ttl };
      }
    }
  }

  /**
   * RFC 2136 §3.4.2.2: no CNAME beside other data, and no other data beside a CNAME. The apex has a SOA. RFC 4592 §4.2,
   * §4.4: nobody knows what NS and DNAME of a wildcard mean. RFC 6672 §2.3: they stand together at the apex alone.
   * RFC 4035 §2.4: DS stands in the parent.
   */
  #isBarred({ owner, type }: ResourceRecord, present: readonly ResourceRecord[]): boolean {
    const isApex = sameName(owner, this.#zone.apex);
    const has = (other: number) => present.some((record) => record.type === other);
    if ((type === TYPE.NS || type === TYPE.DNAME) && isWildcard(owner)) return true;
    if (!isApex && ((type === TYPE.NS && has(TYPE.DNAME)) || (type === TYPE.DNAME && has(TYPE.NS)))) return true;
    if (type === TYPE.DS && isApex) return true;
    if (type !== TYPE.CNAME) return !isAllowedBesideCname(type) && has(TYPE.CNAME);
    return isApex || present.some((other) => !isAllowedBesideCname(other.type));
  }

  /** RFC 2136 §3.4.2.4: the last NS record of the apex stays. */
  #deleteRecord(record: ResourceRecord): void {
    const { owner, type } = record;
    const identity = recordIdentity(record);
    if (type === TYPE.NS && sameName(owner, this.#zone.apex)) {
      const nameServers = this.#linesAt(owner).filter(({ after }) => after?.type === TYPE.NS);
      if (nameServers.length <= 1) return;
    }
    this.#deleteWhere(owner, (other) => recordIdentity(other) === identity);
  }

  #deleteWhere(owner: DomainName, isGone: (record: ResourceRecord) => boolean): void {
    for (const line of this.#linesAt(owner)) if (line.after && isGone(line.after)) line.after = undefined;
  }

  /** RFC 2136 §3.4.2.3: SOA and NS of the apex are not deleted as RRsets. */
  #isKeptAtApex(owner: DomainName, type: number): boolean {
    return (type === TYPE.SOA || type === TYPE.NS) && sameName(owner, this.#zone.apex);
  }

  #linesAt({ key }: DomainName): Line[] {
    const known = this.#lines.get(key);
    if (known) return known;
    const lines: Line[] = [];
    this.#lines.set(key, lines);
    return lines;
  }
}

/**
 * A record that is there, or comes back, keeps its id; with the same TTL it is the one that it was, whatever the case of its
 * names, as BIND has it.
 */
function replacement(record: ResourceRecord, { before, after }: Line): ResourceRecord {
  const known = after ?? before ?? record;
  return { ...record, owner: known.owner, rdata: known.ttl === record.ttl ? known.rdata : record.rdata };
}

/** Whether an added record takes the place of another of its type, of which a name has but one (RFC 2136 §3.4.2.2). */
function replaces(added: ResourceRecord, other: ResourceRecord): boolean {
  if (added.type !== other.type) return false;
  if (added.type === TYPE.CNAME || added.type === TYPE.DNAME) return true;
  if (added.type !== TYPE.WKS) return false;
  const [one, another] = [added, other].map(({ type, rdata }) =>
    canonicalRdata(type, rdata).subarray(0, WKS_KEY_OCTETS),
  );
  return Buffer.compare(one!, another!) === 0;
}

/** Address and protocol (RFC 1035 §3.4.2). */
const WKS_KEY_OCTETS = 5;
