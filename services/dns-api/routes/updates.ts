import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import {
  readResellerUpdates,
  readZoneUpdates,
  setResellerUpdates,
  setZoneUpdates,
} from "../../store/dns/dns-updates.ts";
import { zoneDoesNotExist } from "../../store/dns/zones.ts";
import { resellerOnly } from "../caller.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { domainParam } from "../schemas.ts";
import { zoneTarget } from "../zone-target.ts";

const zoneReply = z.object({
  domain: z.string(),
  enabled: z.boolean().meta({ description: "whether the zone takes updates" }),
  default: z.boolean().meta({ description: "whether that is so because its reseller's zones are so" }),
});
const resellerReply = z.object({ enabled: z.boolean() });

/** Which zones take dynamic updates (RFC 2136), signed with the TSIG key of a token. */
export const makeUpdateEndpoints: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/updates/:domain",
    summary: "Whether a zone takes DNS UPDATE (RFC 2136)",
    params: domainParam,
    reply: zoneReply,
    act: ({ caller, params: { domain } }) => show(context, caller, domain),
  }),
  dnsEndpoint("key", {
    method: "PUT",
    path: "/updates/:domain",
    summary: "Whether a zone takes DNS UPDATE, signed with the TSIG key of a token",
    params: domainParam,
    fields: z.object({ enabled: z.boolean("one-of") }),
    reply: zoneReply,
    act: ({ caller, params: { domain }, fields }) => set(context, caller, domain, fields.enabled),
  }),
  dnsEndpoint("key", {
    method: "DELETE",
    path: "/updates/:domain",
    summary: "Let a zone take DNS UPDATE, or not, as the reseller's zones do",
    params: domainParam,
    reply: zoneReply,
    act: ({ caller, params: { domain } }) => set(context, caller, domain, null),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/updates",
    summary: "Whether the reseller's zones take DNS UPDATE where they do not say otherwise",
    reply: resellerReply,
    act: async ({ caller }) => ok({ enabled: await readResellerUpdates(context.db, caller.resellerId) }),
  }),
  dnsEndpoint("key", {
    method: "PUT",
    path: "/updates",
    summary: "Whether the reseller's zones take DNS UPDATE where they do not say otherwise",
    authorise: resellerOnly,
    fields: z.object({ enabled: z.boolean("one-of") }),
    reply: resellerReply,
    act: async ({ caller, fields: { enabled } }) => {
      await setResellerUpdates(context.db, caller.resellerId, enabled);
      return ok({ enabled });
    },
  }),
];

async function set(context: DnsApiContext, caller: DnsCaller, domain: string, own: boolean | null) {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  await setZoneUpdates(context.db, target.value.scope, target.value.apex, own);
  return show(context, caller, domain);
}

async function show({ db }: DnsApiContext, caller: DnsCaller, domain: string) {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const { scope, apex } = target.value;
  const found = await readZoneUpdates(db, scope, apex);
  if (!found) return refuse(zoneDoesNotExist(domain));
  return ok({ domain, enabled: found.enabled, default: found.own === null });
}
