import { z } from "zod";

import { ok, refuse } from "../../core/result.ts";
import { RawReply } from "../../platform/http/endpoint.ts";
import { listSandboxMessages, readSandboxMessage } from "../../store/mail/inbound/sandbox-messages.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const MESSAGES_AT_MOST = 1_000;

const message = z.object({
  id: z.number(),
  from: z.string(),
  to: z.string(),
  subject: z.string(),
  received: z.string().meta({ description: "ISO 8601, UTC" }),
  outcome: z.enum(["accepted", "bounced", "full", "complained"]),
});

/** The inbox of the sandbox (`PALOMAR_DELIVERY=sandbox`). */
export const makeSandboxEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/sandbox/messages",
    summary: "What arrived in the sandbox, newest first",
    authorise: areaOf(),
    fields: z.object({
      limit: z.number().int().min(1).max(MESSAGES_AT_MOST).default(MESSAGES_AT_MOST),
      before: z.number().int().min(1).optional().meta({ description: "only messages older than this id" }),
    }),
    reply: z.object({ messages: z.array(message) }),
    act: async ({ fields: { limit, before } }) => {
      const found = await listSandboxMessages(db, before === undefined ? { limit } : { limit, before });
      const messages = found.map(({ id, sender, rcptTo, subject, receivedAt, outcome }) => ({
        id,
        from: sender,
        to: rcptTo,
        subject,
        received: receivedAt.toISOString(),
        outcome,
      }));
      return ok({ messages });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/sandbox/messages/:id",
    summary: "The octets of a message, exactly as received",
    authorise: areaOf(),
    params: z.object({ id: z.string().regex(/^[1-9]\d{0,14}$/, "whole-number") }),
    reply: z.string(),
    replyType: "message/rfc822",
    act: async ({ params }) => {
      const octets = await readSandboxMessage(db, Number(params.id));
      return octets ? ok(new RawReply("message/rfc822", octets)) : refuse(problem("no-such-message"));
    },
  }),
];
