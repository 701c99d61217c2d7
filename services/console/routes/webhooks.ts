import { z } from "zod";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { webhookFields } from "../../core/mail/webhook-input.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { findGoneGroups } from "../../operations/mail/judge-selection.ts";
import { showWebhookBatch, toldNames } from "../../operations/mail/told-events.ts";
import { setWebhook, type WebhookFault } from "../../operations/mail/webhook-setting.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { findFilter } from "../../store/mail/contacts/filters.ts";
import {
  FIRST_WEBHOOK,
  findWebhook,
  listWebhookBatches,
  listWebhooks,
  removeWebhook,
  replayWebhookBatch,
  type Webhook,
} from "../../store/mail/tracking/webhooks.ts";
import { areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const instanceParams = z.object({ name: z.string() });
const webhookParams = z.object({ name: z.string(), id: z.string() });
/** What a webhook is told. */
const choiceReply = {
  kinds: z.array(z.string()).optional().meta({ description: "names of events; absent: those of `ver_eventos`" }),
  campaigns: z.array(z.int()).optional().meta({ description: "absent: all, and what is of none" }),
  condiciones: z
    .record(z.string(), z.unknown())
    .optional()
    .meta({ description: "over the contact, as filters have it; absent: all" }),
  full: z
    .literal(true)
    .optional()
    .meta({ description: "with reason, status, reply, attempt, exchanger and message_id" }),
};
const webhookJson = z.object({
  id: z.string().meta({ description: "its name" }),
  url: z.string(),
  ...choiceReply,
  grupo_ausente: z
    .string()
    .optional()
    .meta({ description: "a group that the conditions name and that is gone: until it is there, nothing is told" }),
  failures: z.int().meta({ description: "failed attempts in a row" }),
  next_attempt: z.string(),
});
const deliveryJson = z.object({
  id: z.int(),
  events: z.int(),
  state: z.enum(["waiting", "delivered", "failed"]),
  attempts: z.int(),
  outcome: sentenceJson.nullable().meta({ description: "of the last attempt: `status 200`, or why there was none" }),
  created: z.string(),
  finished: z.string().nullable(),
});
const ALL_CONTACTS = { all: [] };
const NO_WEBHOOK = problem("no-such-webhook");

/** Where an instance has its events told, with the log of what was told, and its replay. */
export const makeWebhookEndpoints: MakeConsoleEndpoints = (context) => [
  listEndpoint(context),
  setEndpoint(context),
  removeEndpoint(context),
  deliveriesEndpoint(context),
  replayEndpoint(context),
];

function listEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/webhooks",
    summary: "The webhooks of an instance, by name",
    authorise: areaOf("instance"),
    params: instanceParams,
    reply: z.object({ webhooks: z.array(webhookJson) }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const webhooks = await listWebhooks(context.db, id);
        const conditions = webhooks.map(({ condition }) => condition ?? ALL_CONTACTS);
        const gone = await findGoneGroups(context.db, id, conditions);
        return ok({
          webhooks: webhooks.map((webhook, at) => ({
            ...showWebhook(webhook),
            ...(gone[at] === undefined ? {} : { grupo_ausente: gone[at] }),
          })),
        });
      }),
  });
}

function setEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/webhooks",
    summary:
      "Have events told to a URL, in place of what the webhook of that name was; the answer has the secret that signs",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({
      ...webhookFields,
      name: webhookFields.name.default(FIRST_WEBHOOK),
      filter: z.int().positive().optional().meta({ description: "the conditions of this filter, as they are now" }),
      full: z.boolean().default(false),
    }),
    reply: z.object({ id: z.string(), url: z.string(), secret: z.string() }),
    change: { action: "webhook.set", object: ({ fields }) => withoutSecrets(fields.url) },
    act: ({ caller, params, fields: { filter: filterId, full, ...wish } }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const filter = filterId === undefined ? undefined : await findFilter(context.db, id, filterId);
        if (filterId !== undefined && filter === undefined) return refuse(problem("no-such-filter"));
        const secret = await setWebhook(context, id, { ...wish, filter, isFull: full });
        return secret.ok ? ok({ id: wish.name, url: wish.url, secret: secret.value }) : refuse(refusalOf(secret.error));
      }),
  });
}

function refusalOf(fault: WebhookFault): Refusal {
  switch (fault.kind) {
    case "no-event":
      return invalidField("kinds", "no-event-kind", { kind: fault.name });
    case "no-campaign":
      return problem("no-such-campaign");
    case "group-gone":
      return unacceptable(fault.reason);
    case "many":
      return problem("webhooks-many");
  }
}

function removeEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "DELETE",
    path: "/instances/:name/webhooks/:id",
    summary: "Tell no more events, and forget those that wait",
    authorise: areaOf("instance"),
    params: webhookParams,
    reply: z.object({ msg: z.string() }),
    change: { action: "webhook.remove", object: ({ params }) => params.name },
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const removed = await removeWebhook(context.db, id, params.id);
        return removed ? ok({ msg: "deleted" }) : refuse(NO_WEBHOOK);
      }),
  });
}

function deliveriesEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/webhooks/:id/deliveries",
    summary: "What was told, or will be, newest first",
    authorise: areaOf("instance"),
    params: webhookParams,
    fields: z.object({ limit: pageLimit, before: z.int().min(1).optional() }),
    reply: z.object({ deliveries: z.array(deliveryJson) }),
    act: ({ caller, params, fields: { limit, before } }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        if ((await findWebhook(context.db, id, params.id)) === undefined) return refuse(NO_WEBHOOK);
        const page = before === undefined ? { limit } : { limit, before };
        const batches = await listWebhookBatches(context.db, id, page, params.id);
        return ok({ deliveries: batches.map(showWebhookBatch) });
      }),
  });
}

function replayEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/webhooks/:id/replay",
    summary: "Tell a batch once more, whatever became of it",
    authorise: areaOf("instance"),
    params: webhookParams,
    fields: z.object({ delivery: z.int().min(1) }),
    reply: z.object({ msg: z.string() }),
    change: { action: "webhook.replay", object: ({ fields }) => String(fields.delivery) },
    act: ({ caller, params, fields: { delivery } }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const again = await replayWebhookBatch(context.db, id, delivery, params.id);
        return again ? ok({ msg: "queued again" }) : refuse(problem("no-such-delivery"));
      }),
  });
}

function showWebhook(webhook: Webhook): z.input<typeof webhookJson> {
  const { name, url, failures, nextAttemptAt, kinds, campaigns, condition, isFull } = webhook;
  return {
    ...{ id: name, url, failures, next_attempt: nextAttemptAt.toISOString() },
    ...(kinds ? { kinds: toldNames(kinds) } : {}),
    ...(campaigns ? { campaigns: [...campaigns] } : {}),
    ...(condition ? { condiciones: toConditionJson(condition) } : {}),
    ...(isFull ? { full: true as const } : {}),
  };
}

/** Some customers' URLs carry a token: the log has the place, not the key to it. */
function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
