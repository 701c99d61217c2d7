import { addToGroup } from "../../groups.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { type DomainName, isWildcard, sameName } from "../name.ts";
import { type ResourceRecord, recordIdentity } from "../record.ts";
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

/** Records by name, then by type. */
type RecordsByName = ReadonlyMap<string, ReadonlyMap<number, readonly ResourceRecord[]>>;

function namesOf({ apex, soa, ttl }: UpdatedZone, records: readonly ResourceRecord[]): RecordsByName {
  const names = new Map<string, Map<number, ResourceRecord[]>>();
  for (const record of [soaRecord(apex, soa, ttl), ...records]) {
    const types = names.get(record.owner.key) ?? new Map<number, ResourceRecord[]>();
    names.set(record.owner.key, types);
    addToGroup(types, record.type, record);
  }
  return names;
}

/** RFC 2136 §3.2.5. @returns the response code of what is not met */
function judgePrerequisite(names: RecordsByName, prerequisite: Prerequisite): number | undefined {
  const types = names.get(prerequisite.owner.key);
  switch (prerequisite.kind) {
    case "name-in-use":
      return types ? undefined : RCODE.NXDOMAIN;
    case "name-not-in-use":
      return types ? RCODE.YXDOMAIN : undefined;
    case "rrset-exists":
      return types?.has(prerequisite.type) ? undefined : RCODE.NXRRSET;
    case "rrset-absent":
      return types?.has(prerequisite.type) ? RCODE.YXRRSET : undefined;
    case "rrset-equals": {
      const has = new Set(types?.get(prerequisite.type)?.map(recordIdentity));
      const wanted = new Set(prerequisite.records.map(recordIdentity));
      return has.size === wanted.size && [...wanted].every((one) => has.has(one)) ? undefined : RCODE.NXRRSET;
    }
  }
}

/** The names of an update as its steps leave them, one after the other (RFC 2136 §3.4.2.7). */
class ZoneDraft {
  readonly #zone: UpdatedZone;
  readonly #names = new Map<string, NameDraft>();
  #soa: UpdateEffect["soa"];

  constructor(zone: UpdatedZone, records: readonly StoredRecord[]) {
    this.#zone = zone;
    for (const record of records) this.#at(record.owner).store(record);
  }

