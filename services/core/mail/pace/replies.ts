/** What providers say when they want less mail of a source: config/pace-replies.json. */
import { ok, type Result, refuse } from "../../result.ts";
import { classifyReply, isOfMailbox, type SmtpStage } from "../bounce/class.ts";
import type { Phrases } from "../bounce/phrases.ts";
import { describeSmtpReply, type SmtpReply } from "../smtp-reply.ts";

/** What a reply asks for less of. `nothing`: it looks as if, and is about the recipient or the message. */
type PaceConcern = "rate" | "connections" | "messages-per-connection" | "nothing";

/** That a provider wants less. */
export interface PaceSignal {
  readonly concerns: Exclude<PaceConcern, "nothing">;
  /** For how long nothing is to be sent, as the reply or the table says; undefined where neither does. */
  readonly waitSeconds: number | undefined;
}

/** A row: a reply fits when it fulfils all that the row has. */
interface PaceReply {
  readonly code?: number;
  /** Enhanced status (RFC 3463). */
  readonly status?: string;
  /** Part of the text, whatever the case. */
  readonly says?: string;
  readonly concerns: PaceConcern;
  readonly waitSeconds?: number;
  /** Where it was found when it was looked for: in the provider's own words, or in what others quote; absent: nowhere. */
  readonly checked?: "provider" | "others";
}

/** Replies of a provider, with where it documents them; of no provider: those that go for all, asked last. */
export interface ProviderReplies {
  /** As config/domain-groups.json has it. */
  readonly provider: string | null;
  readonly documentation: string;
  /**
   * Whatever a reply says, its source waits there no longer; absent: as that of no provider has it. All tenants' mail from
   * there waits together, so it is no more than what providers are known to ask for.
   */
  readonly mostWaitSeconds?: number;
  readonly replies: readonly PaceReply[];
}

const CHECKED: readonly unknown[] = ["provider", "others", undefined];
const CONCERNS: readonly unknown[] = ["rate", "connections", "messages-per-connection", "nothing"];
/** No row of the file can stop mail for longer. */
const MOST_WAIT_SECONDS = 86_400;

/** Checks the content of the file. @returns refused with a sentence that names the row */
export function readPaceReplies(data: unknown): Result<readonly ProviderReplies[], string> {
  if (!Array.isArray(data)) return refuse("the providers must be a list");
  const table = data as readonly ProviderReplies[];
  for (const { provider, documentation, mostWaitSeconds, replies } of table) {
    const name = provider ?? "all providers";
    if (typeof documentation !== "string" || documentation === "") return refuse(`${name}: documentation is missing`);
    if (!isWait(mostWaitSeconds)) return refuse(`${name}: its longest wait is out of range`);
    for (const reply of replies) {
      const fault = findFault(reply);
      if (fault !== undefined) return refuse(`${name}: ${JSON.stringify(reply)}: ${fault}`);
    }
  }
  return mostWaitOf(table, null) === undefined ? refuse("all providers: the longest wait is missing") : ok(table);
}

function isWait(seconds: number | undefined): boolean {
  return seconds === undefined || (seconds > 0 && seconds <= MOST_WAIT_SECONDS);
}

/** The longest wait that a reply can bring. */
function mostWaitOf(table: readonly ProviderReplies[], provider: string | null): number | undefined {
  const [own, all] = [provider, null].map((name) => table.find((one) => one.provider === name)?.mostWaitSeconds);
  return own ?? all;
}

function findFault({ code, status, says, concerns, waitSeconds, checked }: PaceReply): string | undefined {
  if (!CONCERNS.includes(concerns)) return "what it concerns is unknown";
  if (!CHECKED.includes(checked)) return "where it was found is unknown";
  if (code === undefined && status === undefined && says === undefined) return "it would fit every reply";
  if (code !== undefined && (code < 400 || code > 599)) return "its code is none of a refusal";
  return isWait(waitSeconds) ? undefined : "its wait is out of range";
}

/**
 * What a refusal says of the pace that a provider bears, by the table, and by the general rules of bounces for the rest.
 * @param stage of the session at which it came
 * @returns undefined when it says nothing of it, or is for good
 */
export function judgePace(
  reply: SmtpReply,
  stage: SmtpStage,
  {
    phrases,
    ...of
  }: { readonly provider: string; readonly table: readonly ProviderReplies[]; readonly phrases: Phrases },
): PaceSignal | undefined {
  if (reply.code >= 500) return undefined;
  const { reason } = classifyReply(reply, { stage, phrases });
  const wantsLess = isOfMailbox(reply, stage) ? "nothing" : (GENERAL[reason] ?? "nothing");
  return readPaceSignal(reply, { ...of, wantsLess });
}

/** What the general rules know of the pace. */
const GENERAL: Readonly<Record<string, PaceConcern>> = {
  ratelimited: "rate",
  speeding: "rate",
  toomanyconn: "connections",
};

/**
 * What a refusal says of the pace that a provider bears.
 * @param wantsLess what the general rules of replies make of it, where the table has no row
 * @returns undefined when it says nothing of it
 */
export function readPaceSignal(
  reply: SmtpReply,
  {
    provider,
    table,
    wantsLess,
  }: { readonly provider: string; readonly table: readonly ProviderReplies[]; readonly wantsLess: PaceConcern },
): PaceSignal | undefined {
  const text = describeSmtpReply(reply).toLowerCase();
  const fits = (row: PaceReply) =>
    (row.code === undefined || row.code === reply.code) &&
    (row.status === undefined || row.status === reply.enhancedStatus) &&
    (row.says === undefined || text.includes(row.says.toLowerCase()));
  const rows = [provider, null].flatMap((name) =>
    table.filter((own) => own.provider === name).flatMap((own) => own.replies),
  );
  const row = rows.find(fits);
  const concerns = row?.concerns ?? wantsLess;
  if (concerns === "nothing") return undefined;
  const waitSeconds = statedWait(text) ?? row?.waitSeconds;
  const most = mostWaitOf(table, provider) ?? MOST_WAIT_SECONDS;
  return { concerns, waitSeconds: waitSeconds === undefined ? undefined : Math.min(waitSeconds, most) };
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };
/** "try again in 5 minutes", "retry after 300 seconds", "wait 1 hour". */
const WAIT =
  /\b(?:again|retry|wait|after|in)\b[^.;0-9]{0,40}?(\d{1,5})\s*(s|m|h)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?)?\b/;

function statedWait(text: string): number | undefined {
  const found = WAIT.exec(text);
  if (found === null) return undefined;
  const seconds = Number(found[1]) * UNITS[found[2]!]!;
  return seconds > 0 ? seconds : undefined;
}
