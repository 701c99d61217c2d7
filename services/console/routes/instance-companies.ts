import { z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { findCompanyId, hasZoneBy } from "../../store/dns/console-zones.ts";
import {
  grantCompany,
  listCompaniesOfInstance,
  listInstancesOfCompany,
  revokeCompany,
} from "../../store/mail/instances/instance-companies.ts";
import { allowedDomains, findInstanceByName } from "../../store/mail/instances/instances.ts";
import { type AdminCaller, areaOf, visibleZones } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";

const nameParam = z.object({ name: z.string() });
const companyParam = z.object({ id: z.string(), crm_id: z.string() });
const grantParam = companyParam.extend({ name: z.string() });

/**
 * Companies whose zones an instance's users may change for its sender domains. Whoever answers for a zone says so: the
 * company, its reseller, the operator; never the instance. Of instances without a domain by these zones the first two hear nothing.
 */
export const makeInstanceCompanyEndpoints: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/companies",
    summary: "Companies whose zones its users may change for its sender domains",
    authorise: areaOf("instance"),
    params: nameParam,
    reply: z.object({
      companies: z.array(
        z.object({ reseller_id: z.string(), crm_id: z.string(), granted_by: z.string(), granted_at: z.string() }),
      ),
    }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const companies = await listCompaniesOfInstance(context.db, id);
        return ok({
          companies: companies.map(({ resellerId, crmId, grantedBy, grantedAt }) => ({
            ...{ reseller_id: resellerId, crm_id: crmId, granted_by: grantedBy },
            granted_at: grantedAt.toISOString(),
          })),
        });
      }),
  }),
  ...leave(context),
];

/** What a company says of its own zones. */
const leave: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/companies/:crm_id/instances",
    summary: "Instances whose users may change the company's zones for their sender domains",
    authorise: areaOf("reseller", "company"),
    params: companyParam,
    reply: z.object({ instances: z.array(z.string()) }),
    act: ({ caller, params }) =>
      withCompany(context, caller, params, async (companyId) => {
        return ok({ instances: await listInstancesOfCompany(context.db, companyId) });
      }),
  }),
  consoleEndpoint({
    method: "PUT",
    path: "/resellers/:id/companies/:crm_id/instances/:name",
    summary: "Give an instance's users leave to change the company's zones for their sender domains",
    authorise: areaOf("reseller", "company"),
    params: grantParam,
    change: { action: "instance-leave.give", object: ({ params }) => `${params.name} ${params.crm_id}` },
    reply: z.object({ msg: z.literal("given") }),
    act: ({ caller, params }) =>
      withCompany(context, caller, params, async (companyId) => {
        const instanceId = await findReceiver(context, caller, { companyId, name: params.name });
        if (instanceId === undefined) return refuse(problem("no-instance-of-zones"));
        await grantCompany(context.db, { instanceId, companyId, by: caller.login });
        return ok({ msg: "given" as const });
      }),
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/resellers/:id/companies/:crm_id/instances/:name",
    summary: "Take that leave back: its keys follow no longer in the company's zones",
    authorise: areaOf("reseller", "company"),
    params: grantParam,
    change: { action: "instance-leave.take", object: ({ params }) => `${params.name} ${params.crm_id}` },
    reply: z.object({ msg: z.literal("taken") }),
    act: ({ caller, params }) =>
      withCompany(context, caller, params, async (companyId) => {
        const instance = await findInstanceByName(context.db, params.name);
        const isTaken = instance && (await revokeCompany(context.db, instance.id, companyId));
        return isTaken ? ok({ msg: "taken" as const }) : refuse(problem("no-instance-of-zones"));
      }),
  }),
];

/** The instance that leave is given to. Others than the operator hear of none that has nothing to do with the company's zones. */
async function findReceiver(
  { db }: ConsoleContext,
  { role }: AdminCaller,
  { companyId, name }: { readonly companyId: number; readonly name: string },
): Promise<number | undefined> {
  const instance = await findInstanceByName(db, name);
  const mayBe = role === "operator" || (await hasZoneBy(db, companyId, await allowedDomains(db, instance?.id ?? 0)));
  return mayBe ? instance?.id : undefined;
}

/** Acts for a company whose zones are the caller's to manage; others are told what strangers are. */
async function withCompany<T>(
  { db }: ConsoleContext,
  caller: AdminCaller,
  { id, crm_id }: { readonly id: string; readonly crm_id: string },
  act: (companyId: number) => Promise<Result<T, Refusal>>,
): Promise<Result<T, Refusal>> {
  const zones = await visibleZones(db, caller, id);
  if (!zones.ok) return zones;
  const isOthers = zones.value.crmId !== undefined && zones.value.crmId !== crm_id.toLowerCase();
  const companyId = isOthers ? undefined : await findCompanyId(db, id, crm_id.toLowerCase());
  return companyId === undefined ? refuse(problem("no-such-company")) : act(companyId);
}
