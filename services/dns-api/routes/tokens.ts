import { z } from "zod";
import { type PolicyText, permissionsFor, readPolicy } from "../../core/dns/access-policy.ts";
import { POLICY_VERBS, RECORD_VERBS } from "../../core/dns/policy-verbs.ts";
import { typeCode } from "../../core/dns/rr-types.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import {
  type MadeToken,
  makeToken,
  removeToken,
  rotateToken,
  type TokenMaker,
  tokenDoesNotExist,
} from "../../operations/dns/tokens.ts";
import { replyItems } from "../../platform/http/streamed-json.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { findQuotaOwner } from "../../store/dns/quota-settings.ts";
import { findToken, type ListedToken, tokenPages } from "../../store/dns/tokens.ts";
import { actorOf } from "../caller.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { anyCrmId, nameText } from "../schemas.ts";
import { absoluteName } from "../zone-target.ts";

const LONGEST_GRACE_SECONDS = 365 * 86_400;

const entry = z.string().max(1020);
const entries = z.array(entry).nullable().optional();
const ofCompany = z.object({
  crm_id: anyCrmId.optional().meta({ description: "with a reseller's key: one of its companies, whose the token is" }),
});
const tokenParam = z.object({ token: z.string() });

const policyFields = z.object({
  networks: entries.meta({ description: "address blocks that requests may come from" }),
  access: z.enum(["read", "write"], "one-of"),
  zones: entries.meta({ description: "names of zones: exact, * for one label, ** for any number" }),
  names: entries.meta({ description: "names that own records, whole: exact, * for one label, ** for any number" }),
  types: entries.meta({ description: "types of records" }),
  verbs: z
    .array(z.enum(POLICY_VERBS, "one-of"))
    .nullable()
    .optional()
    .meta({ description: "those of records unless given" }),
});

const newTokenFields = ofCompany.extend(policyFields.shape).extend({
  name: z.string(),
  expires: z.iso.datetime({ offset: true, error: "token-expiry-form" }).nullable().optional(),
  api: z.boolean("one-of").default(true).meta({ description: "false: the TSIG key alone" }),
  tsig: z.string().nullable().optional().meta({ description: "algorithm of a TSIG key of the same policy" }),
});

const tokenReply = z.object({
  name: z.string(),
  crm_id: z.string().nullable(),
  access: z.enum(["read", "write"]),
  networks: z.array(z.string()).nullable(),
  zones: z.array(z.string()).nullable(),
  names: z.array(z.string()).nullable(),
  types: z.array(z.string()).nullable(),
  verbs: z.array(z.enum(POLICY_VERBS)),
  api: z.boolean(),
  tsig: z.object({ name: z.string(), algorithm: z.string() }).nullable(),
  made_by: z.string(),
  created: z.string(),
  expires: z.string().nullable(),
  last_used: z.string().nullable().meta({ description: "to the minute" }),
  last_used_from: z.string().nullable(),
});
const madeReply = tokenReply.extend({
  token: z.string().nullable().meta({ description: "shown this once" }),
  tsig: z.object({ name: z.string(), algorithm: z.string(), secret: z.string() }).nullable(),
});

/** Tokens of resellers and companies: what their programs call with instead of the key. */
export const makeTokenEndpoints: MakeEndpoints = (context) => [...reading(context), ...changing(context)];

const reading: MakeEndpoints = ({ db }) => [
  dnsEndpoint("key", {
    method: "POST",
    path: "/token_check",
    summary: "What a policy would let a token do with the records of a name; nothing is made",
    fields: policyFields.extend({ name: nameText, type: z.string().optional() }),
    reply: z.object({
      read: z.boolean(),
      verbs: z.array(z.enum(RECORD_VERBS)),
      refused_by: z.string().nullable().meta({ description: "the part of the policy that lets nothing be done" }),
    }),
    act: async ({ fields: { name, type, ...text } }) => {
      const policy = readPolicy(text);
      if (!policy.ok) return policy;
      const owner = absoluteName("name", name);
      if (!owner.ok) return owner;
      const code = type === undefined ? null : typeCode(type.toUpperCase());
      if (code === undefined) return refuse(invalidField("type", "policy-no-type", { text: `${type}` }));
      const { read, verbs, refusedBy } = permissionsFor(policy.value, owner.value, code);
      return ok({ read, verbs: [...verbs], refused_by: refusedBy });
    },
  }),
  dnsEndpoint("key", {
    method: "GET",
    path: "/tokens",
    summary: "List tokens: a company's, or a reseller's with those of its companies",
    fields: ofCompany,
    reply: z.object({ tokens: z.array(tokenReply) }),
    act: async ({ caller, sharer, fields }) => {
      const owner = await ownerOf(db, caller, fields.crm_id);
      if (!owner.ok) return owner;
      return replyItems("tokens", () => tokenPages(db, owner.value), showToken, { sharer, holds: "page" });
    },
  }),
  dnsEndpoint("key", {
    method: "GET",
    path: "/token/:token",
    summary: "Read a token, its secrets apart",
    params: tokenParam,
    fields: ofCompany,
    reply: tokenReply,
    act: async ({ caller, params, fields }) => {
      const owner = await ownerOf(db, caller, fields.crm_id);
      if (!owner.ok) return owner;
      const token = await findToken(db, owner.value, params.token);
      return token ? ok(showToken(token)) : refuse(tokenDoesNotExist(params.token));
    },
  }),
];

