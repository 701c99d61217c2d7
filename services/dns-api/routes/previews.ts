import { z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/db.ts";
import { endpoint } from "../../platform/http/endpoint.ts";
import { cleanFields, validateFields } from "../../platform/http/fields.ts";
import type { ZoneTarget } from "../../store/dns/zone-changes.ts";
import { replaceZone } from "../../store/dns/zone-files.ts";
import { previewChange } from "../../store/dns/zone-preview.ts";
import { changeRecords } from "../../store/dns/zone-records.ts";
import { rollBackZone } from "../../store/dns/zone-rollback.ts";
import { findZone, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import type { MakeEndpoints } from "../context.ts";
import { replyPreview } from "../history-json.ts";
import { oneLargeFileAtATime, ZONE_FILE_BOUNDS } from "../large-files.ts";
import { recordReply } from "../record-json.ts";
import { domainParam, serial, warnings, withWarnings } from "../schemas.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";
import { batchFields, readBatch } from "./records.ts";

const recordJson = recordReply.omit({ rr_id: true });

/** Changes before they are made, and after: previews and the way back. */
export const makePreviewEndpoints: MakeEndpoints = (context) => [
  endpoint({
    method: "POST",
    path: "/zone_preview/:domain",
    summary: "What a master file, or a batch as JSON, would change; nothing is changed",
    params: domainParam,
    input: "text",
    bodyType: "text/dns",
    reply: z.object({
      serial: z.int().meta({ description: "that the zone would have" }),
      added: z.array(recordJson),
      deleted: z.array(recordJson),
      warnings: z.array(z.string()),
    }),
    act: async ({ caller, params: { domain }, text, headers }) => {
      const { db, secret, clock } = context;
      const named = zoneTarget(caller, domain);
      if (!named.ok) return named;
      const target = { ...named.value, signer: { secret, clock } };
      const zone = await findZone(db, target.scope, target.apex);
      if (!zone) return refuse(zoneDoesNotExist(domain));
      const now = new Date(clock.nowMs());
      const isBatch = /^application\/json\b/i.test(headers["content-type"] ?? "");
      const change = isBatch
        ? (on: Db) => changeByBatch(on, target, text, now)
        : (on: Db) => replaceZone(on, target, { text, bounds: ZONE_FILE_BOUNDS }, now);
      const preview = await oneLargeFileAtATime(text, () => previewChange(db, zone, change));
      return preview.ok ? replyPreview(preview.value) : preview;
    },
  }),
  endpoint({
    method: "POST",
    path: "/zone_rollback/:domain",
    summary: "Make a zone what it was when it had a serial, as one change",
    params: domainParam,
    fields: z.object({ serial }),
    reply: z.object({ serial: z.int(), warnings }),
    act: async ({ caller, params: { domain }, fields }) => {
      const rolledBack = await changeAndAnnounce(context, caller, domain, (target, now) =>
        rollBackZone(context.db, target, fields.serial, now),
      );
      if (!rolledBack.ok) return rolledBack;
      const { zone, warnings: found } = rolledBack.value;
      return ok({ serial: zone.soa.serial, ...withWarnings(found) });
    },
  }),
];

async function changeByBatch(
  db: Db,
  target: ZoneTarget,
  text: string,
  now: Date,
): Promise<Result<{ readonly zone: Zone; readonly warnings: readonly string[] }, Refusal>> {
  const fields = readJson(text);
  if (!fields.ok) return fields;
  const edits = readBatch(fields.value, target.apex);
  return edits.ok ? changeRecords(db, target, edits.value, now) : edits;
}

function readJson(text: string): Result<z.output<typeof batchFields>, Refusal> {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return refuse({ kind: "malformed-json" });
  }
  const cleaned = cleanFields(given, () => false);
  return cleaned.ok ? validateFields(batchFields, cleaned.value) : cleaned;
}
