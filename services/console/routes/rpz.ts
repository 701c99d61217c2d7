import { z } from "zod";
import { readRpzRules } from "../../core/dns/rpz/import.ts";
import {
  formatRpzAction,
  formatRpzTrigger,
  parseRpzAction,
  parseRpzTrigger,
  type RpzTrigger,
  readRuleOwner,
} from "../../core/dns/rpz/rules.ts";
import { parseMoment } from "../../core/moment.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { sentence } from "../../core/sentences.ts";
import { addFeed, removeFeed, setFeedActive } from "../../operations/dns/rpz-feeds.ts";
import { importRules } from "../../operations/dns/rpz-import.ts";
import { addRule, type NewRule, removeRule } from "../../operations/dns/rpz-rules.ts";
import { sentenceJson, warnings, withWarnings } from "../../platform/http/problem.ts";
import { searchRules } from "../../store/dns/console-rpz.ts";
import { findFeed, listActiveFeeds, listFeeds } from "../../store/dns/rpz-feeds.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { jobError } from "../../store/jobs.ts";
import { areaOf, visibleReseller } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { readDomainName } from "../domain-name.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { jobReply, pageLimit, searchText } from "../schemas.ts";

const feed = z.object({ zone: z.string(), serial: z.int(), rules: z.int() });
const zoneParam = z.object({ zone: z.string() });
const trigger = z
  .string()
  .meta({ description: "qname:NAME, qname:*.NAME, ip:BLOCK, client-ip:BLOCK, nsdname:NAME or nsip:BLOCK" });
const removable = z.string().meta({
  description: "a trigger, or owner:NAME, as the list shows what is no rule: from releases that took more",
});
const changedRule = z.object({ zone: z.string(), serial: z.int(), trigger: z.string() });
const resellerParam = z.object({ id: z.string() });
const operator = areaOf();

/** Response policy zones: the operator keeps them, resellers with the licence use them. */
export const makeRpzEndpoints: MakeConsoleEndpoints = (context) => [
  ...feedEndpoints(context),
  ...ruleSearch(context),
  ...ruleChanges(context),
  importEndpoint(context),
  ...activationEndpoints(context),
];

function feedEndpoints({ db }: ConsoleContext): ConsoleEndpoint[] {
  return [
    consoleEndpoint({
      method: "GET",
      path: "/rpz",
      summary: "The feeds of the deployment",
      authorise: operator,
      reply: z.object({ rpz: z.array(feed) }),
      act: async () => ok({ rpz: await listFeeds(db) }),
    }),
    consoleEndpoint({
      method: "POST",
      path: "/rpz",
      summary: "Make a feed without rules",
      authorise: operator,
      fields: z.object({ zone: z.string() }),
      change: { action: "feed.add", object: ({ fields }) => fields.zone },
      reply: feed.extend({ warnings }),
      act: async ({ caller, fields, headers }) => {
        const apex = readDomainName("zone", fields.zone);
        if (!apex.ok) return apex;
        const added = await addFeed(db, apex.value, caller.login);
        if (!added.ok) return added;
        const { zone, warnings } = added.value;
        await notifyZones(db, [zone.id]);
        return ok({ zone: zone.name, serial: zone.soa.serial, rules: 0, ...withWarnings(warnings, headers) });
      },
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/rpz/:zone",
      summary: "Remove a feed and all its rules",
      authorise: operator,
      params: zoneParam,
      change: { action: "feed.remove", object: ({ params }) => params.zone },
      reply: z.object({ msg: z.literal("removed") }),
      act: async ({ params }) => {
        const found = await feedOf({ db }, params.zone);
        if (!found.ok) return found;
        const removed = await removeFeed(db, found.value.apex);
        if (!removed.ok) return refuse(NO_SUCH_FEED);
        await notifyZones(db, [removed.value]);
        return ok({ msg: "removed" as const });
      },
    }),
  ];
}

const NO_SUCH_FEED = problem("no-such-feed");

async function feedOf({ db }: Pick<ConsoleContext, "db">, zone: string): Promise<Result<Zone, Refusal>> {
  const apex = readDomainName("zone", zone);
  const found = apex.ok ? await findFeed(db, apex.value) : undefined;
  return found ? ok(found) : refuse(NO_SUCH_FEED);
}

