import { z } from "zod";

import { ok, refuse } from "../../core/result.ts";
import { RawReply } from "../../platform/http/endpoint.ts";
import {
  countInbound,
  dropQuarantined,
  listQuarantine,
  readQuarantined,
  retryQuarantined,
} from "../../store/mail/inbound/quarantine.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";

const message = z.object({
  id: z.int(),
  from: z.string().meta({ description: "return path, empty for <>" }),
  client: z.string().nullable().meta({ description: "who handed it over; null: a polled mailbox" }),
  delivery: z.int().nullable(),
  feedback_address: z.string().nullable(),
  octets: z.int(),
  attempts: z.int(),
  problem: z.string(),
  received: z.string(),
  quarantined: z.string(),
});
const done = z.object({ msg: z.string() });
const idParams = z.object({ id: z.string().regex(/^[1-9]\d{0,14}$/, "whole-number") });
const operatorsOnly = areaOf();
const NO_SUCH_MESSAGE = problem("no-such-quarantined");

/** Messages that came back and that no bounce worker could cope with. */
export const makeQuarantineEndpoints: MakeConsoleEndpoints = (context) => [...reading(context), ...leaving(context)];

/** What is in quarantine. */
const reading: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/quarantine",
    summary: "Messages that no worker could cope with, newest first",
    authorise: operatorsOnly,
    fields: z.object({
      limit: pageLimit,
      before: z.int().min(1).optional().meta({ description: "only messages with a lower id" }),
    }),
    reply: z.object({ quarantine: z.array(message), total: z.int() }),
    act: async ({ fields }) => {
      const found = await listQuarantine(db, fields);
      const quarantine = found.map(({ mailFrom, clientAddress, deliveryId, feedbackAddress, ...rest }) => ({
        id: rest.id,
        from: mailFrom,
        client: clientAddress,
        delivery: deliveryId,
        feedback_address: feedbackAddress,
        octets: rest.octets,
        attempts: rest.attempts,
        problem: rest.problem,
        received: rest.receivedAt.toISOString(),
        quarantined: rest.quarantinedAt.toISOString(),
      }));
      const { quarantined: total } = await countInbound(db);
      return ok({ quarantine, total });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/quarantine/:id",
    summary: "The octets of a message, exactly as received",
    authorise: operatorsOnly,
    params: idParams,
    reply: z.string(),
    replyType: "message/rfc822",
    act: async ({ params }) => {
      const octets = await readQuarantined(db, Number(params.id));
      return octets ? ok(new RawReply("message/rfc822", octets)) : refuse(NO_SUCH_MESSAGE);
    },
  }),
];

/** The two ways out of it. */
const leaving: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "POST",
    path: "/quarantine/:id/retry",
    summary: "Give a message back to the bounce workers",
    authorise: operatorsOnly,
    params: idParams,
    reply: done,
    change: { action: "quarantine.retry", object: ({ params }) => params.id },
    act: async ({ params }) =>
      (await retryQuarantined(db, Number(params.id))) ? ok({ msg: "queued again" }) : refuse(NO_SUCH_MESSAGE),
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/quarantine/:id",
    summary: "Drop a message for good",
    authorise: operatorsOnly,
    params: idParams,
    reply: done,
    change: { action: "quarantine.drop", object: ({ params }) => params.id },
    act: async ({ params }) =>
      (await dropQuarantined(db, Number(params.id))) ? ok({ msg: "deleted" }) : refuse(NO_SUCH_MESSAGE),
  }),
];
