import { z } from "zod";

import { readOwnWording } from "../../core/mail/bounce/own-wording.ts";
import { ok, refuse } from "../../core/result.ts";
import { listUnknownWordings, makeWording, tryWording } from "../../operations/mail/bounce-wordings.ts";
import { listWordings, removeWording } from "../../store/mail/inbound/wordings.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const wording = z.object({
  words: z.string().meta({ description: "as the mail system says it; * stands for what varies" }),
  reason: z.string().meta({ description: "a reason of `palomar bounce classify`" }),
  command: z.string().optional().meta({ description: "connect, mail, rcpt or data: only in a reply to it" }),
});
const change = z.object({ from: z.string(), to: z.string(), count: z.int(), newly_hard: z.int() });
const trial = z.object({ messages: z.int(), matches: z.int(), changes: z.array(change) });
const idParams = z.object({ id: z.string().regex(/^[1-9]\d{0,14}$/, "whole-number") });
const operatorsOnly = areaOf();

/** Words of mail systems that nobody understood, and what operators say of them. */
export const makeBounceWordingEndpoints: MakeConsoleEndpoints = (context) => [
  ...reading(context),
  ...changing(context),
];

const reading: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/bounces/unknown",
    summary: "Words of the newest messages and refusals that no table knows, by their shape, most often said first",
    authorise: operatorsOnly,
    reply: z.object({
      unknown: z.array(z.object({ shape: z.string(), count: z.int(), sample: z.string(), latest: z.string() })),
    }),
    act: async () => {
      const unknown = await listUnknownWordings(db);
      return ok({ unknown: unknown.slice(0, MOST_SHOWN).map((one) => ({ ...one, latest: one.latest.toISOString() })) });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/bounces/wordings",
    summary: "What operators say that words mean, newest first",
    authorise: operatorsOnly,
    reply: z.object({
      wordings: z.array(
        z.object({
          ...{ id: z.int(), words: z.string(), reason: z.string(), command: z.string().nullable() },
          ...{ created: z.string(), created_by: z.string() },
        }),
      ),
    }),
    act: async () => {
      const wordings = await listWordings(db);
      return ok({
        wordings: wordings.map(({ id, words, reason, at, createdAt, createdBy }) => ({
          ...{ id, words, reason, command: at ?? null },
          ...{ created: createdAt.toISOString(), created_by: createdBy },
        })),
      });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/bounces/wordings/trial",
    summary: "What a wording would change in the newest 10,000 messages; nothing is stored",
    authorise: operatorsOnly,
    fields: wording,
    reply: trial,
    act: async ({ fields }) => {
      const read = readOwnWording(fields);
      return read.ok ? ok(trialJson(await tryWording(db, read.value))) : read;
    },
  }),
];

const MOST_SHOWN = 500;

const changing: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "POST",
    path: "/bounces/wordings",
    summary: "Try a wording on the newest 10,000 messages and have it in force at once",
    authorise: operatorsOnly,
    fields: wording,
    reply: z.object({ id: z.int(), trial }),
    change: { action: "wording.add", object: ({ fields }) => fields.words },
    act: async ({ fields, caller }) => {
      const made = await makeWording(db, fields, caller.login);
      return made.ok ? ok({ id: made.value.id, trial: trialJson(made.value.trial) }) : made;
    },
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/bounces/wordings/:id",
    summary: "Take a wording out of force",
    authorise: operatorsOnly,
    params: idParams,
    reply: z.object({ msg: z.string() }),
    change: { action: "wording.remove", object: ({ params }) => params.id },
    act: async ({ params }) =>
      (await removeWording(db, Number(params.id))) ? ok({ msg: "removed" }) : refuse(problem("no-such-wording")),
  }),
];

function trialJson({ messages, matches, changes }: Awaited<ReturnType<typeof tryWording>>): z.infer<typeof trial> {
  return {
    messages,
    matches,
    changes: changes.map(({ newlyHard, ...rest }) => ({ ...rest, newly_hard: newlyHard })),
  };
}
