import { z } from "zod";

import { ok, refuse } from "../../core/result.ts";
import { addCatalog, removeCatalog } from "../../operations/dns/catalogs.ts";
import { warnings, withWarnings } from "../../platform/http/problem.ts";
import { listCatalogs } from "../../store/dns/catalogs.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { areaOf, visibleReseller } from "../caller.ts";
import { readDomainName } from "../domain-name.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const idParam = z.object({ id: z.string() });
const area = areaOf("reseller");

/** Catalog zones, by which secondaries learn of zones (RFC 9432). */
export const makeCatalogEndpoints: MakeConsoleEndpoints = ({ db }) => {
  const catalog = z.object({ zone: z.string(), serial: z.int(), members: z.int() });
  const zoneFields = z.object({ zone: z.string() });
  return [
    consoleEndpoint({
      method: "GET",
      path: "/resellers/:id/catalogs",
      summary: "Catalog zones, by which secondaries learn of the reseller's zones (RFC 9432)",
      authorise: area,
      params: idParam,
      reply: z.object({ catalogs: z.array(catalog) }),
      act: async ({ caller, params }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        return reseller.ok ? ok({ catalogs: await listCatalogs(db, params.id) }) : reseller;
      },
    }),
    consoleEndpoint({
      method: "POST",
      path: "/resellers/:id/catalogs",
      summary: "Publish a catalog of the reseller's active zones",
      authorise: area,
      params: idParam,
      fields: zoneFields,
      change: { action: "catalog.add", object: ({ fields }) => fields.zone },
      reply: z.object({ zone: z.string(), warnings }),
      act: async ({ caller, params, fields, headers }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        const apex = readDomainName("zone", fields.zone);
        if (!apex.ok) return apex;
        const maker = caller.role === "operator" ? "operator" : "reseller";
        const added = await addCatalog(db, params.id, apex.value, { actor: caller.login, maker });
        if (!added.ok) return added;
        const { zone, warnings: found } = added.value;
        await notifyZones(db, [zone.id]);
        return ok({ zone: zone.name, ...withWarnings(found, headers) });
      },
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/resellers/:id/catalogs",
      summary: "Publish a catalog no longer; the zones in it stay",
      authorise: area,
      params: idParam,
      fields: zoneFields,
      change: { action: "catalog.remove", object: ({ fields }) => fields.zone },
      reply: z.object({ msg: z.literal("removed") }),
      act: async ({ caller, params, fields }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        const apex = readDomainName("zone", fields.zone);
        if (!apex.ok) return apex;
        const removed = await removeCatalog(db, params.id, apex.value);
        if (!removed.ok) return refuse(problem("no-such-catalog"));
        await notifyZones(db, [removed.value]);
        return ok({ msg: "removed" as const });
      },
    }),
  ];
};
