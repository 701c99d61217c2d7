import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import { changeSoa, checkSoaNames } from "../../operations/dns/zone-soa.ts";
import { findZone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { anyCrmId, domainParam, nameText, secondsInPath, serialInPath, withWarnings } from "../schemas.ts";
import { showSoa, soaReply } from "../soa-json.ts";
import { absoluteName, changeWholeZone, zoneTarget } from "../zone-target.ts";

/** The SOA record of a zone. */
export const makeSoaEndpoints: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/soa/:domain",
    summary: "Read the SOA record",
    params: domainParam,
    reply: soaReply,
    act: async ({ caller, params: { domain } }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const zone = await findZone(context.db, target.value.scope, target.value.apex);
      return zone ? ok(showSoa(zone)) : refuse(zoneDoesNotExist(domain));
    },
  }),
  dnsEndpoint("records", {
    method: "POST",
    path: "/update_soa/:company_short/:domain/:mname/:rname/:serial/:refresh/:retry/:expire/:minimum/:ttl",
    summary: "Update the SOA record; company_short is the crm_id of the zone's company",
    params: z.object({
      company_short: anyCrmId,
      domain: z.string(),
      mname: nameText,
      rname: nameText,
      serial: serialInPath,
      refresh: secondsInPath,
      retry: secondsInPath,
      expire: secondsInPath,
      minimum: secondsInPath,
      ttl: secondsInPath,
    }),
    reply: soaReply,
    act: async ({ caller, params, headers }) => {
      const { company_short: crmId, domain, ttl, ...times } = params;
      const mname = absoluteName("mname", params.mname);
      if (!mname.ok) return mname;
      const rname = absoluteName("rname", params.rname);
      if (!rname.ok) return rname;
      const soa = { ...times, mname: mname.value, rname: rname.value };
      const problem = checkSoaNames(soa);
      if (problem) return refuse(problem);
      const changed = await changeWholeZone(context, caller, domain, (target, now) =>
        changeSoa(context.db, target, { crmId, soa, ttl }, now),
      );
      if (!changed.ok) return changed;
      const { zone, warnings } = changed.value;
      return ok({ ...showSoa(zone), ...withWarnings(warnings, headers) });
    },
  }),
];
