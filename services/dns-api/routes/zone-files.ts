import { z } from "zod";
import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";
import { ok, refuse } from "../../core/result.ts";
import { endpoint, RawReply } from "../../platform/http/endpoint.ts";
import { exportZone, replaceZone } from "../../store/zone-files.ts";
import { type HistoryEntry, readHistory } from "../../store/zone-history.ts";
import { findZone, zoneDoesNotExist } from "../../store/zones.ts";
import type { MakeEndpoints } from "../context.ts";
import { type RecordJson, recordReply, showRecord } from "../record-json.ts";
import { domainParam, serial, warnings, withWarnings } from "../schemas.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";

/** Changes in one page of a history, unless the caller wants another number, and at most. */
const HISTORY_PAGE = 100;
const LARGEST_HISTORY_PAGE = 1_000;

const recordJson = recordReply.omit({ rr_id: true });

/** Whole zones: as master files, and through time. */
export const makeZoneFileEndpoints: MakeEndpoints = (context) => [
  endpoint({
    method: "GET",
    path: "/zone_file/:domain",
    summary: "The zone as a master file (RFC 1035)",
    params: domainParam,
    reply: z.string(),
    replyType: "text/dns",
    act: async ({ caller, params: { domain } }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const { scope, apex } = target.value;
      const exported = await exportZone(context.db, (snapshot) => findZone(snapshot, scope, apex));
      return exported ? ok(new RawReply("text/dns", exported.text)) : refuse(zoneDoesNotExist(domain));
    },
  }),
  endpoint({
    method: "PUT",
    path: "/zone_file/:domain",
    summary: "Replace all records of a zone by those of a master file, in one step",
    params: domainParam,
    input: "text",
    reply: z.object({ serial: z.int(), records: z.int(), warnings }),
    act: async ({ caller, params, text }) => {
      const replaced = await changeAndAnnounce(context, caller, params.domain, (target, now) =>
        replaceZone(context.db, target, text, now),
      );
      if (!replaced.ok) return replaced;
      const { zone, records, warnings: found } = replaced.value;
      return ok({ serial: zone.soa.serial, records, ...withWarnings(found) });
    },
  }),
  endpoint({
    method: "GET",
    path: "/zone_history/:domain",
    summary: "Changes of a zone, newest first: limit of them (100), before a serial to page on",
    params: domainParam,
    fields: z.object({
      before: serial.optional(),
      limit: z.int().min(1).max(LARGEST_HISTORY_PAGE).default(HISTORY_PAGE),
    }),
    reply: z.object({
      history: z.array(
        z.object({
          serial: z.int(),
          timestamp: z.string(),
          actor: z.string(),
          deleted: z.array(recordJson),
          added: z.array(recordJson),
        }),
      ),
    }),
    act: async ({ caller, params: { domain }, fields }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const zone = await findZone(context.db, target.value.scope, target.value.apex);
      if (!zone) return refuse(zoneDoesNotExist(domain));
      const entries = await readHistory(context.db, zone.id, fields.before, fields.limit);
      return ok({ history: entries.map((entry) => showEntry(entry, zone.apex)) });
    },
  }),
];

function showEntry({ serial: after, at, actor, deleted, added }: HistoryEntry, apex: DomainName) {
  const showsSoa = differsBeyondSerial(deleted[0], added[0]);
  const show = (records: readonly ResourceRecord[]): RecordJson[] =>
    records.filter(({ type }) => showsSoa || type !== TYPE.SOA).map((record) => showRecord(record, apex));
  return { serial: after, timestamp: at.toISOString(), actor, deleted: show(deleted), added: show(added) };
}

/** Every change alters the SOA's serial; what more it altered is worth showing. */
function differsBeyondSerial(before: ResourceRecord | undefined, after: ResourceRecord | undefined): boolean {
  if (!before || !after) return true;
  const soas = [before, after].map(({ ttl, rdata }) => {
    const { mname, rname, refresh, retry, expire, minimum } = decodeSoaRdata(rdata);
    return JSON.stringify([ttl, mname.key, rname.key, refresh, retry, expire, minimum]);
  });
  return soas[0] !== soas[1];
}
