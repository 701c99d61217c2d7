import { z } from "zod";
import { hashApiKey, makeApiKey } from "../../core/api-key.ts";
import { readChosenKey, readResellerId } from "../../core/customer-input.ts";

import { ok, refuse } from "../../core/result.ts";
import { addReseller, findReseller, listResellers, renameReseller, setRpzLicence } from "../../store/dns/resellers.ts";
import { rotateResellerKey } from "../../store/key-rotation.ts";
import { areaOf, visibleReseller } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { graceHours, graceUntil } from "../schemas.ts";

const reseller = z.object({ reseller_id: z.string(), name: z.string(), rpz_licence: z.boolean() });
const idParam = z.object({ id: z.string() });
const nameText = z.string().trim().min(1, "not-empty").max(255, "not-longer-than-characters");

/** Resellers, their licences and their keys. */
export const makeResellerEndpoints: MakeConsoleEndpoints = (context) => [
  ...listAndAddition(context),
  ...settingsAndKeys(context),
];

/** Which resellers there are. */
const listAndAddition: MakeConsoleEndpoints = ({ db, keyRing }) => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers",
    summary: "Resellers: all for the operator, a reseller itself",
    authorise: areaOf("reseller"),
    reply: z.object({ resellers: z.array(reseller) }),
    act: async ({ caller }) => {
      if (caller.role === "operator") return ok({ resellers: (await listResellers(db)).map(showReseller) });
      const own = await findReseller(db, caller.scope!);
      return ok({ resellers: own ? [showReseller(own)] : [] });
    },
  }),
  consoleEndpoint({
    method: "POST",
    path: "/resellers",
    summary: "Add a reseller; gives its key, once",
    authorise: areaOf(),
    fields: z.object({
      reseller_id: z.string(),
      name: nameText,
      key: z.string().optional(),
      rpz_licence: z.boolean().default(false),
    }),
    change: {
      action: "reseller.add",
      object: ({ fields }) => fields.reseller_id,
      detail: ({ fields }) => ({ name: fields.name, rpz_licence: fields.rpz_licence }),
    },
    reply: z.object({ reseller_id: z.string(), key: z.string() }),
    act: async ({ fields }) => {
      const id = readResellerId(fields.reseller_id);
      if (!id.ok) return id;
      const key = fields.key === undefined ? ok(makeApiKey()) : readChosenKey("key", fields.key);
      if (!key.ok) return key;
      const added = { id: id.value, name: fields.name, rpzLicence: fields.rpz_licence };
      if (!(await addReseller(db, { ...added, keyHash: hashApiKey(keyRing, "dns", key.value) }))) {
        return refuse(problem("reseller-exists", { id: id.value }));
      }
      return ok({ reseller_id: id.value, key: key.value });
    },
  }),
];

/** What a reseller is like, and what its programs show to the API. */
const settingsAndKeys: MakeConsoleEndpoints = ({ db, keyRing, clock }) => [
  consoleEndpoint({
    method: "PATCH",
    path: "/resellers/:id",
    summary: "Rename a reseller, give or take its licence for policy zones",
    authorise: areaOf(),
    params: idParam,
    fields: z.object({ name: nameText.optional(), rpz_licence: z.boolean().optional() }),
    change: { action: "reseller.change", object: ({ params }) => params.id, detail: ({ fields }) => fields },
    reply: reseller,
    act: async ({ caller, params, fields }) => {
      const found = await visibleReseller(db, caller, params.id);
      if (!found.ok) return found;
      if (fields.name !== undefined) await renameReseller(db, params.id, fields.name);
      if (fields.rpz_licence !== undefined) await setRpzLicence(db, params.id, fields.rpz_licence);
      const changed = await findReseller(db, params.id);
      return changed ? ok(showReseller(changed)) : refuse(problem("no-such-reseller"));
    },
  }),
  consoleEndpoint({
    method: "POST",
    path: "/resellers/:id/key",
    summary: "Replace a reseller's key; gives the new one, once. The old one is good for grace_hours more",
    authorise: areaOf(),
    params: idParam,
    fields: z.object({ grace_hours: graceHours }),
    change: { action: "reseller.key", object: ({ params }) => params.id, detail: ({ fields }) => fields },
    reply: z.object({ reseller_id: z.string(), key: z.string(), old_key_until: z.string().nullable() }),
    act: async ({ params, fields }) => {
      const key = makeApiKey();
      const until = graceUntil(clock, fields.grace_hours);
      const known = await rotateResellerKey(db, params.id, {
        keyHash: hashApiKey(keyRing, "dns", key),
        graceUntil: until,
      });
      if (!known) return refuse(problem("no-such-reseller"));
      return ok({ reseller_id: params.id, key, old_key_until: until?.toISOString() ?? null });
    },
  }),
];

function showReseller({ id, name, rpzLicence }: { id: string; name: string; rpzLicence: boolean }) {
  return { reseller_id: id, name, rpz_licence: rpzLicence };
}
