import { z } from "zod";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Period } from "../../store/mail/events/event-counts.ts";
import { groupBounces, readSeries, type Step } from "../../store/mail/events/statistics.ts";
import { areaOf, visibleInstance } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";

const STEP_MS: Readonly<Record<Step, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
const MOST_STEPS = 2_000;
const DEFAULT_DAYS = 30;

const moment = z.union([z.iso.datetime({ offset: true }), z.iso.date()], {
  error: "date-or-moment-form",
});
const selection = z.object({
  campaign: z.int().optional(),
  from: moment.optional().meta({ description: `${DEFAULT_DAYS} days before the end unless given` }),
  to: moment.optional().meta({ description: "until just before it; now unless given" }),
});
const params = z.object({ name: z.string() });
const counts = {
  sent: z.int(),
  views: z.int(),
  clicks: z.int(),
  bounces: z.int(),
  machineViews: z.int().meta({ description: "not among the views: proxies and filters opened these" }),
  machineClicks: z.int(),
};

/** What the charts of an instance and its campaigns show. */
export const makeStatisticsEndpoints: MakeConsoleEndpoints = ({ db, clock }) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/statistics",
    summary: "Sent, opened, clicked and bounced, step by step",
    authorise: areaOf("instance"),
    params,
    fields: selection.extend({ step: z.enum(["minute", "hour", "day"]).default("day") }),
    reply: z.object({ step: z.string(), series: z.array(z.object({ at: z.string(), ...counts })) }),
    act: async ({ caller, params: { name }, fields }) => {
      const instance = await visibleInstance(db, caller, name);
      if (!instance.ok) return instance;
      const period = readPeriod(fields, clock);
      if (!period.ok) return period;
      const { step } = fields;
      if (period.value.until.getTime() - period.value.from.getTime() > MOST_STEPS * STEP_MS[step]) {
        return refuse(invalidField("step", "too-many-steps", { most: MOST_STEPS }));
      }
      const series = await readSeries(db, { ...selectionOf(instance.value.id, fields), ...period.value }, step);
      return ok({ step, series: series.map(({ at, ...point }) => ({ at: at.toISOString(), ...point })) });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/bounces",
    summary: "Bounces by reason, or by destination",
    authorise: areaOf("instance"),
    params,
    fields: selection.extend({ by: z.enum(["reason", "destination"]).default("reason") }),
    reply: z.object({
      by: z.string(),
      bounces: z.array(
        z.object({
          reason: z.string().optional(),
          destination: z.string().optional(),
          hard: z.int(),
          soft: z.int(),
        }),
      ),
    }),
    act: async ({ caller, params: { name }, fields }) => {
      const instance = await visibleInstance(db, caller, name);
      if (!instance.ok) return instance;
      const period = readPeriod(fields, clock);
      if (!period.ok) return period;
      const groups = await groupBounces(db, { ...selectionOf(instance.value.id, fields), ...period.value }, fields.by);
      const bounces = groups.map(({ key, hard, soft }) => ({ [fields.by]: key, hard, soft }));
      return ok({ by: fields.by, bounces });
    },
  }),
];

function selectionOf(instanceId: number, { campaign }: z.output<typeof selection>) {
  return { instanceId, campaignNumid: campaign };
}

function readPeriod({ from, to }: z.output<typeof selection>, clock: Clock): Result<Period, Refusal> {
  const until = to === undefined ? new Date(clock.nowMs()) : new Date(to);
  const start = from === undefined ? new Date(until.getTime() - DEFAULT_DAYS * STEP_MS.day) : new Date(from);
  if (start >= until) return refuse(invalidField("from", "from-before-to"));
  return ok({ from: start, until });
}
