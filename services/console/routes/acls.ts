import { z } from "zod";
import { readAcl, readTsigKey } from "../../core/dns/acl-input.ts";
import {
  POLICY_CONSUMERS,
  policyStanza,
  SECONDARIES,
  type ServerAddress,
  secondaryStanzaLines,
} from "../../core/dns/acl-stanzas.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { addressPort } from "../../platform/config/config-values.ts";
import { RawReply } from "../../platform/http/endpoint.ts";
import { runInTurns } from "../../platform/turns.ts";
import { addAcl, findAcl, listAcls, removeAcl } from "../../store/dns/acls.ts";
import { findFeed } from "../../store/dns/rpz-feeds.ts";
import { listAclZones } from "../../store/dns/transfer-zones.ts";
import { zoneName } from "../../store/dns/zones.ts";
import { areaOf, visibleReseller } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { readDomainName } from "../domain-name.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { stanzaJson } from "../stanza-json.ts";

const idParam = z.object({ id: z.string() });
const nameParam = idParam.extend({ name: z.string() });
const area = areaOf("reseller");
const PROGRAMS = [...new Set<string>([...SECONDARIES, ...POLICY_CONSUMERS])];

const newAcl = z.object({
  name: z.string(),
  blocks: z.array(z.string()).default([]),
  zones: z.array(z.string()).nullable().default(null).meta({ description: "null: all zones of the reseller" }),
  notify: z.array(z.string()).default([]).meta({ description: "host or host:port" }),
  tsig: z
    .object({
      name: z.string(),
      algorithm: z.string().optional(),
      secret: z.string().optional().meta({ description: "base64; made when absent" }),
    })
    .nullable()
    .default(null),
});

/** Who may transfer a reseller's zones, and what to paste into the other side's configuration. */
export const makeAclEndpoints: MakeConsoleEndpoints = (context) => [
  ...listing(context),
  ...changing(context),
  stanzaEndpoint(context),
];

const listing: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/acls",
    summary: "Transfer ACLs, without the secrets of their keys",
    authorise: area,
    params: idParam,
    reply: z.object({
      acls: z.array(
        z.object({
          name: z.string(),
          blocks: z.array(z.string()),
          tsig: z.object({ name: z.string(), algorithm: z.string() }).nullable(),
          zones: z.array(z.string()).nullable(),
          notify: z.array(z.string()),
        }),
      ),
    }),
    act: async ({ caller, params }) => {
      const reseller = await visibleReseller(db, caller, params.id);
      if (!reseller.ok) return reseller;
      const acls = await listAcls(db, params.id);
      return ok({
        acls: acls.map(({ name, blocks, tsig, zones, notify }) => ({
          ...{ name, blocks: [...blocks], tsig, notify: [...notify] },
          zones: zones && [...zones],
        })),
      });
    },
  }),
];

const changing: MakeConsoleEndpoints = ({ db, keyRing }) => [
  consoleEndpoint({
    method: "POST",
    path: "/resellers/:id/acls",
    summary: "Allow transfers; gives the key's secret, once",
    authorise: area,
    params: idParam,
    fields: newAcl,
    change: {
      action: "acl.add",
      object: ({ fields }) => fields.name,
      detail: ({ fields: { blocks, zones, notify, tsig } }) => ({ blocks, zones, notify, tsig: tsig?.name ?? null }),
    },
    reply: z.object({
      name: z.string(),
      tsig: z.object({ name: z.string(), algorithm: z.string(), secret: z.string() }).nullable(),
    }),
    act: async ({ caller, params, fields }) => {
      const reseller = await visibleReseller(db, caller, params.id);
      if (!reseller.ok) return reseller;
      const parts = readAcl({ ...fields, zones: fields.zones ?? [] });
      if (!parts.ok) return parts;
      const key = fields.tsig === null ? ok(null) : readTsigKey(fields.tsig);
      if (!key.ok) return key;
      const tsig = key.value;
      const added = await addAcl(db, keyRing, { ...parts.value, resellerId: params.id, tsig });
      if (!added.ok) return added;
      return ok({ name: fields.name, tsig: tsig && { ...tsig, secret: tsig.secret.toString("base64") } });
    },
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/resellers/:id/acls/:name",
    summary: "Remove an ACL, and its key with it",
    authorise: area,
    params: nameParam,
    change: { action: "acl.remove", object: ({ params }) => params.name },
    reply: z.object({ msg: z.literal("removed") }),
    act: async ({ caller, params }) => {
      const reseller = await visibleReseller(db, caller, params.id);
      if (!reseller.ok) return reseller;
      const removed = await removeAcl(db, params.id, params.name);
      return removed ? ok({ msg: "removed" as const }) : refuse(NO_SUCH_ACL);
    },
  }),
];

const NO_SUCH_ACL = problem("no-such-acl");

function stanzaEndpoint(context: ConsoleContext): ConsoleEndpoint {
  const { db, keyRing } = context;
  return consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/acls/:name/stanza",
    summary: "What to paste into the other side's configuration, secret included",
    authorise: area,
    params: nameParam,
    fields: z.object({
      for: z.enum(PROGRAMS as [string, ...string[]]),
      rpz: z.string().optional().meta({ description: "a policy zone: for the resolver that applies it" }),
      primary: z.string().optional().meta({ description: "address:port of this server as the other side reaches it" }),
    }),
    reply: z.object({ name: z.string(), for: z.string(), stanza: z.string() }),
    act: async ({ caller, params, fields }) => {
      const reseller = await visibleReseller(db, caller, params.id);
      if (!reseller.ok) return reseller;
      const acl = await findAcl(db, keyRing, params.id, params.name);
      if (!acl) return refuse(NO_SUCH_ACL);
      const primary = await readPrimary(context, fields.primary);
      if (!primary.ok) return primary;
      const named = { resellerId: params.id, aclName: params.name };
      const facts = { ...named, key: acl.tsig, primary: primary.value, zones: [] };
      const shown = { name: params.name, for: fields.for };
      if (fields.rpz === undefined) {
        if (!isOneOf(SECONDARIES, fields.for)) return refuse(invalidField("for", "no-secondary", { text: fields.for }));
        const zones = await listAclZones(db, params.id, acl.zones);
        const lines = secondaryStanzaLines(fields.for, { ...facts, zones });
        return ok(new RawReply("application/json", await runInTurns(stanzaJson(shown, lines))));
      }
      if (!isOneOf(POLICY_CONSUMERS, fields.for)) {
        return refuse(invalidField("for", "no-policy-zones", { text: fields.for }));
      }
      const apex = readDomainName("rpz", fields.rpz);
      if (!apex.ok) return apex;
      if (!(await findFeed(db, apex.value))) return refuse(problem("no-such-feed"));
      return ok({ ...shown, stanza: policyStanza(fields.for, facts, [zoneName(apex.value)]) });
    },
  });
}

/** The address that was asked for, else the running server's, which may be of use on this machine alone. */
async function readPrimary(
  { addressOf }: ConsoleContext,
  given: string | undefined,
): Promise<Result<ServerAddress, Refusal>> {
  const address = addressPort(given ?? (await addressOf("dns")));
  if (!address.ok) return refuse(invalidField("primary", "address-port"));
  if (address.value.host === "0.0.0.0" || address.value.host === "::") {
    return refuse(problem("primary-needed"));
  }
  return address;
}

function isOneOf<const Names extends readonly string[]>(names: Names, name: string): name is Names[number] {
  return names.includes(name);
}
