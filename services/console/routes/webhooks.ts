import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import {
  findWebhook,
  listWebhookBatches,
  removeWebhook,
  replayWebhookBatch,
  setWebhook,
  type Webhook,
  type WebhookBatch,
} from "../../store/mail/tracking/webhooks.ts";
import { areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

/** An instance has one webhook, which is told all of its events; so this is what every one is called. */
const WEBHOOK_ID = "events";

const instanceParams = z.object({ name: z.string() });
const webhookParams = z.object({ name: z.string(), id: z.string() });
const webhookJson = z.object({
  id: z.string(),
  url: z.string(),
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
    summary: "The webhook of an instance, if it has one",
    authorise: areaOf("instance"),
    params: instanceParams,
    reply: z.object({ webhooks: z.array(webhookJson) }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const webhook = await findWebhook(context.db, id);
        return ok({ webhooks: webhook === undefined ? [] : [showWebhook(webhook)] });
      }),
  });
}

function setEndpoint({ db, keyRing, ...context }: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/webhooks",
    summary: "Have events told to a URL, in place of another; the answer has the secret that signs",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({ url: z.url({ protocol: /^https?$/, message: "http-url" }).max(2_000) }),
    reply: z.object({ id: z.string(), url: z.string(), secret: z.string() }),
    change: { action: "webhook.set", object: ({ fields }) => withoutSecrets(fields.url) },
    act: ({ caller, params, fields: { url } }) =>
      withInstance({ db, keyRing, ...context }, caller, params.name, async ({ id }) =>
        ok({ id: WEBHOOK_ID, url, secret: await setWebhook(db, keyRing, id, url) }),
      ),
  });
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
        const removed = params.id === WEBHOOK_ID && (await removeWebhook(context.db, id));
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
        if (params.id !== WEBHOOK_ID) return refuse(NO_WEBHOOK);
        const batches = await listWebhookBatches(context.db, id, before === undefined ? { limit } : { limit, before });
        return ok({ deliveries: batches.map(showBatch) });
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
        const again = params.id === WEBHOOK_ID && (await replayWebhookBatch(context.db, id, delivery));
        return again ? ok({ msg: "queued again" }) : refuse(problem("no-such-delivery"));
      }),
  });
}

function showWebhook({ url, failures, nextAttemptAt }: Webhook): z.input<typeof webhookJson> {
  return { id: WEBHOOK_ID, url, failures, next_attempt: nextAttemptAt.toISOString() };
}

function showBatch({ createdAt, finishedAt, ...shown }: WebhookBatch): z.input<typeof deliveryJson> {
  return { ...shown, created: createdAt.toISOString(), finished: finishedAt?.toISOString() ?? null };
}

/** Some customers' URLs carry a token: the log has the place, not the key to it. */
function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
