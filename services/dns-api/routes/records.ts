import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { FOLLOWED_TYPES } from "../../core/dns/follow/follower.ts";
import { mayRead, type Token } from "../../core/dns/token.ts";
import {
  type Modification,
  NO_RECORD_EDITS,
  type RecordDraft,
  type StoredRecord,
  type ZoneEdits,
} from "../../core/dns/zone-edit.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { ZoneChanged } from "../../operations/dns/zone-changes.ts";
import { changeRecords } from "../../operations/dns/zone-records.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { readAllFollowers } from "../../store/dns/followers.ts";
import { recordPages } from "../../store/dns/records.ts";
import { findZone, type Zone } from "../../store/dns/zones.ts";
import { admitJson, type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { aliasBatch, keepsCheck, poolBatch, readFollowerBatch } from "../follower-json.ts";
import { readModification, readRecord, recordChanges, recordFields, recordReply, showRecord } from "../record-json.ts";
import { atSerial, domainParam, serialReply, showChange } from "../schemas.ts";
import { replyFromZone } from "../zone-reply.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";

const recordId = z.int("record-number-form").positive("record-number-form");
const recordParam = domainParam.extend({
  rr_id: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, "record-number-form")
    .transform(Number),
});
const changedReply = serialReply.extend({ rr_id: z.int() });
const batchReply = serialReply.extend({
  created: z.array(z.int()),
  created_followers: z.array(z.int()).optional().meta({ description: "of aliases and pools, in the order of both" }),
});

/** Changes of many records, aliases and pools that come into force together. */
export const batchFields = z.object({
  create: z.array(recordFields).default([]),
  modify: z.array(recordChanges.extend({ rr_id: recordId })).default([]),
  delete: z.array(recordId).default([]),
  alias: aliasBatch.optional(),
  pool: poolBatch.optional(),
  serial: atSerial,
});

/** Resource records. */
export const makeRecordEndpoints: MakeEndpoints = (context) => [...listing(context), ...editing(context)];

const listing: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/rr/:domain",
    summary: "List the records of a zone, its SOA apart",
    params: domainParam,
    reply: z.object({ domain: z.string(), serial: z.int(), rr: z.array(recordReply) }),
    act: async ({ caller, sharer, params: { domain } }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const { scope, apex } = target.value;
      return replyFromZone(context.db, "application/json", { sharer, domain }, async function* (snapshot) {
        const zone = await findZone(snapshot, scope, apex);
        if (!zone) return;
        const followers = zone.hasFollowers ? await readAllFollowers(snapshot, zone.id) : [];
        const derived = new Set(followers.map(({ owner }) => owner.key));
        yield* listPieces(zone, readable(recordPages(snapshot, zone.id), caller.token), derived);
      });
    },
  }),
];

/** Each a change of the zone with a serial of its own. */
const editing: MakeEndpoints = (context) => [
  dnsEndpoint("records", {
    method: "POST",
    path: "/rr/:domain",
    summary: "Create a record",
    params: domainParam,
    fields: recordFields,
    reply: changedReply,
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (apex) => {
        const draft = readRecord(fields, apex);
        return draft.ok ? ok({ ...NO_RECORD_EDITS, creations: [draft.value] }) : draft;
      });
      if (!changed.ok) return changed;
      return ok({ rr_id: changed.value.createdIds[0] as number, ...showChange(changed.value, headers) });
    },
  }),
  dnsEndpoint("records", {
    method: "POST",
    path: "/rr/:domain/batch",
    summary: "Create, modify and delete many records at once: all or nothing",
    params: domainParam,
    fields: batchFields,
    keepsNull: keepsCheck,
    admit: admitJson(context),
    reply: batchReply,
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (apex) => readBatch(context, fields, apex));
      return changed.ok ? ok(showBatch(changed.value, fields, headers)) : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "PUT",
    path: "/rr/:domain/:rr_id",
    summary: "Modify a record; what is absent stays",
    params: recordParam,
    fields: recordChanges,
    reply: changedReply,
    act: async ({ caller, params: { domain, rr_id }, fields, headers }) => {
      const changed = await edit(context, caller, domain, (apex) => {
        const modification = readModification(rr_id, fields, apex);
        return modification.ok ? ok({ ...NO_RECORD_EDITS, modifications: [modification.value] }) : modification;
      });
      return changed.ok ? ok({ rr_id, ...showChange(changed.value, headers) }) : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "DELETE",
    path: "/rr/:domain/:rr_id",
    summary: "Delete a record",
    params: recordParam,
    reply: serialReply.extend({ msg: z.literal("deleted") }),
    act: async ({ caller, params: { domain, rr_id }, headers }) => {
      const changed = await edit(context, caller, domain, () => ok({ ...NO_RECORD_EDITS, deletionIds: [rr_id] }));
      return changed.ok ? ok({ msg: "deleted" as const, ...showChange(changed.value, headers) }) : changed;
    },
  }),
];

