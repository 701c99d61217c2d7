import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { DETECTOR_ACTIONS, DETECTORS } from "../../core/mail/guard/behaviour.ts";
import { LIMIT_SCOPES, OVER_LIMIT, readLimitSubject } from "../../core/mail/guard/sending-limits.ts";
import { invalidField } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { onlySentence, sentence } from "../../core/sentences.ts";
import { sendGuardNotice } from "../../operations/mail/guard-notice.ts";
import { endHeldContent, type HeldContentEnd } from "../../operations/mail/held-content.ts";
import { holdInstance, releaseInstance } from "../../operations/mail/instance-hold.ts";
import { readSendingOverview } from "../../operations/mail/sending-overview.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listHeldContent } from "../../store/mail/guard/content-verdicts.ts";
import { readInstanceGuard, setGuardSettings } from "../../store/mail/guard/holds.ts";
import { removeSendingLimit, setRamp, setSendingLimit } from "../../store/mail/guard/sending-limits.ts";
import { releaseWaiting } from "../../store/mail/guard/waiting-recipients.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { areaOf } from "../caller.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const limit = z.object({
  scope: z.enum([...LIMIT_SCOPES, "ramp"]),
  subject: z.string().meta({ description: "numid of a campaign or address of a sender; empty: the instance, or each" }),
  per_hour: z.int().nullable(),
  per_day: z.int().nullable(),
  over: z.enum(OVER_LIMIT),
  used_hour: z.int().nullable().meta({ description: "in this hour (UTC); null where the limit is one for each" }),
  used_day: z.int().nullable(),
  default: z.boolean().meta({ description: "goes for every instance" }),
});
const guardJson = z.object({
  limits: z.array(limit),
  ramp_from: z.string().nullable(),
  waiting: z.int().meta({ description: "recipients that wait for a window with room" }),
  goes_on_at: z.string().nullable(),
  hour_ends_at: z.string(),
  day_ends_at: z.string(),
  held: z.object({ since: z.string(), by: z.string(), reason: sentenceJson }).nullable(),
  held_sends: z.enum(["accept", "refuse"]),
  notify: z.array(z.string()),
  detectors: z.partialRecord(z.enum(DETECTORS), z.enum(DETECTOR_ACTIONS)),
});

const nameParam = z.object({ name: z.string() });
const bound = z.int().min(0).max(1_000_000_000_000).nullable().optional();
const subjectFields = { scope: z.enum(LIMIT_SCOPES), subject: z.string().max(320).default("") };
const reasonField = z.string().min(1).max(500);

async function readGuard(db: Db, { id }: Instance, nowMs: number): Promise<z.input<typeof guardJson>> {
  const { hold, heldSends, notify, detectors } = await readInstanceGuard(db, id);
  const overview = await readSendingOverview(db, id, new Date(nowMs));
  return {
    ...{ ...overview, limits: [...overview.limits], held_sends: heldSends, notify: [...notify], detectors },
    held: hold && { since: hold.since.toISOString(), by: hold.by, reason: onlySentence(hold.reason) },
  };
}

/** What an instance may send, whether it is held, and who is told. Its users see it; the operator changes it. */
export const makeGuardEndpoints: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/guard",
    summary: "What an instance may send and has sent, and whether it is held",
    authorise: areaOf("instance"),
    params: nameParam,
    reply: guardJson,
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async (instance) =>
        ok(await readGuard(context.db, instance, context.clock.nowMs())),
      ),
  }),
  ...limitEndpoints(context),
  ...windowEndpoints(context),
  ...holdEndpoints(context),
  ...settingEndpoints(context),
  ...contentEndpoints(context),
];

