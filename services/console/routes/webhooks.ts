import { z } from "zod";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { hasCredentials, isHttpUrl } from "../../core/url.ts";
import { findGoneGroups, judgeSelections } from "../../operations/mail/judge-selection.ts";
import { readToldKinds, showWebhookBatch, toldNames } from "../../operations/mail/told-events.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { areCampaignsOf } from "../../store/mail/campaigns/campaigns.ts";
import { findFilter } from "../../store/mail/contacts/filters.ts";
import {
  addWebhook,
  FIRST_WEBHOOK,
  findWebhook,
  listWebhookBatches,
  listWebhooks,
  removeWebhook,
  replayWebhookBatch,
  type Webhook,
  type WebhookChoice,
} from "../../store/mail/tracking/webhooks.ts";
import { areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const webhookName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/, "instance-name-form");
const webhookUrl = z
  .string()
  .max(2_000)
  .refine(isHttpUrl, "http-url")
  .refine((text) => !hasCredentials(text), "url-credentials")
  .trim()
  .meta({ format: "uri" });
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

function setEndpoint({ db, keyRing, ...context }: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/webhooks",
    summary:
      "Have events told to a URL, in place of what the webhook of that name was; the answer has the secret that signs",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({
      url: webhookUrl,
      name: webhookName.default(FIRST_WEBHOOK),
      kinds: z.array(z.string()).min(1).max(50).optional().meta({ description: "names of events, such as entregado" }),
      campaigns: z.array(z.int().positive()).min(1).max(100).optional(),
      filter: z.int().positive().optional().meta({ description: "the conditions of this filter, as they are now" }),
      full: z.boolean().default(false),
    }),
    reply: z.object({ id: z.string(), url: z.string(), secret: z.string() }),
    change: { action: "webhook.set", object: ({ fields }) => withoutSecrets(fields.url) },
    act: ({ caller, params, fields: { url, name, ...chosen } }) =>
      withInstance({ db, keyRing, ...context }, caller, params.name, async ({ id }) => {
        const choice = await readChoice(db, id, chosen);
        if (!choice.ok) return choice;
        const secret = await addWebhook(db, keyRing, id, { ...choice.value, name, url });
        return secret === undefined ? refuse(problem("webhooks-many")) : ok({ id: name, url, secret });
      }),
  });
}

async function readChoice(
  db: ConsoleContext["db"],
  instanceId: number,
  given: {
    readonly kinds?: readonly string[] | undefined;
    readonly campaigns?: number[] | undefined;
    readonly filter?: number | undefined;
    readonly full: boolean;
  },
): Promise<Result<WebhookChoice, Refusal>> {
  const kinds = given.kinds === undefined ? undefined : readToldKinds(given.kinds);
  if (kinds && !kinds.ok) return refuse(invalidField("kinds", "no-event-kind", { kind: kinds.error }));
  if (given.campaigns && !(await areCampaignsOf(db, instanceId, given.campaigns))) {
    return refuse(problem("no-such-campaign"));
  }
  const filter = given.filter === undefined ? undefined : await findFilter(db, instanceId, given.filter);
  if (given.filter !== undefined && filter === undefined) return refuse(problem("no-such-filter"));
  const gone = filter && (await judgeSelections(db, instanceId, [filter]));
  if (gone !== undefined) return refuse(unacceptable(gone));
  return ok({
    kinds: kinds?.value ?? null,
    campaigns: given.campaigns ?? null,
    condition: filter?.condition ?? null,
    isFull: given.full,
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