const ruleSearch: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/rpz/:zone/rules",
    summary: "Rules whose trigger contains a text, or is that one, oldest first; go on after the last one's id",
    authorise: operator,
    params: zoneParam,
    fields: z.object({
      search: searchText,
      trigger: removable.optional(),
      after: z.int().min(0).default(0),
      limit: pageLimit,
    }),
    reply: z.object({
      rules: z.array(
        z.object({
          id: z.int(),
          trigger: z.string(),
          action: z.string(),
          expires: z.string().nullable(),
          fault: sentenceJson.nullable().meta({ description: "why it is no rule, and shown as its record stands" }),
        }),
      ),
      next: z.int().nullable(),
    }),
    act: async ({ params, fields }) => {
      const found = await feedOf({ db }, params.zone);
      if (!found.ok) return found;
      const { search, after, limit } = fields;
      const at = fields.trigger === undefined ? ok(undefined) : readRuleOwner(fields.trigger, found.value.apex);
      if (!at.ok) return refuse(invalidField("trigger", at.error));
      const page = { after, limit, ...(at.value && { owner: at.value.owner }) };
      const rules = await searchRules(db, found.value, search, page);
      return ok({
        rules: rules.map(({ expiresAt, ...rule }) => ({ ...rule, expires: expiresAt?.toISOString() ?? null })),
        next: rules.length < fields.limit ? null : (rules.at(-1)?.id ?? null),
      });
    },
  }),
];

const ruleChanges: MakeConsoleEndpoints = ({ db, clock }) => [
  consoleEndpoint({
    method: "POST",
    path: "/rpz/:zone/rules",
    summary: "Add a rule, or set when one that is there goes by itself",
    authorise: operator,
    params: zoneParam,
    fields: z.object({
      trigger,
      action: z.string().meta({ description: 'nxdomain, nodata, passthru, drop, tcp-only, or "TYPE value"' }),
      expires: z.iso.datetime({ offset: true, error: "time-form" }).optional(),
    }),
    change: {
      action: "rule.add",
      object: ({ params, fields }) => `${params.zone} ${fields.trigger}`,
      detail: ({ fields }) => ({ action: fields.action, expires: fields.expires ?? null }),
    },
    reply: changedRule.extend({ action: z.string(), expires: z.string().nullable() }),
    act: async ({ caller, params, fields }) => {
      const found = await feedOf({ db }, params.zone);
      if (!found.ok) return found;
      const rule = readRule(fields, clock.nowMs());
      if (!rule.ok) return rule;
      const added = await addRule(db, found.value.apex, rule.value, caller.login);
      if (!added.ok) return added;
      if (added.value.changed) await notifyZones(db, [found.value.id]);
      return ok({
        zone: found.value.name,
        serial: added.value.feed.soa.serial,
        trigger: formatRpzTrigger(rule.value.trigger),
        action: formatRpzAction(rule.value.action),
        expires: rule.value.expiresAt?.toISOString() ?? null,
      });
    },
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/rpz/:zone/rules",
    summary: "Remove all that a trigger does",
    authorise: operator,
    params: zoneParam,
    fields: z.object({ trigger: removable }),
    change: { action: "rule.remove", object: ({ params, fields }) => `${params.zone} ${fields.trigger}` },
    reply: changedRule,
    act: async ({ caller, params, fields }) => {
      const found = await feedOf({ db }, params.zone);
      if (!found.ok) return found;
      const removed = await removeRule(db, found.value.apex, fields.trigger, caller.login);
      if (!removed.ok) return removed;
      const { feed, trigger } = removed.value;
      await notifyZones(db, [feed.id]);
      return ok({ zone: feed.name, serial: feed.soa.serial, trigger });
    },
  }),
];

function readRule(
  fields: { readonly trigger: string; readonly action: string; readonly expires?: string | undefined },
  nowMs: number,
): Result<NewRule, Refusal> {
  const readTo = readTrigger(fields.trigger);
  if (!readTo.ok) return readTo;
  const action = parseRpzAction(fields.action);
  if (!action.ok) return refuse(invalidField("action", action.error));
  const expiresAt = fields.expires === undefined ? null : parseMoment(fields.expires);
  if (expiresAt === undefined) return refuse(invalidField("expires", "time-form"));
  if (expiresAt && expiresAt.getTime() <= nowMs) return refuse(invalidField("expires", "past"));
  return ok({ trigger: readTo.value, action: action.value, expiresAt });
}

