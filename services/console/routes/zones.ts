import { z } from "zod";
import { ok } from "../../core/result.ts";
import type { Request } from "../../platform/http/endpoint.ts";
import { warnings } from "../../platform/http/problem.ts";
import { searchZones } from "../../store/dns/console-zones.ts";
import { type AdminCaller, areaOf, delegateDns, visibleZones } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { readDomainName } from "../domain-name.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { passOn } from "../pass-on.ts";
import { pageLimit, searchText } from "../schemas.ts";

const area = areaOf("reseller", "company");
const zoneParam = z.object({ id: z.string(), domain: z.string() });
const recordJson = z.object({
  name: z.string(),
  type: z.string(),
  ttl: z.int(),
  rr_prio: z.string().nullable(),
  value: z.string(),
});
const followerJson = z.looseObject({ name: z.string(), kind: z.enum(["alias", "pool"]) });

const leftOutJson = z.enum(["withheld", "outdated"]).nullable().meta({
  description: "name servers have no memory for it and do not answer for it, or for its latest version only",
});

/** Zones of a reseller or a company: the search, previews and the way back. */
export const makeZoneEndpoints: MakeConsoleEndpoints = (context) => [
  ...search(context),
  ...previewAndRollback(context),
];

const search: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/zones",
    summary: "Zones by any part of their name, suspended ones included, in canonical order; go on after `next`",
    authorise: area,
    params: z.object({ id: z.string() }),
    fields: z.object({
      search: searchText,
      after: z.string().optional().meta({ description: "only zones that come after this one" }),
      limit: pageLimit,
      crm_id: z.string().optional().meta({ description: "only this company's" }),
    }),
    reply: z.object({
      zones: z.array(
        z.object({
          domain: z.string(),
          crm_id: z.string(),
          serial: z.int(),
          suspended: z.boolean(),
          records: z.int(),
          dnssec: z.boolean(),
          left_out: leftOutJson,
        }),
      ),
      next: z.string().nullable(),
    }),
    act: async ({ caller, params, fields }) => {
      const visible = await visibleZones(context.db, caller, params.id);
      if (!visible.ok) return visible;
      const after = fields.after === undefined ? ok(undefined) : readDomainName("after", fields.after);
      if (!after.ok) return after;
      const crmId = visible.value.crmId ?? fields.crm_id?.toLowerCase();
      const zones = await searchZones(context.db, {
        ...{ resellerId: params.id, crmId, text: fields.search, after: after.value, limit: fields.limit },
      });
      return ok({
        zones: zones.map(({ name, crmId: owner, serial, suspended, records, signed, leftOut }) => ({
          ...{ domain: name, crm_id: owner, serial, suspended, records, dnssec: signed, left_out: leftOut },
        })),
        next: zones.length < fields.limit ? null : (zones.at(-1)?.name ?? null),
      });
    },
  }),
];

/** What the DNS API does for them. */
const previewAndRollback: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "POST",
    path: "/resellers/:id/zones/:domain/preview",
    summary: "What a master file, or a batch as JSON, would change; nothing is changed",
    authorise: area,
    params: zoneParam,
    input: "stream",
    bodyType: "text/dns",
    jsonBody: z.looseObject({}).meta({ description: "as POST /zone_preview of the DNS API takes it" }),
    change: null,
    reply: z.object({
      at_serial: z.int().meta({ description: "of the zone that was looked at" }),
      serial: z.int(),
      added: z.array(recordJson),
      deleted: z.array(recordJson),
      followers: z
        .object({ deleted: z.array(followerJson), added: z.array(followerJson) })
        .optional()
        .meta({ description: "aliases and pools that became others, where some did" }),
      warnings: warnings.unwrap(),
    }),
    act: async (request) => passToZone(context, request, "zone_preview"),
  }),
  consoleEndpoint({
    method: "POST",
    path: "/resellers/:id/zones/:domain/rollback",
    summary: "Make a zone what it was when it had a serial, as one change",
    authorise: area,
    params: zoneParam,
    fields: z.object({ serial: z.int() }),
    change: {
      action: "zone.rollback",
      object: ({ params }) => params.domain,
      detail: ({ fields }) => fields,
    },
    reply: z.object({ serial: z.int(), warnings }),
    act: async (request) => passToZone(context, request, "zone_rollback", request.fields),
  }),
];

/** Has the DNS API do it, whose rules for zones and callers these are. */
async function passToZone(
  context: ConsoleContext,
  request: Request<AdminCaller, { readonly id: string; readonly domain: string }, unknown>,
  operation: "zone_preview" | "zone_rollback",
  body?: object,
) {
  const { caller, params } = request;
  const delegation = await delegateDns(context.db, caller, params.id);
  if (!delegation.ok) return delegation;
  const path = `${operation}/${encodeURIComponent(params.domain)}`;
  return passOn(context, request, { delegation: delegation.value, method: "POST", path }, body);
}
