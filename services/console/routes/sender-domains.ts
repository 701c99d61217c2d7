import { z } from "zod";
import { readNewSenderDomain, readSenderDomain } from "../../core/customer-input.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { hostingZone } from "../../operations/mail/domain-hosting.ts";
import { checkSenderDomain, createMissingRecords, type SenderLookups } from "../../operations/mail/sender-checks.ts";
import type { Config } from "../../platform/config/config.ts";
import { makeResolver } from "../../platform/lookups/resolver.ts";
import { makeTxtLookup } from "../../platform/lookups/txt-lookup.ts";
import {
  addInstanceDomain,
  type Instance,
  type InstanceDomain,
  listInstanceDomains,
  removeInstanceDomain,
} from "../../store/mail/instances/instances.ts";
import { type AdminCaller, areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";
import { makeWriteZone } from "../write-zone.ts";

const nameParam = z.object({ name: z.string() });
const domainParam = nameParam.extend({ domain: z.string() });
const expectedRecord = z.object({
  name: z.string(),
  type: z.enum(["TXT", "MX"]),
  value: z.string(),
  preference: z.int().optional(),
});
const senderDomain = z.object({
  domain: z.string(),
  dkim: z.object({ selector: z.string(), name: z.string(), value: z.string() }),
});

/** Sender domains of an instance, and whether what they publish makes their mail believed. */
export const makeSenderDomainEndpoints: MakeConsoleEndpoints = (context) => {
  let made: Promise<SenderLookups> | undefined;
  const lookups = () => {
    made ??= makeLookups(context.config);
    return made;
  };
  return [...allowing(context), checkEndpoint(context, lookups), creationEndpoint(context, lookups)];
};

async function makeLookups({ resolver: server }: Config): Promise<SenderLookups> {
  const [texts, resolver] = await Promise.all([makeTxtLookup(server), makeResolver(server)]);
  return { texts, resolver };
}

/** Which domains an instance may send from. */
const allowing: MakeConsoleEndpoints = (context) => {
  const { db, keyRing } = context;
  return [
    consoleEndpoint({
      method: "GET",
      path: "/instances/:name/domains",
      summary: "Sender domains, each with the record that publishes its DKIM key",
      authorise: areaOf("instance"),
      params: nameParam,
      reply: z.object({ domains: z.array(senderDomain) }),
      act: ({ caller, params }) =>
        withInstance(context, caller, params.name, async ({ id }) => {
          return ok({ domains: (await listInstanceDomains(db, id)).map(showDomain) });
        }),
    }),
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/domains",
      summary: "Allow a sender domain, and make its DKIM key",
      authorise: areaOf(),
      params: nameParam,
      fields: z.object({ domain: z.string() }),
      change: { action: "sender-domain.add", object: ({ fields }) => fields.domain },
      reply: senderDomain,
      act: ({ caller, params, fields }) =>
        withInstance(context, caller, params.name, async ({ id, name }) => {
          const domain = readNewSenderDomain(fields.domain);
          if (!domain.ok) return domain;
          if (!(await addInstanceDomain(db, keyRing, id, domain.value))) {
            return refuse(problem("sender-domain-exists", { instance: name, domain: domain.value }));
          }
          const added = (await listInstanceDomains(db, id)).find((one) => one.domain === domain.value);
          return ok(showDomain(added as InstanceDomain));
        }),
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/instances/:name/domains/:domain",
      summary: "Allow a sender domain no longer; its DKIM key goes with it",
      authorise: areaOf(),
      params: domainParam,
      change: { action: "sender-domain.remove", object: ({ params }) => params.domain },
      reply: z.object({ msg: z.literal("removed") }),
      act: ({ caller, params }) =>
        withInstance(context, caller, params.name, async ({ id }) => {
          const domain = readSenderDomain(params.domain);
          const removed = domain.ok && (await removeInstanceDomain(db, id, domain.value));
          return removed ? ok({ msg: "removed" as const }) : refuse(NO_SUCH_DOMAIN);
        }),
    }),
  ];
};

function checkEndpoint(context: ConsoleContext, lookups: () => Promise<SenderLookups>): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/domains/:domain/check",
    summary: "The check-list: SPF, DKIM, DMARC, and the bounce domain, by look-up",
    authorise: areaOf("instance"),
    params: domainParam,
    reply: z.object({
      checks: z.array(
        z.object({
          name: z.enum(["spf", "dkim", "dmarc", "bounce"]),
          expected: z.array(expectedRecord),
          found: z.array(z.string()),
          ok: z.boolean(),
        }),
      ),
      hosted: z.boolean().meta({ description: "whether the domain lies in a zone of this deployment" }),
      may_create: z.boolean().meta({ description: "whether the caller may have the missing records created" }),
    }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const domain = await domainOf(context, instance, params.domain);
        if (!domain.ok) return domain;
        const checks = await checkSenderDomain(context.config, domain.value, await lookups());
        const hosted = (await hostingZone(context, domain.value.domain)) !== undefined;
        return ok({
          checks: checks.map((check) => ({ ...check, expected: [...check.expected], found: [...check.found] })),
          hosted,
          may_create: hosted && mayCreate(caller, instance),
        });
      }),
  });
}

function creationEndpoint(context: ConsoleContext, lookups: () => Promise<SenderLookups>): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/domains/:domain/records",
    summary: "Create the missing records in the zones that are hosted here; others' contents are left alone",
    authorise: areaOf("instance"),
    params: domainParam,
    change: { action: "sender-domain.records", object: ({ params }) => params.domain },
    reply: z.object({ created: z.array(expectedRecord), conflicts: z.array(z.string()) }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async (instance) => {
        if (!mayCreate(caller, instance)) {
          return refuse(problem("records-not-allowed"));
        }
        const domain = await domainOf(context, instance, params.domain);
        if (!domain.ok) return domain;
        if (!(await hostingZone(context, domain.value.domain))) {
          return refuse(problem("not-hosted-here", { domain: domain.value.domain }));
        }
        const checks = await checkSenderDomain(context.config, domain.value, await lookups());
        // The bounce domain is the deployment's, whoever's mail comes back to it.
        const own = caller.role === "operator" ? checks : checks.filter(({ name }) => name !== "bounce");
        const wanted = { domain: domain.value.domain, checks: own };
        const made = await createMissingRecords(context, wanted, makeWriteZone(context, caller.login));
        return made.ok ? ok({ created: [...made.value.created], conflicts: [...made.value.conflicts] }) : made;
      }),
  });
}

const NO_SUCH_DOMAIN = problem("no-such-sender-domain");

/** The operator always, an instance's users where the operator said so: whose zone it is, nobody else asks. */
function mayCreate(caller: AdminCaller, instance: Instance): boolean {
  return caller.role === "operator" || instance.createsRecords;
}

async function domainOf(
  { db }: ConsoleContext,
  { id }: Instance,
  text: string,
): Promise<Result<InstanceDomain, Refusal>> {
  const domain = readSenderDomain(text);
  const known = domain.ok ? (await listInstanceDomains(db, id)).find((one) => one.domain === domain.value) : undefined;
  return known ? ok(known) : refuse(NO_SUCH_DOMAIN);
}

function showDomain({ domain, dkimSelector, dkimRecord }: InstanceDomain): z.input<typeof senderDomain> {
  return {
    domain,
    dkim: { selector: dkimSelector, name: `${dkimSelector}._domainkey.${domain}`, value: dkimRecord },
  };
}
