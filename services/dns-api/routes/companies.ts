import { z } from "zod";
import { LEAST_KEY_BITS, LEAST_KEY_CHARACTERS } from "../../core/chosen-key.ts";
import { readChosenKey } from "../../core/customer-input.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { addCompany, changeCompany, cleanCompanyKey, deleteCompany } from "../../operations/dns/companies.ts";
import { type Company, type CompanySummary, findCompany, listCompanies } from "../../store/dns/companies.ts";
import { resellerOnly } from "../caller.ts";
import { dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { anyCrmId, crmId, text } from "../schemas.ts";

const createdReply = z.object({ crm_id: z.string(), name: z.string(), apikey: z.string(), suspended: z.boolean() });
const companyReply = createdReply.extend({ domains: z.int() });
const companyParam = z.object({ crm_id: anyCrmId });
const chosenKey = text.meta({
  description:
    `what its programs send: visible ASCII; spaces, commas and semicolons are taken out; then at least ` +
    `${LEAST_KEY_CHARACTERS} characters of an estimated ${LEAST_KEY_BITS} bits`,
});

/** Companies of a reseller. */
export const makeCompanyEndpoints: MakeEndpoints = (context) => [...reading(context), ...changing(context)];

const reading: MakeEndpoints = ({ db, keyRing }) => [
  dnsEndpoint("key", {
    method: "GET",
    path: "/companies",
    summary: "List companies",
    authorise: resellerOnly,
    reply: z.object({ companies: z.array(companyReply.omit({ apikey: true })) }),
    act: async ({ caller }) => ok({ companies: (await listCompanies(db, caller.resellerId)).map(showSummary) }),
  }),
  dnsEndpoint("key", {
    method: "GET",
    path: "/company/:crm_id",
    summary: "Read a company",
    authorise: resellerOnly,
    params: companyParam,
    fields: z.object({ crm_id: anyCrmId.optional() }),
    reply: companyReply,
    act: async ({ caller, params, fields }) => {
      const asked = fields.crm_id ?? params.crm_id;
      if (asked.toLowerCase() !== params.crm_id.toLowerCase()) {
        return refuse(invalidField("crm_id", "not-of-the-path"));
      }
      const company = await findCompany(db, keyRing, caller.resellerId, params.crm_id);
      return company ? ok(showCompany(company)) : refuse(unacceptable("holder-unknown", { id: params.crm_id }));
    },
  }),
];

const changing: MakeEndpoints = ({ db, keyRing, clock, announcer }) => [
  dnsEndpoint("key", {
    method: "POST",
    path: "/company",
    summary: "Create a company",
    authorise: resellerOnly,
    fields: z.object({ crm_id: crmId, name: text, apikey: chosenKey }),
    reply: createdReply,
    act: async ({ caller, fields: { crm_id, name, apikey } }) => {
      const key = readKey(apikey);
      if (!key.ok) return key;
      const company = { resellerId: caller.resellerId, crmId: crm_id, name, apikey: key.value };
      const added = await addCompany(db, keyRing, company);
      if (!added.ok) return added;
      return ok({ crm_id: added.value.crmId, name, apikey: key.value, suspended: false });
    },
  }),
  dnsEndpoint("key", {
    method: "PUT",
    path: "/company/:crm_id",
    summary: "Modify a company; suspended is written to its zones as well",
    authorise: resellerOnly,
    params: companyParam,
    fields: z.object({
      crm_id: crmId.optional(),
      name: text.optional(),
      apikey: chosenKey.optional(),
      suspended: z.boolean().optional(),
    }),
    reply: companyReply,
    act: async ({ caller, params, fields: { crm_id, apikey, ...others } }) => {
      const key = apikey === undefined ? ok(undefined) : readKey(apikey);
      if (!key.ok) return key;
      const which = { resellerId: caller.resellerId, crmId: params.crm_id };
      const changed = await changeCompany(db, keyRing, which, { ...others, crmId: crm_id, apikey: key.value });
      if (!changed.ok) return changed;
      announcer.announce(changed.value.zoneIds);
      return ok(showCompany(changed.value.company));
    },
  }),
  dnsEndpoint("key", {
    method: "DELETE",
    path: "/company/:crm_id",
    summary: "Delete a company and all its zones; its apikey confirms",
    authorise: resellerOnly,
    params: companyParam,
    fields: z.object({ apikey: z.string() }),
    reply: z.object({ msg: z.literal("deleted"), domains: z.int() }),
    act: async ({ caller, params, fields }) => {
      const which = { resellerId: caller.resellerId, crmId: params.crm_id };
      const gone = await deleteCompany(db, { keyRing, clock }, which, cleanCompanyKey(fields.apikey));
      if (!gone.ok) return gone;
      const { zoneIds, parentIds } = gone.value;
      announcer.announce([...zoneIds, ...parentIds]);
      return ok({ msg: "deleted" as const, domains: zoneIds.length });
    },
  }),
];

/** A key as it is stored. */
function readKey(apikey: string): Result<string, Refusal> {
  return readChosenKey("apikey", cleanCompanyKey(apikey));
}

function showSummary({ crmId, name, suspended, domains }: CompanySummary) {
  return { crm_id: crmId, name, suspended, domains };
}

function showCompany({ crmId, name, apikey, suspended, domains }: Company) {
  return { crm_id: crmId, name, apikey, suspended, domains };
}