function readTrigger(text: string): Result<RpzTrigger, Refusal> {
  const trigger = parseRpzTrigger(text);
  return trigger.ok ? trigger : refuse(invalidField("trigger", trigger.error));
}

function importEndpoint({ db, jobs }: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/rpz/:zone/import",
    summary: "Add the rules of a policy zone, a hosts file, or a list of domains: a job",
    authorise: operator,
    params: zoneParam,
    input: "text",
    fields: z.object({ format: z.enum(["rpz", "hosts", "domains"]).default("rpz") }),
    change: { action: "rule.import", object: ({ params }) => params.zone, detail: ({ fields }) => fields },
    reply: jobReply,
    act: async ({ caller, params, fields, text }) => {
      const found = await feedOf({ db }, params.zone);
      if (!found.ok) return found;
      const { apex, name } = found.value;
      const job = await jobs.start(
        {
          ...{ kind: "rpz-import", object: name, owner: caller.login },
          ...{ about: { role: "operator", scope: null }, total: countLines(text) },
        },
        async (reporter) => {
          const onProgress = (lines: number) => {
            reporter.signal.throwIfAborted();
            reporter.progress(lines);
          };
          const readLines = () => readRpzRules(text, fields.format, apex);
          const imported = await importRules(db, apex, readLines, { actor: caller.login, onProgress });
          if (!imported.ok) return imported;
          const { feed: changed, added, duplicates, conflicts, rejected } = imported.value;
          if (added > 0) await notifyZones(db, [changed.id]);
          for (const { line, trigger, has, wanted } of conflicts) {
            reporter.problem(jobError(sentence("rule-conflict", { trigger, has, wanted }), line));
          }
          for (const { line, reason } of rejected) reporter.problem(jobError(reason, line));
          reporter.progress(countLines(text));
          const counts = { conflicts: conflicts.length, rejected: rejected.length };
          return ok({ zone: name, serial: changed.soa.serial, added, duplicates, ...counts });
        },
      );
      return ok({ job });
    },
  });
}

function countLines(text: string): number {
  let lines = text === "" || text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

function activationEndpoints({ db }: ConsoleContext): ConsoleEndpoint[] {
  const activationParam = resellerParam.extend({ zone: z.string() });
  const switchEndpoint = (method: "PUT" | "DELETE", active: boolean) =>
    consoleEndpoint({
      method,
      path: "/resellers/:id/rpz/:zone",
      summary: active ? "Use a feed; needs the licence" : "Use a feed no longer",
      authorise: areaOf("reseller"),
      params: activationParam,
      change: { action: active ? "feed.activate" : "feed.deactivate", object: ({ params }) => params.zone },
      reply: z.object({ zone: z.string(), active: z.boolean() }),
      act: async ({ caller, params }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        if (active && !reseller.value.rpzLicence) {
          return refuse(problem("no-rpz-licence"));
        }
        const found = await feedOf({ db }, params.zone);
        if (!found.ok) return found;
        const set = await setFeedActive(db, found.value.apex, params.id, active);
        return set.ok ? ok({ zone: zoneName(found.value.apex), active }) : set;
      },
    });
  return [
    consoleEndpoint({
      method: "GET",
      path: "/resellers/:id/rpz",
      summary: "The feeds that there are, and which of them the reseller uses; without the licence none",
      authorise: areaOf("reseller"),
      params: resellerParam,
      reply: z.object({ licence: z.boolean(), rpz: z.array(feed.extend({ active: z.boolean() })) }),
      act: async ({ caller, params }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        const { rpzLicence: licence } = reseller.value;
        if (!licence) return ok({ licence, rpz: [] });
        const active = new Set((await listActiveFeeds(db, params.id)).map(({ zone }) => zone));
        const feeds = await listFeeds(db);
        return ok({ licence, rpz: feeds.map((one) => ({ ...one, active: active.has(one.zone) })) });
      },
    }),
    switchEndpoint("PUT", true),
    switchEndpoint("DELETE", false),
  ];
}