  take(step: UpdateStep): void {
    switch (step.kind) {
      case "add":
        if (step.record.type === TYPE.SOA) this.#setSoa(step.record);
        else this.#add(step.record);
        return;
      case "delete-name":
        for (const type of this.#at(step.owner).types) this.#deleteRrset(step.owner, type);
        return;
      case "delete-rrset":
        this.#deleteRrset(step.owner, step.type);
        return;
      case "delete-record":
        this.#deleteRecord(step.record);
    }
  }

  effect(): UpdateEffect {
    const creations: RecordEdits["creations"][number][] = [];
    const modifications: RecordEdits["modifications"][number][] = [];
    const deletionIds: number[] = [];
    for (const { before, after } of [...this.#names.values()].flatMap((name) => name.changes())) {
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
    const name = this.#at(record.owner);
    if (!this.#isBarred(record, name)) name.add(record);
  }

  /**
   * RFC 2136 §3.4.2.2: no CNAME beside other data, and no other data beside a CNAME. The apex has a SOA. RFC 4592 §4.2,
   * §4.4: nobody knows what NS and DNAME of a wildcard mean. RFC 6672 §2.3: they stand together at the apex alone.
   * RFC 4035 §2.4: DS stands in the parent.
   */
  #isBarred({ owner, type }: ResourceRecord, name: NameDraft): boolean {
    const isApex = sameName(owner, this.#zone.apex);
    const has = (other: number) => name.count(other) > 0;
    if ((type === TYPE.NS || type === TYPE.DNAME) && isWildcard(owner)) return true;
    if (!isApex && ((type === TYPE.NS && has(TYPE.DNAME)) || (type === TYPE.DNAME && has(TYPE.NS)))) return true;
    if (type === TYPE.DS && isApex) return true;
    if (type !== TYPE.CNAME) return !isAllowedBesideCname(type) && has(TYPE.CNAME);
    return isApex || name.types.some((other) => !isAllowedBesideCname(other));
  }

  /** RFC 2136 §3.4.2.4: the last NS record of the apex stays. */
  #deleteRecord(record: ResourceRecord): void {
    const name = this.#at(record.owner);
    const isNsOfApex = record.type === TYPE.NS && sameName(record.owner, this.#zone.apex);
    if (!isNsOfApex || name.count(TYPE.NS) > 1) name.delete(record);
  }

  /** RFC 2136 §3.4.2.3: SOA and NS of the apex are not deleted as RRsets. */
  #deleteRrset(owner: DomainName, type: number): void {
    const isKept = (type === TYPE.SOA || type === TYPE.NS) && sameName(owner, this.#zone.apex);
    if (!isKept) this.#at(owner).deleteRrset(type);
  }

  #at({ key }: DomainName): NameDraft {
    const name = this.#names.get(key) ?? new NameDraft();
    this.#names.set(key, name);
    return name;
  }
}

/** A record's way through the update; `after` is undefined while it is not there. */
interface Line {
  readonly before?: StoredRecord;
  after: ResourceRecord | undefined;
}

/** The records of one name. No step looks at all of them. */
class NameDraft {
  readonly #lines = new Map<string, Line>();
  /** What is there, by type and identity; without types of which nothing is. */
  readonly #present = new Map<number, Map<string, Line>>();
  /** RFC 2181 §5.2: an RRset has one TTL, that of the record added last. */
  readonly #ttls = new Map<number, number>();

  store(record: StoredRecord): void {
    this.#put(recordIdentity(record), { before: record, after: record });
  }

  /** The types of what is there. */
  get types(): readonly number[] {
    return [...this.#present.keys()];
  }

  /** How many records of a type are there. */
  count(type: number): number {
    return this.#present.get(type)?.size ?? 0;
  }

  /**
   * A record that is there, or comes back, keeps its id; with the same TTL it is the one that it was, whatever the case of
   * its names, as BIND has it.
   */
  add(record: ResourceRecord): void {
    const identity = recordIdentity(record);
    if (REPLACING_TYPES.has(record.type)) this.#makeRoomFor(record, identity);
    const line = this.#lines.get(identity) ?? { after: undefined };
    const known = (line.after && this.#timed(line.after)) ?? line.before ?? record;
    line.after = { ...record, owner: known.owner, rdata: known.ttl === record.ttl ? known.rdata : record.rdata };
    this.#put(identity, line);
    this.#ttls.set(record.type, record.ttl);
  }

  delete(record: ResourceRecord): void {
    this.#remove(record.type, recordIdentity(record));
  }

  deleteRrset(type: number): void {
    for (const identity of this.#present.get(type)?.keys() ?? []) this.#remove(type, identity);
  }

  /** Each record as it was and as it is now. */
  changes(): Line[] {
    return [...this.#lines.values()].map(({ before, after }) => ({
      ...(before && { before }),
      after: after && this.#timed(after),
    }));
  }

  #makeRoomFor(record: ResourceRecord, identity: string): void {
    this.#present.get(record.type)?.forEach(({ after }, key) => {
      if (key !== identity && after && replaces(record, after)) this.#remove(record.type, key);
    });
  }

  #timed(record: ResourceRecord): ResourceRecord {
    const ttl = this.#ttls.get(record.type) ?? record.ttl;
    return ttl === record.ttl ? record : { ...record, ttl };
  }

  #put(identity: string, line: Line): void {
    const { type } = line.after!;
    this.#lines.set(identity, line);
    const present = this.#present.get(type) ?? new Map<string, Line>();
    this.#present.set(type, present.set(identity, line));
  }

  #remove(type: number, identity: string): void {
    const present = this.#present.get(type);
    const line = present?.get(identity);
    if (!present || !line) return;
    present.delete(identity);
    if (present.size === 0) this.#present.delete(type);
    line.after = undefined;
    if (!line.before) this.#lines.delete(identity);
  }
}

/** Types of which an added record may take the place of another (RFC 2136 §3.4.2.2). */
const REPLACING_TYPES: ReadonlySet<number> = new Set([TYPE.CNAME, TYPE.DNAME, TYPE.WKS]);

/** Where WKS has address and protocol, of which a name has but one (RFC 1035 §3.4.2). */
const WKS_KEY = [0, 1, 2, 3, 4];

/** Whether an added record of such a type takes the place of another of the same. */
function replaces({ type, rdata }: ResourceRecord, other: ResourceRecord): boolean {
  return type !== TYPE.WKS || WKS_KEY.every((position) => rdata[position] === other.rdata[position]);
}
