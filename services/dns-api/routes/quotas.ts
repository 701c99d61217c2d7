import { z } from "zod";
import { QUOTA_NAMES } from "../../core/dns/quotas.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { findQuotaOwner, type QuotaOwner, type QuotaState, readQuotas } from "../../store/dns/quota-settings.ts";
import { resellerOnly } from "../caller.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { anyCrmId } from "../schemas.ts";

const quotaReply = z.object({
  quotas: z.array(
    z.object({
      name: z.enum(QUOTA_NAMES),
      allowed: z.int().nullable().meta({ description: "null: no bound" }),
      used: z.int().nullable().meta({ description: "null where it is so much a minute, or at a time" }),
      default: z.boolean().meta({ description: "whether it is the deployment's default" }),
    }),
  ),
});

/** What callers may have and do, and what of it is used. */
export const makeQuotaEndpoints: MakeEndpoints = (context) => [
  dnsEndpoint("read_zones", {
    method: "GET",
    path: "/quota",
    summary: "The caller's quotas and what is used of them; with crm_id those of one of a reseller's companies",
    fields: z.object({ crm_id: anyCrmId.optional() }),
    reply: quotaReply,
    act: ({ caller, fields: { crm_id } }) => {
      const { resellerId } = caller;
      if (caller.mode === "reseller") return showQuotas(context, resellerId, crm_id);
      const isOwn = crm_id === undefined || crm_id.toLowerCase() === caller.crmId;
      return isOwn ? showOwner(context, caller) : Promise.resolve(refuse(doesNotExist(crm_id)));
    },
  }),
  dnsEndpoint("key", {
    method: "GET",
    path: "/company/:crm_id/quota",
    summary: "The quotas of a company and what is used of them",
    authorise: resellerOnly,
    params: z.object({ crm_id: anyCrmId }),
    reply: quotaReply,
    act: ({ caller, params: { crm_id } }) => showQuotas(context, caller.resellerId, crm_id),
  }),
];

async function showQuotas(
  context: DnsApiContext,
  resellerId: string,
  crmId: string | undefined,
): Promise<Result<z.input<typeof quotaReply>, Refusal>> {
  const owner = await findQuotaOwner(context.db, resellerId, crmId);
  return owner ? showOwner(context, owner) : refuse(doesNotExist(crmId ?? resellerId));
}

async function showOwner({ db }: DnsApiContext, owner: QuotaOwner): Promise<Result<z.input<typeof quotaReply>, never>> {
  return ok({ quotas: (await readQuotas(db, owner)).map(showQuota) });
}

function showQuota({ name, allowed, used, isDefault }: QuotaState) {
  return { name, allowed, used, default: isDefault };
}

function doesNotExist(crmId: string): Refusal {
  return unacceptable("holder-unknown", { id: crmId });
}
