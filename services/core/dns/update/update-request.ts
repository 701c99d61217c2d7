import { addToGroup } from "../../groups.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { decodeMessage, type MessageRecord } from "../message.ts";
import { type DomainName, isSubdomain } from "../name.ts";
import { checkRdataWire } from "../rdata/rdata.ts";
import { MAX_TTL_SECONDS, type ResourceRecord, rrsetKey } from "../record.ts";
import { CLASS, isMetaType, OPCODE, RCODE, TYPE } from "../rr-types.ts";

/** A condition on the zone as it was before the update (RFC 2136 §2.4). */
export type Prerequisite =
  | { readonly kind: "name-in-use" | "name-not-in-use"; readonly owner: DomainName }
  | { readonly kind: "rrset-exists" | "rrset-absent"; readonly owner: DomainName; readonly type: number }
  /** The RRset is this one, whatever its TTL. */
  | {
      readonly kind: "rrset-equals";
      readonly owner: DomainName;
      readonly type: number;
      readonly records: readonly ResourceRecord[];
    };

/** One record of the update section (RFC 2136 §2.5). */
export type UpdateStep =
  | { readonly kind: "add"; readonly record: ResourceRecord }
  | { readonly kind: "delete-name"; readonly owner: DomainName }
  | { readonly kind: "delete-rrset"; readonly owner: DomainName; readonly type: number }
  | { readonly kind: "delete-record"; readonly record: ResourceRecord };

/** A message with opcode UPDATE, its form checked. */
export interface UpdateRequest {
  readonly apex: DomainName;
  /** In the message's order, but those on whole RRsets by their data last, as they need all records of the section. */
  readonly prerequisites: readonly Prerequisite[];
  readonly steps: readonly UpdateStep[];
}

/**
 * Reads an UPDATE: zone section, prerequisites and update section, as far as they can be judged without the zone.
 * @returns refused with the response code: FORMERR, NOTAUTH for classes that are not served, NOTZONE, REFUSED
 * @see RFC 2136 §3.1.1, §3.2, §3.4.1
 */
export function readUpdateRequest(octets: Uint8Array): Result<UpdateRequest, number> {
  const decoded = decodeMessage(octets);
  if (!decoded.ok) return refuse(RCODE.FORMERR);
  const { opcode, flags, questions, answers, authorities } = decoded.value;
  const [zone] = questions;
  if (opcode !== OPCODE.UPDATE || flags.qr || questions.length !== 1) return refuse(RCODE.FORMERR);
  if (zone?.type !== TYPE.SOA) return refuse(RCODE.FORMERR);
  if (zone.class !== CLASS.IN) return refuse(RCODE.NOTAUTH);
  const apex = zone.name;
  const prerequisites = readPrerequisites(apex, answers);
  if (!prerequisites.ok) return prerequisites;
  const steps: UpdateStep[] = [];
  for (const record of authorities) {
    const step = readStep(apex, record);
    if (!step.ok) return step;
    steps.push(step.value);
  }
  return ok({ apex, prerequisites: prerequisites.value, steps });
}

/** The names that have to be read of the zone to judge the request: owners of records, and the apex. */
export function namesOf({ apex, prerequisites, steps }: UpdateRequest): readonly DomainName[] {
  const names = new Map([[apex.key, apex]]);
  for (const { owner } of prerequisites) names.set(owner.key, owner);
  for (const step of steps) names.set(ownerOf(step).key, ownerOf(step));
  return [...names.values()];
}

export function ownerOf(step: UpdateStep): DomainName {
  return "record" in step ? step.record.owner : step.owner;
}

/** The type that a step names; undefined when it is about all of a name. */
export function typeOf(step: UpdateStep): number | undefined {
  if (step.kind === "delete-name") return undefined;
  return "record" in step ? step.record.type : step.type;
}

function readPrerequisites(
  apex: DomainName,
  records: readonly MessageRecord[],
): Result<readonly Prerequisite[], number> {
  const simple: Prerequisite[] = [];
  const rrsets = new Map<string, ResourceRecord[]>();
  for (const record of records) {
    const { owner, type } = record;
    // RFC 2136 §3.2.1: a TTL makes no sense here.
    if (record.ttl !== 0) return refuse(RCODE.FORMERR);
    if (!isSubdomain(owner, apex)) return refuse(RCODE.NOTZONE);
    if (record.class === CLASS.IN) {
      if (!checkRdataWire(type, record.rdata).ok) return refuse(RCODE.FORMERR);
      addToGroup(rrsets, rrsetKey(owner, type), record);
      continue;
    }
    const prerequisite = readPrerequisite(record);
    if (!prerequisite) return refuse(RCODE.FORMERR);
    simple.push(prerequisite);
  }
  const equalities = [...rrsets.values()].map(
    (rrset): Prerequisite => ({
      kind: "rrset-equals",
      owner: rrset[0]!.owner,
      type: rrset[0]!.type,
      records: rrset,
    }),
  );
  return ok([...simple, ...equalities]);
}

/** RFC 2136 §3.2.5, where a zone has no RRset of a meta type; undefined: FORMERR. */
function readPrerequisite({ owner, type, class: rrClass, rdata }: MessageRecord): Prerequisite | undefined {
  if (rdata.length > 0 || (rrClass !== CLASS.ANY && rrClass !== CLASS.NONE)) return undefined;
  if (type === TYPE.ANY) return { kind: rrClass === CLASS.ANY ? "name-in-use" : "name-not-in-use", owner };
  return { kind: rrClass === CLASS.ANY ? "rrset-exists" : "rrset-absent", owner, type };
}

/** RFC 2136 §3.4.1.3. */
function readStep(apex: DomainName, record: MessageRecord): Result<UpdateStep, number> {
  const { owner, type, ttl, rdata } = record;
  if (!isSubdomain(owner, apex)) return refuse(RCODE.NOTZONE);
  const step = readLawfulStep(record);
  if (!step) return refuse(RCODE.FORMERR);
  // Signatures and denial records are made of the zone; who brings them in one by one would break it.
  if (MADE_OF_THE_ZONE.has(type)) return refuse(RCODE.REFUSED);
  // RFC 2181 §8: a TTL with the highest bit set counts as 0.
  return ok(step.kind === "add" ? addition({ owner, type, ttl, rdata }) : step);
}

function addition(record: ResourceRecord): UpdateStep {
  return { kind: "add", record: record.ttl > MAX_TTL_SECONDS ? { ...record, ttl: 0 } : record };
}

function readLawfulStep(given: MessageRecord): UpdateStep | undefined {
  const { owner, type, class: rrClass, ttl, rdata } = given;
  const record = { owner, type, ttl, rdata };
  switch (rrClass) {
    case CLASS.IN:
      return isLawfulData(given) ? { kind: "add", record } : undefined;
    case CLASS.ANY:
      if (ttl !== 0 || rdata.length > 0) return undefined;
      if (type === TYPE.ANY) return { kind: "delete-name", owner };
      return isMetaType(type) ? undefined : { kind: "delete-rrset", owner, type };
    case CLASS.NONE:
      return ttl === 0 && isLawfulData(given) ? { kind: "delete-record", record } : undefined;
    default:
      return undefined;
  }
}

function isLawfulData({ type, rdata }: MessageRecord): boolean {
  return !isMetaType(type) && checkRdataWire(type, rdata).ok;
}

const MADE_OF_THE_ZONE: ReadonlySet<number> = new Set([TYPE.RRSIG, TYPE.NSEC, TYPE.NSEC3, TYPE.SIG, TYPE.NXT]);
