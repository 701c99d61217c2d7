import { z } from "zod";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { exportMessages, readPlace, writePlace } from "../../operations/mail/message-export.ts";
import {
  messageJson,
  searchReason,
  storyJson,
  toMessageJson,
  toStoryJson,
} from "../../operations/mail/message-json.ts";
import { type MessageSearch, planSearch, searchMessages } from "../../operations/mail/message-search.ts";
import { readMessageReport, readMessageStory } from "../../operations/mail/message-story.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { RawReply } from "../../platform/http/endpoint.ts";
import { exportReply } from "../../platform/http/streamed-reply.ts";
import { isPlaceOf } from "../../store/mail/explorer/candidates.ts";
import { MESSAGE_STATES } from "../../store/mail/explorer/found-messages.ts";
import { cancelDelivery, retryDelivery, type Wish } from "../../store/mail/queue/single-deliveries.ts";
import { areaOf, sharerOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const moment = z.iso.datetime({ offset: true, error: "moment-form" });
const words = z.string().max(255, "not-longer-than-characters");

const searchFields = z.object({
  id: words.optional().meta({
    description: "a Message-ID, the id of the 250 or of the API's answer, a return path, or an id of this list",
  }),
  recipient: words.optional(),
  domain: words.optional().meta({ description: "the recipient's" }),
  sender: words.optional().meta({ description: "the From address, or its domain" }),
  subject: words.optional().meta({ description: "whole words of it" }),
  campaign: z.int().optional(),
  creator: words.optional().meta({ description: "api, smtp, or a console login" }),
  state: z.enum(MESSAGE_STATES).optional(),
  reason: searchReason.optional().meta({ description: "why it bounced, or was put off" }),
  reply: words.optional().meta({ description: "words of what was replied in some attempt" }),
  source: words.optional().meta({ description: "the address of ours that some attempt left from" }),
  from: moment.optional().meta({ description: "accepted at this moment or later" }),
  until: moment.optional().meta({ description: "accepted before this moment" }),
});
const params = z.object({ name: z.string() });
const messageParams = z.object({ name: z.string(), id: z.string() });

/** Searches, and portions of exports, that are done at a time: each has a connection and a processor for some 150 ms. */
const SEARCHES = { atOnce: 4, perClient: 1 };

/** More of one instance's do not wait. */
const MANY_SEARCHES = { mostWaiting: 16, retryAfterSeconds: 2 };

/** What became of messages: looked for, told, tried again, taken back. */
export const makeMessageEndpoints: MakeConsoleEndpoints = (context) => {
  const turns = new FairTurns(SEARCHES);
  return [
    searchEndpoint(context, turns),
    exportEndpoint(context, turns),
    storyEndpoint(context),
    reportEndpoint(context),
    wishEndpoint(context, "retry", "Try a message at once that is put off", retryDelivery),
    wishEndpoint(context, "cancel", "Take a message back that is not delivered yet", cancelDelivery),
  ];
};

function searchEndpoint(context: ConsoleContext, turns: FairTurns): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/messages",
    summary: "Messages to their recipients that fit, newest first; a search that takes long ends early, with a `next`",
    authorise: areaOf("instance"),
    params,
    fields: searchFields.extend({
      after: z.string().max(200).optional().meta({ description: "`next` of the page before" }),
      limit: pageLimit,
    }),
    reply: z.object({
      messages: z.array(messageJson),
      next: z.string().nullable().meta({ description: "null: everything was looked through" }),
    }),
    act: ({ caller, params: { name }, fields: { after, limit, ...search } }) =>
      withInstance(context, caller, name, async ({ id }) => {
        const place = after === undefined ? undefined : readPlace(after);
        if (after !== undefined && place === undefined) return refuse(NOT_A_PLACE);
        const sharer = sharerOf(caller, id);
        return turns.runOrRefuse(sharer, MANY_SEARCHES, async () => {
          const plan = await planSearch(context.db, id, toSearch(search));
          if (plan && place && !isPlaceOf(plan.source, place)) return refuse(NOT_A_PLACE);
          const page = await searchMessages(context.db, id, plan, { after: place, limit });
          return ok({ messages: page.messages.map(toMessageJson), next: writePlace(page.next) });
        });
      }),
  });
}

const NOT_A_PLACE = invalidField("after", "not-a-place");

function exportEndpoint(context: ConsoleContext, turns: FairTurns): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/messages/export",
    summary: "All messages that fit, as CSV; of an instance two at a time",
    authorise: areaOf("instance"),
    params,
    fields: searchFields,
    reply: z.string(),
    replyType: "text/csv",
    act: ({ caller, params: { name }, fields }) =>
      withInstance(context, caller, name, async ({ id }) => {
        const sharer = sharerOf(caller, id);
        const inTurn = <T>(work: () => Promise<T>) => turns.run(sharer, work);
        return exportReply(
          `messages-${name}`,
          (signal) => exportMessages(context.db, id, toSearch(fields), { inTurn, signal }),
          sharer,
        );
      }),
  });
}

function storyEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/messages/:id",
    summary: "All that is known of a message to a recipient",
    authorise: areaOf("instance"),
    params: messageParams,
    reply: storyJson,
    act: ({ caller, params: { name, id } }) =>
      withInstance(context, caller, name, async (instance) => {
        const story = await readMessageStory(context.db, instance.id, toId(id));
        return story ? ok(toStoryJson(story)) : refuse(problem("no-such-message"));
      }),
  });
}

function reportEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/messages/:id/reports/:report",
    summary: "The octets of what came back about a message, as they were stored: the first MiB of it",
    authorise: areaOf("instance"),
    params: messageParams.extend({ report: z.string() }),
    reply: z.string(),
    replyType: "message/rfc822",
    act: ({ caller, params: { name, id, report } }) =>
      withInstance(context, caller, name, async (instance) => {
        const of = { deliveryId: toId(id), reportId: toId(report) };
        const octets = await readMessageReport(context.db, instance.id, of);
        return octets ? ok(new RawReply("message/rfc822", octets)) : refuse(problem("no-such-message"));
      }),
  });
}

function wishEndpoint(
  context: ConsoleContext,
  verb: "retry" | "cancel",
  summary: string,
  act: typeof retryDelivery,
): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: `/instances/:name/messages/:id/${verb}`,
    summary,
    authorise: areaOf("instance"),
    params: messageParams,
    change: { action: `message.${verb}`, object: ({ params }) => String(params.id) },
    reply: storyJson,
    act: ({ caller, params: { name, id } }) =>
      withInstance(context, caller, name, async (instance) => {
        const before = await readMessageStory(context.db, instance.id, toId(id));
        const wish = before && (await act(context.db, instance.id, before.message.id));
        const refused = wish && refusalOf(wish);
        if (refused) return refuse(refused);
        const story = await readMessageStory(context.db, instance.id, toId(id));
        return story ? ok(toStoryJson(story)) : refuse(problem("no-such-message"));
      }),
  });
}

function toSearch({ from, until, ...search }: z.output<typeof searchFields>): MessageSearch {
  const toMoment = (text: string | undefined) => (text === undefined ? undefined : new Date(text));
  return { ...search, from: toMoment(from), until: toMoment(until) };
}

/** No message has the id 0. */
function toId(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

function refusalOf(wish: Wish): Refusal | undefined {
  if (wish === "done") return undefined;
  if (typeof wish === "object") {
    return problem("message-waits-for-limit", { time: `${wish.goesOnAt.toISOString().slice(0, 19)}Z` });
  }
  return problem(wish === "settled" ? "message-settled" : "message-on-its-way");
}
