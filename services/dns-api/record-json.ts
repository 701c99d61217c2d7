import { z } from "zod";
import { type DomainName, formatRelative, parseDomainName } from "../core/dns/name.ts";
import { hasPriority, joinPriority, parseRdata, rdataReason, splitPriority } from "../core/dns/rdata/rdata.ts";
import type { ResourceRecord } from "../core/dns/record.ts";
import { typeCode, typeMnemonic } from "../core/dns/rr-types.ts";
import { checkRecordType } from "../core/dns/zone-checks.ts";
import type { Modification, RecordDraft } from "../core/dns/zone-edit.ts";
import { invalidField, missingField, type Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { nameText, seconds } from "./schemas.ts";

/** Presentation format of the longest RDATA: 65,535 octets, each as `\DDD`, and the quotes of 257 strings. */
const MOST_VALUE_CHARACTERS = 4 * 65_535 + 3 * 257;

const MOST_PRIORITY = 65_535;
const NO_PRIORITY = "priority-form";

/** A number or digits; the priority as text. */
const priority = z
  .union(
    [z.int().min(0, NO_PRIORITY).max(MOST_PRIORITY, NO_PRIORITY), z.string().regex(/^\d{1,5}$/, NO_PRIORITY)],
    NO_PRIORITY,
  )
  .refine((given) => Number(given) <= MOST_PRIORITY, NO_PRIORITY)
  .transform((given) => String(Number(given)));

/** A record to be created. */
export const recordFields = z.object({
  name: nameText,
  type: z.string(),
  value: z.string().max(MOST_VALUE_CHARACTERS, "too-long-for-a-record"),
  ttl: seconds.optional(),
  rr_prio: priority.optional(),
});

/** What of a record is to be changed. */
export const recordChanges = recordFields.partial();

/** A record as lists show it. */
export const recordReply = z.object({
  rr_id: z.int(),
  name: z.string(),
  type: z.string(),
  ttl: z.int(),
  rr_prio: z.string().nullable(),
  value: z.string(),
  derived: z.literal(true).optional().meta({ description: "of an alias or a pool: not made or edited by hand" }),
});

export type RecordJson = Omit<z.input<typeof recordReply>, "rr_id">;

export function showRecord({ owner, type, ttl, rdata }: ResourceRecord, apex: DomainName): RecordJson {
  const { prio, value } = splitPriority(type, rdata);
  return { name: formatRelative(owner, apex), type: typeMnemonic(type), ttl, rr_prio: prio, value };
}

/** The record that these fields describe. */
export function readRecord(fields: z.output<typeof recordFields>, apex: DomainName): Result<RecordDraft, Refusal> {
  const owner = readOwner(fields.name, apex);
  if (!owner.ok) return owner;
  const type = readType(fields.type, apex);
  if (!type.ok) return type;
  const rdata = readRdata(type.value, fields.value, fields.rr_prio ?? null, apex);
  return rdata.ok ? ok({ owner: owner.value, type: type.value, ttl: fields.ttl, rdata: rdata.value }) : rdata;
}

/** The change of the record `id` that these fields describe; what is absent stays. */
export function readModification(
  id: number,
  fields: z.output<typeof recordChanges>,
  apex: DomainName,
): Result<Modification, Refusal> {
  const owner = fields.name === undefined ? ok(undefined) : readOwner(fields.name, apex);
  if (!owner.ok) return owner;
  const newType = fields.type === undefined ? ok(undefined) : readType(fields.type, apex);
  if (!newType.ok) return newType;

  const draft = (current: ResourceRecord): Result<RecordDraft, Refusal> => {
    const type = newType.value ?? current.type;
    const kept = { owner: owner.value ?? current.owner, type, ttl: fields.ttl };
    if (type === current.type && fields.value === undefined && fields.rr_prio === undefined) {
      return ok({ ...kept, rdata: current.rdata });
    }
    const was = splitPriority(current.type, current.rdata);
    const prio = fields.rr_prio ?? (hasPriority(type) ? was.prio : null);
    const rdata = readRdata(type, fields.value ?? was.value, prio, apex);
    return rdata.ok ? ok({ ...kept, rdata: rdata.value }) : rdata;
  };
  return ok({ id, newOwner: owner.value, draft });
}

function readOwner(text: string, apex: DomainName): Result<DomainName, Refusal> {
  const owner = parseDomainName(text, apex);
  return owner.ok ? owner : refuse(invalidField("name", owner.error));
}

function readType(text: string, apex: DomainName): Result<number, Refusal> {
  const type = typeCode(text);
  if (type === undefined) return refuse(invalidField("type", "no-record-type", { text: text.slice(0, 40) }));
  const lawful = checkRecordType(apex, type);
  return lawful.ok ? ok(type) : refuse(invalidField("type", lawful.error));
}

function readRdata(type: number, value: string, prio: string | null, apex: DomainName): Result<Uint8Array, Refusal> {
  if (hasPriority(type) && prio === null) return refuse(missingField("rr_prio"));
  if (!hasPriority(type) && prio !== null) {
    return refuse(invalidField("rr_prio", "no-priority", { type: typeMnemonic(type) }));
  }
  const rdata = parseRdata(type, joinPriority(type, prio, value), apex, "value");
  return rdata.ok ? rdata : refuse(invalidField("value", rdataReason(rdata.error)));
}
