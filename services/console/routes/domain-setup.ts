import { z } from "zod";
import { readSenderDomain } from "../../core/customer-input.ts";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { checkDomain, findDomain, startRotation } from "../../operations/mail/domain-check.ts";
import {
  filesToPaste,
  readSettings,
  showItem,
  showProposedItem,
  showUpkeep,
} from "../../operations/mail/domain-settings.ts";
import { agreeToSetup, type DomainToSetUp, proposeSetup, type SetupRight } from "../../operations/mail/domain-setup.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { listFurtherKeys } from "../../store/mail/instances/dkim-keys.ts";
import { changeUpkeep, postponeDomain } from "../../store/mail/instances/domain-upkeep.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { type AdminCaller, areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { UPKEEP_ACTOR } from "../domain-upkeep.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";
import { makeWriteZone } from "../write-zone.ts";

const domainParam = z.object({ name: z.string(), domain: z.string() });
const flatten = z.boolean().meta({ description: "put addresses in the place of what the SPF policy includes" });
const inQuery = z
  .enum(["true", "false"])
  .default("false")
  .transform((text) => text === "true");

const item = z.object({
  part: z.string().meta({ description: "what the record is for" }),
  name: z.string(),
  type: z.enum(["TXT", "MX", "CNAME"]),
  action: z
    .enum(["keep", "add", "modify", "remove", "ask"])
    .meta({ description: "ask: somebody has to decide, nothing is done about it" }),
  before: z.string().nullable().meta({ description: "what is there, and goes where it is modified or removed" }),
  after: z.string().nullable().meta({ description: "what should be there" }),
  fault: z.object({ kind: z.string(), at: z.string() }).nullable(),
  spf_lookups: z.int().nullable().meta({ description: "of SPF: terms that need a look-up, of at most ten" }),
});
const proposedItem = item.extend({
  zone: z.string().nullable().meta({ description: "the zone hosted here that the caller may have it written to" }),
});
const upkeep = z.object({
  domain: z.string(),
  mta_sts: z.enum(["off", "testing", "enforce"]),
  mta_sts_ends: z.string().nullable().meta({
    description: "of a policy that is withdrawn: until then it is served with mode none, and its records stay",
  }),
  tls_reports: z.boolean(),
  tracking_host: z.string().nullable(),
  rotate_days: z.int().nullable().meta({ description: "null: DKIM keys change when somebody says so" }),
  agreed_by: z.string().nullable().meta({ description: "who agreed that its keys follow in the zone hosted here" }),
  checked_at: z.string().nullable(),
  checks: z.array(item).nullable().meta({ description: "what the last look at its name servers found" }),
  keys: z.array(
    z.object({
      selector: z.string(),
      name: z.string(),
      algorithm: z.enum(["rsa", "ed25519"]),
      state: z.enum(["new", "signing", "old", "done"]),
      seen_since: z.string().nullable(),
      retired_at: z.string().nullable(),
    }),
  ),
});

/** What a sender domain should publish, its agreement, and its upkeep. */
export const makeDomainSetupEndpoints: MakeConsoleEndpoints = (context) => [
  ...proposals(context),
  ...settings(context),
  ...looks(context),
];

const proposals: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/domains/:domain/setup",
    summary: "What would make its mail aligned, signed and reported, as differences from what it publishes",
    authorise: areaOf("instance"),
    params: domainParam,
    fields: z.object({ flatten: inQuery }),
    reply: upkeep.extend({
      items: z.array(proposedItem),
      fingerprint: z.string().meta({ description: "of this proposal: agreeing refers to it" }),
      may_write: z.boolean(),
      domain_connect: z
        .object({})
        .loose()
        .meta({ description: "a template of Domain Connect of what is to be done elsewhere" }),
      zone_file: z.string().meta({ description: "the same for a master file" }),
    }),
    act: ({ caller, params, fields }) =>
      withDomain(context, caller, params, async (to) => {
        const proposal = await proposeSetup(context, to, { right: rightOf(caller), flatten: fields.flatten });
        const { items, fingerprint, mayWrite } = proposal;
        return ok({
          ...showUpkeep(to, await listFurtherKeys(context.db, to.upkeep)),
          ...{ items: items.map(showProposedItem), fingerprint, may_write: mayWrite },
          ...filesToPaste(context.config.bounceDomain, to.own.domain, items),
        });
      }),
  }),
  consoleEndpoint({
    method: "POST",
    path: "/instances/:name/domains/:domain/setup",
    summary:
      "Agree: writes what was proposed to the zones hosted here that the caller may change, and has its keys follow",
    authorise: areaOf("instance"),
    params: domainParam,
    fields: z.object({ fingerprint: z.string(), flatten: flatten.default(false) }),
    change: { action: "sender-domain.setup", object: ({ params }) => params.domain },
    reply: z.object({
      written: z.array(proposedItem),
      refused: z.array(z.object({ zone: z.string(), reason: sentenceJson })),
    }),
    act: ({ caller, params, fields }) =>
      withDomain(context, caller, params, async (to) => {
        const write = makeWriteZone(context, caller.login);
        const agreement = { ...fields, right: rightOf(caller), login: caller.login, write };
        const agreed = await agreeToSetup(context, to, agreement);
        if (!agreed.ok) return agreed;
        const { written, refused } = agreed.value;
        const told = refused.map(({ zone, reason }) => ({ zone, reason: sentenceOf(reason) }));
        return ok({ written: written.map(showProposedItem), refused: told });
      }),
  }),
];

