import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import {
  changeWarmUp,
  startWarmUp,
  viewWarmUp,
  viewWarmUps,
  type WarmUpVerb,
  type WarmUpView,
} from "../../operations/mail/warm-ups.ts";
import { warmUpPlan } from "../../platform/config/warm-up-policy.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const time = z.string().meta({ description: "ISO 8601, UTC" });
const warmUpJson = z.object({
  source: z.string().meta({ description: "an address of ours, or `system` where the system chooses it" }),
  state: z.enum(["running", "paused", "over", "stopped"]),
  started_at: time,
  started_by: z.string(),
  ends_at: time,
  changed_by: z.string().nullable().meta({ description: "who paused or stopped it" }),
  day: z.int().meta({ description: "since it began, from 1" }),
  days: z.int().meta({ description: "that the plan has" }),
  providers: z.array(
    z.object({
      provider: z.string().meta({ description: "a group of domains, or a domain that is in none" }),
      day: z.int().meta({ description: "of the plan, from 1" }),
      planned: z.int(),
      sent: z.int(),
      deferred: z.int(),
      complaints: z.int(),
      paused_for: z.enum(["deferrals", "complaints"]).nullable(),
      paused_until: time.nullable(),
    }),
  ),
});
const count = z.int().nullable().meta({ description: "null: the day is to come" });
const courseJson = z.object({
  provider: z.string(),
  days: z.array(
    z.object({ at: time, day: z.int(), planned: z.int(), sent: count, deferred: count, complaints: count }),
  ),
});
const params = z.object({ source: z.string().max(255) });
const sourceJson = z.object({ source: z.string() });

/** New source addresses that send by a plan, and the operator's hand on them. */
export const makeWarmUpEndpoints: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  return [
    consoleEndpoint({
      method: "GET",
      path: "/warm-ups",
      summary: "Source addresses that send by a plan, or did",
      authorise: areaOf(),
      reply: z.object({ warm_ups: z.array(warmUpJson) }),
      act: async () => ok({ warm_ups: (await viewWarmUps(db)).map(toJson) }),
    }),
    consoleEndpoint({
      method: "GET",
      path: "/warm-ups/:source",
      summary: "What is planned for a source and was sent, by provider and day",
      authorise: areaOf(),
      params,
      reply: warmUpJson.extend({ courses: z.array(courseJson) }),
      act: async ({ params: { source } }) => {
        const found = await viewWarmUp(db, source);
        if (found === undefined) return refuse(problem("no-such-warm-up"));
        const courses = found.courses.map(({ provider, days }) => ({
          provider,
          days: days.map(({ at, complained, ...day }) => ({ ...day, at: at.toISOString(), complaints: complained })),
        }));
        return ok({ ...toJson(found), courses });
      },
    }),
    consoleEndpoint({
      method: "POST",
      path: "/warm-ups/:source/start",
      summary: "Have an address send by the plan of config/warm-up.json from now on",
      authorise: areaOf(),
      params,
      fields: z.object({ day: z.int("whole-number").min(1, "at-least").default(1) }),
      change: { action: "warm-up.start", object: ({ params }) => params.source, detail: ({ fields }) => fields },
      reply: sourceJson,
      act: async ({ params: { source }, caller, fields: { day } }) => {
        const order = { source, by: caller.login, audited: false };
        const started = await startWarmUp(db, order, { plan: warmUpPlan, day });
        return started.ok ? ok({ source }) : refuse(problem(started.error));
      },
    }),
    ...(["pause", "resume", "stop"] as const).map((verb) => changeEndpoint(context, verb)),
  ];
};

const SUMMARIES: Readonly<Record<WarmUpVerb, string>> = {
  pause: "Send nothing from an address until it is resumed; its days stand still",
  resume: "Let an address go on where it was paused",
  stop: "End a plan: the address sends without one",
};

function changeEndpoint({ db }: Parameters<MakeConsoleEndpoints>[0], verb: WarmUpVerb) {
  return consoleEndpoint({
    method: "POST",
    path: `/warm-ups/:source/${verb}`,
    summary: SUMMARIES[verb],
    authorise: areaOf(),
    params,
    change: { action: `warm-up.${verb}`, object: ({ params }) => params.source },
    reply: sourceJson,
    act: async ({ params: { source }, caller }) => {
      const isChanged = await changeWarmUp(db, { source, by: caller.login, audited: false }, verb);
      return isChanged ? ok({ source }) : refuse(problem("no-such-warm-up"));
    },
  });
}

function toJson({
  startedAt,
  startedBy,
  endsAt,
  changedBy,
  providers,
  ...view
}: WarmUpView): z.input<typeof warmUpJson> {
  return {
    ...view,
    started_at: startedAt.toISOString(),
    started_by: startedBy,
    ends_at: endsAt.toISOString(),
    changed_by: changedBy,
    providers: providers.map(({ complained, pausedFor, pausedUntil, ...progress }) => ({
      ...progress,
      complaints: complained,
      paused_for: pausedFor,
      paused_until: pausedUntil?.toISOString() ?? null,
    })),
  };
}
