import type { Command } from "commander";
import { BOUNCE_REASONS } from "../../core/mail/bounce/reason.ts";
import { parseDateOrMoment } from "../../core/moment.ts";
import type { readPlace } from "../../operations/mail/message-export.ts";
import { toMessageJson, toStoryJson } from "../../operations/mail/message-json.ts";
import { type MessageSearch, planSearch, searchMessages } from "../../operations/mail/message-search.ts";
import { type MessageStory, readMessageReport, readMessageStory } from "../../operations/mail/message-story.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type FoundMessage, MESSAGE_STATES } from "../../store/mail/explorer/found-messages.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";

type Given = Readonly<Partial<Record<"id" | "recipient" | "domain" | "sender" | "subject" | "creator", string>>> &
  Readonly<Partial<Record<"campaign" | "state" | "reason" | "reply" | "source" | "from" | "until", string>>> & {
    readonly limit: string;
  };

/** `palomar message …`: what became of messages. */
export function registerMessageCommand(program: Command, runtime: CommandRuntime): void {
  const message = program.command("message").description("messages to their recipients");
  message
    .command("find")
    .argument("<instance>")
    .option("--id <id>", "a Message-ID, the id of the 250 or of the API's answer, a return path, or a message's id")
    .option("--recipient <email>", "its recipient")
    .option("--domain <domain>", "the recipient's domain")
    .option("--sender <sender>", "the From address, or its domain")
    .option("--subject <words>", "whole words of the subject")
    .option("--campaign <numid>", "its campaign")
    .option("--creator <creator>", "api, smtp, or a console login")
    .option("--state <state>", `one of ${MESSAGE_STATES.join(", ")}`)
    .option("--reason <reason>", "why it bounced, or was put off")
    .option("--reply <words>", "words of what was replied in some attempt")
    .option("--source <address>", "the address of ours that some attempt left from")
    .option("--from <moment>", "accepted at this moment or later")
    .option("--until <moment>", "accepted before this moment")
    .option("--limit <number>", "so many at most", "100")
    .description("find messages, newest first")
    .action(async (name: string, given: Given) => {
      const search = readSearch(runtime, given);
      const limit = readNumber(runtime, given.limit);
      await withInstance(runtime, name, async ({ db }, { id }) => {
        await runtime.printEach(findAll(db, id, { search, limit }), (found) => toLine(found));
      });
    });
  message
    .command("show")
    .argument("<instance>")
    .argument("<id>", "as find prints it")
    .description("tell the story of a message to its recipient")
    .action(async (name: string, given: string) => {
      const wanted = readNumber(runtime, given);
      const story = await withInstance(runtime, name, ({ db }, { id }) => readMessageStory(db, id, wanted));
      if (story === undefined) runtime.refuse(`${name} has no message ${given}`);
      runtime.print(toStoryJson(story), toText(story));
    });
  message
    .command("report")
    .argument("<instance>")
    .argument("<id>", "as find prints it")
    .argument("<report>", "as show prints it")
    .description("print what came back about a message, as it was received; with --json in Base64")
    .action(async (name: string, given: string, report: string) => {
      const of = { deliveryId: readNumber(runtime, given), reportId: readNumber(runtime, report) };
      const octets = await withInstance(runtime, name, ({ db }, { id }) => readMessageReport(db, id, of));
      if (octets === undefined) return runtime.refuse(`${name} has no report ${report} about a message ${given}`);
      runtime.print({ id: of.reportId, message: octets.toString("base64") }, octets);
    });
}

/** Looks on until so many are found, or there are no more. */
async function* findAll(
  db: Db,
  instanceId: number,
  { search, limit }: { readonly search: MessageSearch; readonly limit: number },
): AsyncGenerator<ReturnType<typeof toMessageJson>> {
  const plan = await planSearch(db, instanceId, search);
  let left = limit;
  for (let after: ReturnType<typeof readPlace>; left > 0; ) {
    const page = await searchMessages(db, instanceId, plan, { after, limit: Math.min(left, 1_000) });
    for (const found of page.messages) yield toMessageJson(found);
    left -= page.messages.length;
    if (page.next === undefined) return;
    after = page.next;
  }
}

function readSearch(
  runtime: CommandRuntime,
  { limit: _, campaign, state, reason, from, until, ...texts }: Given,
): MessageSearch {
  const moment = (text: string | undefined) => {
    return text === undefined ? undefined : (parseDateOrMoment(text) ?? runtime.misused(`${text} is no moment`));
  };
  const isState = (text: string): text is FoundMessage["state"] => (MESSAGE_STATES as readonly string[]).includes(text);
  if (state !== undefined && !isState(state))
    return runtime.misused(`${state} is none of ${MESSAGE_STATES.join(", ")}`);
  const isReason = reason === undefined || (BOUNCE_REASONS as readonly string[]).includes(reason);
  if (!isReason) return runtime.misused(`${reason} is none of ${BOUNCE_REASONS.join(", ")}`);
  return {
    ...texts,
    campaign: campaign === undefined ? undefined : readNumber(runtime, campaign),
    state,
    reason,
    from: moment(from),
    until: moment(until),
  };
}

function readNumber(runtime: CommandRuntime, text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : runtime.misused(`${text} is no number`);
}

function toLine({ id, accepted, state, recipient, subject, reply }: ReturnType<typeof toMessageJson>): string {
  return [id, accepted, state, recipient, JSON.stringify(subject ?? ""), reply ?? ""].join("  ").trimEnd();
}

function toText(story: MessageStory): string {
  const { attempt_list, events, reports, ...message } = toStoryJson(story);
  const facts = Object.entries(message).flatMap(([name, value]) =>
    value === null || value === "" || value === false
      ? []
      : [`${name}: ${typeof value === "object" ? value.message : value}`],
  );
  const told = [
    { at: message.accepted, text: "accepted" },
    ...attempt_list.map(({ at, attempt, outcome, reason, reply, duration_ms, ...way }) => ({
      at,
      text: `attempt ${attempt}: ${outcome} ${reason}`.trimEnd().concat(`, ${duration_ms} ms, ${wayOf(way)}: ${reply}`),
    })),
    ...events
      .filter(({ kind }) => kind !== "sent")
      .map(({ at, kind, machine, reason, words }) => ({
        at,
        text: [kind, machine ? "by a machine" : "", reason, words].filter((part) => part !== "").join(", "),
      })),
    ...reports.map(({ received, id, kind, from, octets }) => ({
      at: received,
      text: `report ${id} came back: ${kind} from <${from}>, ${octets} octets`,
    })),
  ].toSorted((a, b) => (a.at < b.at ? -1 : 1));
  return [...facts, "", ...told.map(({ at, text }) => `${at}  ${text}`)].join("\n");
}

type Attempt = ReturnType<typeof toStoryJson>["attempt_list"][number];

function wayOf({ path, session }: Pick<Attempt, "path" | "session">): string {
  if (path === null) return "no server";
  const { exchanger, address, source, tls, certificate, policy } = path;
  const unencrypted = session ? "in clear" : "no session";
  const security = tls === "" ? unencrypted : `${tls}, certificate ${certificate}`;
  return [`${exchanger} [${address}] from ${source || "?"}`, security, policy].filter((part) => part !== "").join(", ");
}