const settings: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "PATCH",
    path: "/instances/:name/domains/:domain/setup",
    summary: "Change what is wanted of a sender domain; nothing is published by that alone",
    authorise: areaOf("instance"),
    params: domainParam,
    fields: z.object({
      mta_sts: z.enum(["off", "testing", "enforce"]).optional(),
      tls_reports: z.boolean().optional(),
      tracking_host: z.string().nullable().optional(),
      rotate_days: z.int("whole-number-of-days").min(7, "at-least").max(3650, "at-most").nullable().optional(),
    }),
    change: {
      action: "sender-domain.settings",
      object: ({ params }) => params.domain,
      detail: ({ fields }) => fields,
    },
    reply: upkeep,
    act: ({ caller, params, fields }) =>
      withDomain(context, caller, params, async (to, instance) => {
        const { db, clock } = context;
        const given = readSettings(to.upkeep, fields, new Date(clock.nowMs()));
        if (!given.ok) return given;
        await changeUpkeep(db, to.upkeep, given.value);
        await postponeDomain(db, to.upkeep, new Date(clock.nowMs()));
        const changed = await findDomain(db, instance.id, to.own.domain);
        return ok(showUpkeep(changed ?? to, await listFurtherKeys(db, to.upkeep)));
      }),
  }),
];

const looks: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "POST",
    path: "/instances/:name/domains/:domain/check",
    summary: "Look now at what its name servers say, in the place of the next hourly look",
    authorise: areaOf("instance"),
    params: domainParam,
    change: null,
    reply: z.object({ checked_at: z.string(), checks: z.array(item) }),
    act: ({ caller, params }) =>
      withDomain(context, caller, params, async ({ own, upkeep }) => {
        const now = new Date(context.clock.nowMs());
        const surroundings = { ...context, write: makeWriteZone(context, UPKEEP_ACTOR) };
        const { checks } = await checkDomain(surroundings, own, { upkeep, now });
        return ok({ checked_at: now.toISOString(), checks: checks.map(showItem) });
      }),
  }),
  consoleEndpoint({
    method: "POST",
    path: "/instances/:name/domains/:domain/rotation",
    summary:
      "Begin a change of its DKIM keys: new ones are published, and signed with once all name servers have them; in the place of keys of a lost secret at once",
    authorise: areaOf("instance"),
    params: domainParam,
    change: { action: "sender-domain.rotate", object: ({ params }) => params.domain },
    reply: upkeep,
    act: ({ caller, params }) =>
      withDomain(context, caller, params, async (to) => {
        const { db, clock } = context;
        const now = new Date(clock.nowMs());
        if ((await startRotation(context, to.upkeep, now)) === 0) {
          return refuse(problem("rotation-begun", { domain: to.own.domain }));
        }
        await postponeDomain(db, to.upkeep, now);
        const changed = (await findDomain(db, to.upkeep.instanceId, to.own.domain)) ?? to;
        return ok(showUpkeep(changed, await listFurtherKeys(db, to.upkeep)));
      }),
  }),
];

function rightOf({ role }: AdminCaller): SetupRight {
  return role === "operator" ? "operator" : "instance";
}

/** Acts on a sender domain of the path's instance; refuses, as for one that there is not, when it is not the caller's to see. */
function withDomain<T>(
  context: ConsoleContext,
  caller: AdminCaller,
  params: { readonly name: string; readonly domain: string },
  act: (to: DomainToSetUp, instance: Instance) => Promise<Result<T, Refusal>>,
): Promise<Result<T, Refusal>> {
  return withInstance(context, caller, params.name, async (instance) => {
    const domain = readSenderDomain(params.domain);
    const to = domain.ok ? await findDomain(context.db, instance.id, domain.value) : undefined;
    return to ? act(to, instance) : refuse(problem("no-such-sender-domain"));
  });
}
