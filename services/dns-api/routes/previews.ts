import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { ZoneChanged, ZoneTarget } from "../../operations/dns/zone-changes.ts";
import { measureReplacement } from "../../operations/dns/zone-file-size.ts";
import { replaceZone, type ZoneFileApplied } from "../../operations/dns/zone-files.ts";
import { previewOf } from "../../operations/dns/zone-preview.ts";
import { changeRecords } from "../../operations/dns/zone-records.ts";
import { rollBackZone } from "../../operations/dns/zone-rollback.ts";
import type { Request } from "../../platform/http/endpoint.ts";
import { cleanFields, validateFields } from "../../platform/http/fields.ts";
import { parseJson } from "../../platform/http/request-body.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { readHistoryOctets } from "../../store/dns/zone-history.ts";
import { readZoneUsage } from "../../store/dns/zone-usage.ts";
import { findZone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { admitJson, type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { changedFollowers, keepsCheck } from "../follower-json.ts";
import { replyPreview } from "../history-json.ts";
import {
  MOST_BATCH_SHOWN_OCTETS,
  weightOfFile,
  weightOfHistory,
  weightOfZone,
  ZONE_FILE_BOUNDS,
} from "../large-work.ts";
import { recordReply } from "../record-json.ts";
import { domainParam, serial, warnings, withWarnings } from "../schemas.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";
import { batchFields, readBatch } from "./records.ts";

const recordJson = recordReply.omit({ rr_id: true });
const previewReply = z.object({
  at_serial: z
    .int()
    .meta({ description: "of the zone that was looked at: `serial` of the change that is to do just this" }),
  serial: z.int().meta({ description: "that the zone would have" }),
  added: z.array(recordJson),
  deleted: z.array(recordJson),
  followers: changedFollowers,
  warnings: warnings.unwrap(),
});

/** Changes before they are made, and after: previews and the way back. */
export const makePreviewEndpoints: MakeEndpoints = (context) => [
  dnsEndpoint("records", {
    method: "POST",
    path: "/zone_preview/:domain",
    summary: "What a master file, or a batch as JSON, would change; nothing is changed",
    params: domainParam,
    input: "text",
    bodyType: "text/dns",
    jsonBody: batchFields,
    reply: previewReply,
    admit: async (caller, octets, headers) => {
      if (!isBatch(headers)) return context.largeWork.enter(await context.quotas.workerOf(caller), 0);
      if (octets > MOST_BATCH_SHOWN_OCTETS) return refuse({ kind: "too-large" });
      return admitJson(context)(caller, octets);
    },
    act: async ({ caller, sharer, params: { domain }, text, headers, judge }) => {
      const { db, keyRing, clock } = context;
      const named = zoneTarget(caller, domain);
      if (!named.ok) return named;
      const target = { ...named.value, signer: { keyRing, clock }, quotas: "look" as const };
      if (!(await findZone(db, target.scope, target.apex))) return refuse(zoneDoesNotExist(domain));
      const now = new Date(clock.nowMs());
      const looked = await (isBatch(headers) ? changeByBatch : replaceInPlace)(context, {
        ...{ caller, target, text, now, judge },
      });
      const preview = looked.ok ? previewOf(looked.value) : looked;
      return preview.ok ? replyPreview(preview.value, sharer, headers) : preview;
    },
  }),
  dnsEndpoint("records", {
    method: "POST",
    path: "/zone_rollback/:domain",
    summary: "Make a zone what it was when it had a serial, as one change",
    params: domainParam,
    fields: z.object({ serial }),
    reply: z.object({ serial: z.int(), warnings }),
    act: async ({ caller, params: { domain }, fields, headers }) => {
      const named = zoneTarget(caller, domain);
      if (!named.ok) return named;
      const usage = await readZoneUsage(context.db, named.value.scope, named.value.apex);
      if (!usage) return refuse(zoneDoesNotExist(domain));
      const history = await readHistoryOctets(context.db, usage.id, fields.serial);
      const weight = weightOfZone(usage) + weightOfHistory(history);
      const worker = await context.quotas.workerOf(caller);
      const rolledBack = await context.largeWork.run(worker, weight, () =>
        changeAndAnnounce(context, caller, domain, (target, now) =>
          rollBackZone(context.db, target, fields.serial, now),
        ),
      );
      if (!rolledBack.ok) return rolledBack;
      const { zone, warnings: found } = rolledBack.value;
      return ok({ serial: zone.soa.serial, ...withWarnings(found, headers) });
    },
  }),
];

function isBatch(headers: IncomingHttpHeaders): boolean {
  return /^application\/json\b/i.test(headers["content-type"] ?? "");
}

/** A change that is only to be looked at. */
interface Look {
  readonly caller: DnsCaller;
  readonly target: ZoneTarget;
  readonly text: string;
  readonly now: Date;
  readonly judge: Request<DnsCaller, object, unknown>["judge"];
}

async function replaceInPlace(
  { db, quotas, largeWork }: DnsApiContext,
  { caller, target, text, now }: Look,
): Promise<Result<ZoneFileApplied, Refusal>> {
  const size = await measureReplacement(db, target, text);
  if (!size.ok) return size;
  const usage = await readZoneUsage(db, target.scope, target.apex);
  if (!usage) return refuse(zoneDoesNotExist(target.domain));
  const weight = weightOfFile(text, size.value) + weightOfZone(usage);
  return largeWork.run(await quotas.workerOf(caller), weight, () =>
    replaceZone(db, target, { text, bounds: ZONE_FILE_BOUNDS }, now),
  );
}

async function changeByBatch(
  context: DnsApiContext,
  { caller, target, text, now, judge }: Look,
): Promise<Result<ZoneChanged, Refusal>> {
  const edits = await judge(() => {
    const fields = readJson(text);
    return fields.ok ? readBatch(context, fields.value, target.apex) : fields;
  });
  if (!edits.ok) return edits;
  return context.largeWork.begin(
    () => context.quotas.workerOf(caller),
    (admitMuch) => changeRecords(context.db, { ...target, admitMuch }, edits.value, now),
  );
}

function readJson(text: string): Result<z.output<typeof batchFields>, Refusal> {
  const given = parseJson(text);
  if (!given.ok) return given;
  const cleaned = cleanFields(given.value, keepsCheck);
  return cleaned.ok ? validateFields(batchFields, cleaned.value) : cleaned;
}
