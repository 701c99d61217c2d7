import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import { measureReplacement } from "../../operations/dns/zone-file-size.ts";
import { replaceZone, zoneFilePieces } from "../../operations/dns/zone-files.ts";
import { measureHistory, readHistory } from "../../store/dns/zone-history.ts";
import { readZoneUsage } from "../../store/dns/zone-usage.ts";
import { findZone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { changedFollowers } from "../follower-json.ts";
import { replyHistory } from "../history-json.ts";
import { weightOfFile, weightOfPage, weightOfZone, ZONE_FILE_BOUNDS } from "../large-work.ts";
import { recordReply } from "../record-json.ts";
import { atSerial, domainParam, serial, warnings, withWarnings } from "../schemas.ts";
import { replyFromZone } from "../zone-reply.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";

/** Changes in one page of a history, unless the caller wants another number, and at most. */
const HISTORY_PAGE = 100;
const LARGEST_HISTORY_PAGE = 1_000;

const recordJson = recordReply.omit({ rr_id: true });

/** Whole zones: as master files, and through time. */
export const makeZoneFileEndpoints: MakeEndpoints = (context) => [...masterFiles(context), ...history(context)];

const masterFiles: MakeEndpoints = (context) => [
  dnsEndpoint("read_all", {
    method: "GET",
    path: "/zone_file/:domain",
    summary: "The zone as a master file (RFC 1035)",
    params: domainParam,
    reply: z.string(),
    replyType: "text/dns",
    act: async ({ caller, sharer, params: { domain } }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const { scope, apex } = target.value;
      return replyFromZone(context.db, "text/dns", { sharer, domain }, async function* (snapshot) {
        const zone = await findZone(snapshot, scope, apex);
        if (zone) yield* zoneFilePieces(snapshot, zone);
      });
    },
  }),
  dnsEndpoint("records", {
    method: "PUT",
    path: "/zone_file/:domain",
    summary: "Replace all records of a zone by those of a master file, in one step",
    params: domainParam,
    input: "text",
    bodyType: "text/dns",
    fields: z.object({ serial: atSerial }),
    reply: z.object({ serial: z.int(), records: z.int(), warnings }),
    act: async ({ caller, params, text, fields, headers }) => {
      const named = zoneTarget(caller, params.domain);
      if (!named.ok) return named;
      const size = await measureReplacement(context.db, named.value, text);
      if (!size.ok) return size;
      const file = { text, bounds: ZONE_FILE_BOUNDS, atSerial: fields.serial };
      const usage = await readZoneUsage(context.db, named.value.scope, named.value.apex);
      if (!usage) return refuse(zoneDoesNotExist(params.domain));
      const worker = await context.quotas.workerOf(caller);
      const weight = weightOfFile(text, size.value) + weightOfZone(usage);
      const replaced = await context.largeWork.run(worker, weight, () =>
        changeAndAnnounce(context, caller, params.domain, (target, now) => replaceZone(context.db, target, file, now)),
      );
      if (!replaced.ok) return replaced;
      const { zone, records, warnings: found } = replaced.value;
      return ok({ serial: zone.soa.serial, records, ...withWarnings(found, headers) });
    },
  }),
];

const history: MakeEndpoints = (context) => [
  dnsEndpoint("read_all", {
    method: "GET",
    path: "/zone_history/:domain",
    summary: "Changes of a zone, newest first: limit of them (100), before a serial to page on",
    params: domainParam,
    fields: z.object({
      before: serial.optional(),
      before_timestamp: z.iso.datetime().optional().meta({
        description: "that of the entry that before names: which one, where its serial occurs more than once",
      }),
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
          followers: changedFollowers,
          signing: z
            .enum(["begun", "ended", "renewed"])
            .optional()
            .meta({ description: "what became of the keys and signatures, where the change touched them" }),
        }),
      ),
    }),
    act: async ({ caller, sharer, params: { domain }, fields }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const zone = await findZone(context.db, target.value.scope, target.value.apex);
      if (!zone) return refuse(zoneDoesNotExist(domain));
      const { before, before_timestamp: at, limit } = fields;
      const place =
        before === undefined ? undefined : { serial: before, at: at === undefined ? undefined : new Date(at) };
      const weight = weightOfPage(await measureHistory(context.db, zone.id, place, limit));
      return context.largeWork.run(await context.quotas.workerOf(caller), weight, async () => {
        const entries = await readHistory(context.db, zone.id, place, limit);
        return replyHistory(entries, zone.apex, sharer);
      });
    },
  }),
];