/** Reads the edits against the zone's name, then makes them. */
function edit(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  read: (apex: Zone["apex"]) => Result<ZoneEdits, Refusal>,
): Promise<Result<ZoneChanged, Refusal>> {
  return changeAndAnnounce(context, caller, domain, async (target, now) => {
    const edits = read(target.apex);
    return edits.ok ? changeRecords(context.db, target, edits.value, now) : edits;
  });
}

/** The edits that the fields of a batch describe. */
export function readBatch(
  { followAllow: allowed }: Pick<DnsApiContext, "followAllow">,
  fields: z.output<typeof batchFields>,
  apex: Zone["apex"],
): Result<ZoneEdits, Refusal> {
  const creations: RecordDraft[] = [];
  for (const entry of fields.create) {
    const draft = readRecord(entry, apex);
    if (!draft.ok) return draft;
    creations.push(draft.value);
  }
  const modifications: Modification[] = [];
  for (const { rr_id, ...changes } of fields.modify) {
    const modification = readModification(rr_id, changes, apex);
    if (!modification.ok) return modification;
    modifications.push(modification.value);
  }
  const followers = readFollowerBatch(fields.alias, fields.pool, { apex, allowed });
  if (!followers.ok) return followers;
  const { delete: deletionIds, serial } = fields;
  return ok({ creations, modifications, deletionIds, followers: followers.value, atSerial: serial });
}

function showBatch(changed: ZoneChanged, fields: z.output<typeof batchFields>, headers: IncomingHttpHeaders) {
  const { createdIds, followerIds } = changed;
  const followers = (fields.alias || fields.pool) && { created_followers: [...followerIds] };
  return { ...showChange(changed, headers), created: [...createdIds], ...followers };
}

/** The records that a token may read; all of them where there is none. */
async function* readable(
  pages: AsyncIterable<readonly StoredRecord[]>,
  token: Token | undefined,
): AsyncGenerator<readonly StoredRecord[]> {
  for await (const page of pages) yield token ? page.filter((record) => mayRead(token, record)) : page;
}

/** The list's text piece by piece: that of a large zone is never held as a whole. */
async function* listPieces(
  zone: Zone,
  pages: AsyncIterable<readonly StoredRecord[]>,
  derived: ReadonlySet<string>,
): AsyncGenerator<string> {
  const show = (record: StoredRecord) => {
    const isDerived = FOLLOWED_TYPES.includes(record.type) && derived.has(record.owner.key);
    return { rr_id: record.id, ...showRecord(record, zone.apex), ...(isDerived && { derived: true }) };
  };
  let text = `{"domain":${JSON.stringify(zone.name)},"serial":${zone.soa.serial},"rr":[`;
  for await (const page of pages) {
    if (page.length === 0) continue;
    yield text + page.map((record) => JSON.stringify(show(record))).join(",");
    text = ",";
  }
  yield text === "," ? "]}" : `${text}]}`;
}