const limitEndpoints: MakeConsoleEndpoints = (context) => {
  const { db, clock } = context;
  return [
    consoleEndpoint({
      method: "PUT",
      path: "/instances/:name/limits",
      summary: "Limit what an instance, a campaign or a sender may send within an hour and a day (UTC)",
      authorise: areaOf(),
      params: nameParam,
      fields: z.object({ ...subjectFields, per_hour: bound, per_day: bound, over: z.enum(OVER_LIMIT) }),
      change: { action: "instance.limit", object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: guardJson,
      act: ({ caller, params, fields }) =>
        withInstance(context, caller, params.name, async (instance) => {
          const { scope, over, per_hour: perHour = null, per_day: perDay = null } = fields;
          const subject = readLimitSubject(scope, fields.subject);
          if (subject === undefined) return refuse(invalidField("subject", "limit-subject", { scope }));
          if (perHour === null && perDay === null) return refuse(invalidField("per_hour", "limit-empty"));
          const isSet = await setSendingLimit(db, instance.id, { scope, subject, perHour, perDay, over });
          if (!isSet) return refuse(problem("no-such-campaign"));
          return ok(await readGuard(db, instance, clock.nowMs()));
        }),
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/instances/:name/limits",
      summary: "Remove a limit",
      authorise: areaOf(),
      params: nameParam,
      fields: z.object(subjectFields),
      change: { action: "instance.unlimit", object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: guardJson,
      act: ({ caller, params, fields: { scope, subject } }) =>
        withInstance(context, caller, params.name, async (instance) => {
          const named = { scope, subject: readLimitSubject(scope, subject) ?? subject };
          const removed = await removeSendingLimit(db, instance.id, named);
          return removed ? ok(await readGuard(db, instance, clock.nowMs())) : refuse(problem("no-such-limit"));
        }),
    }),
  ];
};

const windowEndpoints: MakeConsoleEndpoints = (context) => {
  const { db, clock } = context;
  return [
    consoleEndpoint({
      method: "PUT",
      path: "/instances/:name/ramp",
      summary: "Begin the daily limits of a new instance now, or end them",
      authorise: areaOf(),
      params: nameParam,
      fields: z.object({ on: z.boolean() }),
      change: { action: "instance.ramp", object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: guardJson,
      act: ({ caller, params, fields: { on } }) =>
        withInstance(context, caller, params.name, async (instance) => {
          await setRamp(db, instance.id, on ? new Date(clock.nowMs()) : null);
          return ok(await readGuard(db, instance, clock.nowMs()));
        }),
    }),
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/waiting/release",
      summary: "Let go at once what waits for a window with room",
      authorise: areaOf(),
      params: nameParam,
      change: { action: "instance.waiting", object: ({ params }) => params.name },
      reply: z.object({ recipients: z.int() }),
      act: ({ caller, params }) =>
        withInstance(context, caller, params.name, async ({ id }) => ok({ recipients: await releaseWaiting(db, id) })),
    }),
  ];
};

const holdEndpoints: MakeConsoleEndpoints = (context) => {
  const turn = (verb: "hold" | "release", summary: string): ConsoleEndpoint =>
    consoleEndpoint({
      method: "POST",
      path: `/instances/:name/${verb}`,
      summary,
      authorise: areaOf(),
      params: nameParam,
      fields: z.object({ reason: reasonField }),
      change: { action: `instance.${verb}`, object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: guardJson,
      act: ({ caller, params, clientAddress, fields: { reason } }) =>
        withInstance(context, caller, params.name, async (instance) => {
          const { db, clock, config, observe } = context;
          // The console writes the audit log itself.
          const change = {
            ...{ instance, reason: sentence("guard-by-hand", { reason }), by: caller.login },
            ...{ address: clientAddress, audited: false, now: new Date(context.clock.nowMs()) },
          };
          const isChanged = await (verb === "hold" ? holdInstance(db, change) : releaseInstance(db, change));
          if (!isChanged) return refuse(problem(verb === "hold" ? "instance-held-already" : "instance-not-held"));
          const notice = {
            instance,
            kind: verb === "hold" ? ("held" as const) : ("released" as const),
            reason: change.reason,
          };
          await sendGuardNotice(db, config.notices, notice).catch((err: unknown) =>
            observe({ kind: "guard-notice-failed", level: "warn", instance: instance.name, err }),
          );
          return ok(await readGuard(db, instance, clock.nowMs()));
        }),
    });
  return [
    turn("hold", "Hold an instance: nothing of it leaves, its mail stays in the queue"),
    turn("release", "Let a held instance go on; what it did before speaks against it no longer"),
  ];
};

const heldJson = z.object({
  held: z.array(
    z.object({
      eeid: z.string(),
      instance: z.string(),
      sender: z.string(),
      subject: z.string(),
      recipients: z.int(),
      at: z.string(),
      score: z.number().nullable().meta({ description: "null: the filter was away" }),
      symbols: z.record(z.string(), z.number()).meta({ description: "what was found → what it adds to the score" }),
    }),
  ),
});

async function readHeld(db: Db, instanceId: number | null, limit: number): Promise<z.input<typeof heldJson>> {
  const held = await listHeldContent(db, instanceId, limit);
  return { held: held.map(({ at, symbols, ...one }) => ({ ...one, symbols: { ...symbols }, at: at.toISOString() })) };
}

const contentEndpoints: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  const end = (verb: HeldContentEnd, summary: string): ConsoleEndpoint =>
    consoleEndpoint({
      method: "POST",
      path: `/instances/:name/held/:eeid/${verb}`,
      summary,
      authorise: areaOf(),
      params: z.object({ name: z.string(), eeid: z.guid() }),
      fields: z.object({ reason: reasonField }),
      change: { action: `content.${verb}`, object: ({ params }) => params.eeid, detail: ({ fields }) => fields },
      reply: z.object({ eeid: z.string() }),
      act: ({ caller, params: { name, eeid }, clientAddress, fields: { reason } }) =>
        withInstance(context, caller, name, async (instance) => {
          const change = {
            ...{ instance, reason: sentence("guard-by-hand", { reason }), by: caller.login },
            ...{ address: clientAddress, audited: false, now: new Date(context.clock.nowMs()) },
          };
          const ended = await endHeldContent(db, eeid, verb, change);
          return ended ? ok({ eeid }) : refuse(problem("no-such-held-content"));
        }),
    });
  return [
    consoleEndpoint({
      method: "GET",
      path: "/instances/:name/held",
      summary: "Batches that are held for their content, newest first",
      authorise: areaOf("instance"),
      params: nameParam,
      fields: z.object({ limit: pageLimit }),
      reply: heldJson,
      act: ({ caller, params, fields: { limit } }) =>
        withInstance(context, caller, params.name, async ({ id }) => ok(await readHeld(db, id, limit))),
    }),
    consoleEndpoint({
      method: "GET",
      path: "/held",
      summary: "Batches of all instances that are held for their content, newest first",
      authorise: areaOf(),
      fields: z.object({ limit: pageLimit }),
      reply: heldJson,
      act: async ({ fields: { limit } }) => ok(await readHeld(db, null, limit)),
    }),
    end("release", "Let a batch leave that is held for its content"),
    end("discard", "Take back a batch that is held for its content"),
  ];
};

const settingEndpoints: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "PATCH",
    path: "/instances/:name/guard",
    summary: "Change how an instance is guarded; its own users change whom to notify",
    authorise: areaOf("instance"),
    params: nameParam,
    fields: z.object({
      held_sends: z.enum(["accept", "refuse"]).optional(),
      notify: z.array(z.string().max(320)).max(20).optional(),
      detectors: z.partialRecord(z.enum(DETECTORS), z.enum(DETECTOR_ACTIONS)).optional(),
    }),
    change: { action: "instance.guard", object: ({ params }) => params.name, detail: ({ fields }) => fields },
    reply: guardJson,
    act: ({ caller, params, fields: { held_sends: heldSends, notify, detectors } }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const isOperators = heldSends !== undefined ? "held_sends" : detectors !== undefined ? "detectors" : undefined;
        if (caller.role !== "operator" && isOperators !== undefined) {
          return refuse(problem("operators-setting", { setting: isOperators }));
        }
        for (const text of notify ?? []) {
          const address = validateAddress(text, { allowSmtputf8: true });
          if (!address.ok) return refuse(invalidField("notify", address.error));
        }
        const settings = {
          ...(heldSends === undefined ? {} : { heldSends }),
          ...(notify === undefined ? {} : { notify }),
          ...(detectors === undefined ? {} : { detectors }),
        };
        await setGuardSettings(context.db, instance.id, settings);
        return ok(await readGuard(context.db, instance, context.clock.nowMs()));
      }),
  }),
];