const changing: MakeEndpoints = (context) => [
  dnsEndpoint("key", {
    method: "POST",
    path: "/token",
    summary: "Make a token, with a TSIG key where one is wanted; shows the secrets, once",
    fields: newTokenFields,
    reply: madeReply,
    act: async ({ caller, fields: { crm_id, name, expires, api, tsig, ...policy } }) => {
      const maker = await makerOf(context, caller, crm_id);
      if (!maker.ok) return maker;
      const wanted = { name, policy: policy satisfies PolicyText, expires, api, tsig };
      const made = await makeToken(context, maker.value, wanted, new Date(context.clock.nowMs()));
      return made.ok ? ok(showMade(made.value)) : made;
    },
  }),
  dnsEndpoint("key", {
    method: "POST",
    path: "/token/:token/rotate",
    summary: "Replace a token's secrets; shows the new ones, once",
    params: tokenParam,
    fields: ofCompany.extend({
      grace: z
        .int("whole-number-of-seconds")
        .min(0, "not-negative")
        .max(LONGEST_GRACE_SECONDS, "not-above")
        .default(0)
        .meta({
          description:
            "seconds for which the former token is good as well; one before it, and a TSIG secret, are so no more",
        }),
    }),
    reply: madeReply,
    act: async ({ caller, params, fields: { crm_id, grace } }) => {
      const owner = await ownerOf(context.db, caller, crm_id);
      if (!owner.ok) return owner;
      const until = grace === 0 ? null : new Date(context.clock.nowMs() + grace * 1_000);
      const made = await rotateToken(context, owner.value, params.token, until);
      return made.ok ? ok(showMade(made.value)) : made;
    },
  }),
  dnsEndpoint("key", {
    method: "DELETE",
    path: "/token/:token",
    summary: "Take a token away, and its TSIG key with it",
    params: tokenParam,
    fields: ofCompany,
    reply: z.object({ msg: z.literal("deleted") }),
    act: async ({ caller, params, fields }) => {
      const owner = await ownerOf(context.db, caller, fields.crm_id);
      if (!owner.ok) return owner;
      const removed = await removeToken(context.db, owner.value, params.token);
      return removed.ok ? ok({ msg: "deleted" as const }) : removed;
    },
  }),
];

/** Whose tokens are meant: the caller's own, or those of a company of the reseller that calls. */
async function ownerOf(
  db: DnsApiContext["db"],
  caller: DnsCaller,
  crmId: string | undefined,
): Promise<Result<TokenMaker["owner"], Refusal>> {
  const { resellerId } = caller;
  if (caller.mode === "company") {
    const isOwn = crmId === undefined || crmId.toLowerCase() === caller.crmId;
    return isOwn
      ? ok({ resellerId, companyId: caller.companyId })
      : refuse(unacceptable("holder-unknown", { id: crmId }));
  }
  if (crmId === undefined) return ok({ resellerId });
  const owner = await findQuotaOwner(db, resellerId, crmId);
  return owner ? ok(owner) : refuse(unacceptable("holder-unknown", { id: crmId }));
}

async function makerOf(
  { db }: DnsApiContext,
  caller: DnsCaller,
  crmId: string | undefined,
): Promise<Result<TokenMaker, Refusal>> {
  const owner = await ownerOf(db, caller, crmId);
  if (!owner.ok) return owner;
  const company = caller.mode === "company" ? caller.crmId : crmId?.toLowerCase();
  const holder = company === undefined ? { reseller: caller.resellerId } : { company };
  return ok({ owner: owner.value, holder, actor: actorOf(caller), login: caller.login ?? null });
}

function showToken(token: ListedToken): z.input<typeof tokenReply> {
  const { access, networks, zones, names, types, verbs } = token.policy;
  const copy = (list: readonly string[] | null | undefined) => (list ? [...list] : null);
  return {
    name: token.name,
    crm_id: token.crmId,
    access,
    ...{ networks: copy(networks), zones: copy(zones), names: copy(names), types: copy(types) },
    verbs: [...(verbs ?? [])],
    api: token.hasSecret,
    tsig: token.tsig,
    made_by: token.madeBy,
    created: token.createdAt.toISOString(),
    expires: token.expiresAt?.toISOString() ?? null,
    last_used: token.lastUsedAt?.toISOString() ?? null,
    last_used_from: token.lastUsedFrom,
  };
}

function showMade({ listed, secret, tsig }: MadeToken): z.input<typeof madeReply> {
  const key = tsig && { name: tsig.name, algorithm: tsig.algorithm, secret: tsig.secret.toString("base64") };
  return { ...showToken(listed), token: secret, tsig: key };
}
