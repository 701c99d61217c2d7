import { z } from "zod";
import { BOUNCE_REASONS } from "../../core/mail/bounce/reason.ts";
import { hadSession } from "../../core/mail/delivery-attempt.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { type FoundMessage, MESSAGE_STATES } from "../../store/mail/explorer/found-messages.ts";
import type { MessageStory } from "./message-story.ts";

/** A message to one recipient, as the console's API and the command line say it. */
export const messageJson = z.object({
  id: z.int().meta({ description: "of this message to this recipient; `:id` in other paths" }),
  eeid: z.string(),
  recipient: z.string(),
  role: z.enum(["to", "cc", "bcc"]),
  state: z.enum(MESSAGE_STATES),
  accepted: z.string().meta({ description: "ISO 8601, UTC" }),
  campaign: z.int(),
  creator: z.string().meta({ description: "api, smtp, or a console login" }),
  subject: z.string().nullable(),
  sender: z.string().nullable(),
  message_id: z.string().nullable().meta({ description: "as its program wrote it; null where we write it" }),
  attempts: z.int(),
  reply: z.string().nullable().meta({ description: "the far side's last words" }),
  finished: z.string().nullable(),
  next_attempt: z.string().nullable(),
  bounce: z.enum(["hard", "soft"]).nullable(),
  complained: z.boolean(),
  waits_for_limit: z
    .boolean()
    .meta({ description: "the sending limits have room for it at `next_attempt`, no earlier" }),
});

const pathJson = z.object({
  exchanger: z.string(),
  address: z.string(),
  source: z.string().meta({ description: "the address of ours that it left from" }),
  tls: z.string().meta({ description: "such as TLSv1.3; empty in clear, and where it did not come that far" }),
  cipher: z.string(),
  certificate: z.string().meta({ description: "valid, dane, or a code for what is wrong with it" }),
  policy: z.enum(["", "dane", "mta-sts"]).meta({ description: "of the destination, in force then" }),
});

export const storyJson = messageJson.extend({
  sending: z.boolean().meta({ description: "somebody has it, or what goes with it, in hand" }),
  paused: z.string().nullable().meta({ description: "since when its batch is paused" }),
  pause_reason: sentenceJson.nullable(),
  destination_held: z.string().nullable().meta({ description: "since when an operator holds its destination" }),
  destination_left_alone_until: z.string().nullable(),
  destination_trouble: z.string().nullable(),
  paced_until: z
    .string()
    .nullable()
    .meta({ description: "it waits for leave to send until then, however soon its next attempt would be due" }),
  paced_by: z.enum(["provider", "warm-up"]).nullable().meta({
    description: "what it waits for: what its provider bears, or the plan of our new address",
  }),
  paced_provider: z.string().nullable(),
  archived: z.boolean(),
  attempt_list: z.array(
    z.object({
      at: z.string(),
      attempt: z.int(),
      outcome: z.enum(["delivered", "deferred", "bounced"]),
      duration_ms: z.int(),
      stage: z.string().meta({ description: "the step of the session that failed" }),
      code: z.int().nullable(),
      status: z.string(),
      reason: z.string(),
      reply: z.string(),
      path: pathJson.nullable(),
      session: z.boolean().meta({ description: "a session came about, in which a message could be sent" }),
    }),
  ),
  events: z.array(
    z.object({
      at: z.string(),
      kind: z.string().meta({ description: "of an event, or `cancelled`: nothing more is sent" }),
      machine: z.boolean(),
      reason: z.string(),
      words: z.string(),
    }),
  ),
  reports: z
    .array(
      z.object({
        id: z.int(),
        received: z.string(),
        kind: z.string().meta({ description: "dsn, arf or vacation" }),
        from: z.string().meta({ description: "its return path, empty for <>" }),
        octets: z.int(),
      }),
    )
    .meta({ description: "what came back about it, oldest first, for as long as it is kept" }),
});

export const searchReason = z.enum(BOUNCE_REASONS);

export function toMessageJson(message: FoundMessage): z.infer<typeof messageJson> {
  const isQueued = message.state === "queued" || message.state === "deferred";
  return {
    id: message.id,
    eeid: message.eeid,
    recipient: message.recipient,
    role: message.role,
    state: message.state,
    accepted: message.acceptedAt.toISOString(),
    campaign: message.campaignNumid,
    creator: message.creator,
    subject: message.subject,
    sender: message.sender,
    message_id: message.messageId,
    attempts: message.attempts,
    reply: message.reply,
    finished: message.finishedAt?.toISOString() ?? null,
    next_attempt: isQueued ? message.dueAt.toISOString() : null,
    bounce: message.bounce,
    complained: message.complained,
    waits_for_limit: message.waitsForLimit,
  };
}

export function toStoryJson({ message, attempts, events, waiting, reports }: MessageStory): z.infer<typeof storyJson> {
  return {
    ...toMessageJson(message),
    sending: waiting.isLeased,
    paused: waiting.pausedAt?.toISOString() ?? null,
    pause_reason: waiting.pauseReason,
    destination_held: waiting.heldAt?.toISOString() ?? null,
    destination_left_alone_until: waiting.backedOffUntil?.toISOString() ?? null,
    destination_trouble: waiting.backOffReason,
    paced_until: waiting.pacedUntil?.toISOString() ?? null,
    paced_by: waiting.pacedBy && (waiting.pacedBy.isPlanned ? "warm-up" : "provider"),
    paced_provider: waiting.pacedBy?.provider ?? null,
    archived: waiting.isArchived,
    attempt_list: attempts.map(({ at, durationMs, code, ...attempt }) => ({
      ...attempt,
      at: at.toISOString(),
      duration_ms: durationMs,
      code: code === 0 ? null : code,
      session: hadSession(attempt.path, attempt.stage),
    })),
    events: events.map(({ at, kind, machine, detail }) => ({
      at: at.toISOString(),
      kind,
      machine,
      reason: textOf(detail?.reason),
      words: textOf(detail?.reply ?? detail?.text),
    })),
    reports: reports.map(({ id, receivedAt, kind, mailFrom, octets }) => ({
      ...{ id, received: receivedAt.toISOString(), kind, from: mailFrom, octets },
    })),
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
