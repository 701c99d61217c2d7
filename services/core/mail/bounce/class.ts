import { type EnhancedStatus, findEnhancedStatuses, isSpecific, parseEnhancedStatus } from "../enhanced-status.ts";
import { describeSmtpReply, type SmtpReply } from "../smtp-reply.ts";
import { CODE_WEIGHT, type Phrases, PhraseTable } from "./phrases.ts";
import type { BounceReason, SmtpCommand } from "./reason.ts";
import {
  bounceRules,
  comparable,
  readSystemPhrases,
  reasonOfReplyCode,
  reasonOfStatus,
  reasonOfSubject,
  settleConflict,
  type WordingRule,
} from "./rules.ts";

/** Every phrase that `config/bounces/systems/` knows. */
export const knownPhrases = new PhraseTable(() => [...readSystemPhrases().values()].flat());

/** `hard`: the address will never take mail. */
export interface BounceClass {
  readonly reason: BounceReason;
  readonly hard: boolean;
}

/**
 * What is known of a failure. `text` holds the words of the system that failed, reply codes included; `context`
 * what the reporting system says around them, which decides only what text and status leave open.
 */
interface BounceEvidence {
  readonly status?: string | null | undefined;
  readonly replycode?: string | number | null | undefined;
  readonly text: string;
  readonly context?: string | undefined;
  /** The SMTP command that was refused; read from the text when not given. */
  readonly command?: SmtpCommand | undefined;
  /**
   * The report is laid out as that of a system which could not route the address itself: where nothing tells of a session,
   * words that say the reason mean what they mean in a reply to RCPT TO. Words that only hint may be of a local delivery.
   */
  readonly unrouted?: boolean | undefined;
}

/** The step of a session that a reply answers; `message` is the reply after the final dot. */
export type SmtpStage = "connect" | "ehlo" | "starttls" | "auth" | "mail" | "rcpt" | "data" | "message";

/**
 * Reason and hardness of a failure. The evidence in the order in which it counts: words that are the known text of one
 * system, words that many use, that the queue's time is over, the enhanced status by its registered meaning, words that
 * only hint, the words around them, the subject of the status, the reply code. Words come first since the codes of many
 * systems are too coarse (`550 5.0.0`) and some are wrong; where a reason cannot stand beside a code or the command that
 * was answered, the table of conflicts decides.
 *
 * What is classified is a delivery that was given up, so an unknown user is hard although each attempt got a 4xx;
 * a domain that only for now is not found, or takes no mail, is not. Nor is a refusal of the sender ever hard.
 */
export function classifyBounce(evidence: BounceEvidence, phrases: Phrases = knownPhrases): BounceClass {
  const { reason, hard } = explainBounce(evidence, phrases);
  return { reason, hard };
}

/** `by`: whether words or an enhanced status told it, or nothing but the reply code if at all. */
type ExplainedBounce = BounceClass & { readonly by: "words" | "status" | "code" };

/** Reason and hardness, and what told them. */
export function explainBounce(evidence: BounceEvidence, phrases: Phrases): ExplainedBounce {
  const text = comparable(evidence.text.slice(0, MAX_TEXT_CHARACTERS));
  const context = comparable((evidence.context ?? "").slice(0, MAX_TEXT_CHARACTERS));
  const status = mostSpecificStatus(evidence.status, evidence.text);
  const replycode = Number(evidence.replycode ?? findReplyCode(evidence.text) ?? 0);
  const command = evidence.command ?? findCommand(text) ?? findCommand(context);
  const probed = explainProbe(text, command, phrases);
  if (probed) return probed;
  const unrouted = evidence.unrouted === true && replycode === 0 && !command;
  const gaveUp = bounceRules().givenUp.test(text) || bounceRules().givenUp.test(context);
  const read = { text, exit: findExit(text), context, status, replycode, command, unrouted, gaveUp, phrases };
  const found = findReason(read);
  const { sendersRefused } = bounceRules();
  const senderRefused = sendersRefused.test(text) || sendersRefused.test(context);
  const reason = settleConflict(found.reason, senderRefused ? { ...read, command: "mail" } : read);
  const transient = status ? status.startsWith("4") : replycode >= 400 && replycode < 500;
  return { reason, hard: HARD_REASONS.has(reason) && !(transient && REASONS_OF_DOMAIN.has(reason)), by: found.by };
}

/**
 * Where the failing system tried to reach the recipient and tells what it was answered: the reason of that, if the answer
 * gives any. The code around it only says that the attempt failed (Postfix has 5.1.1 for all of them).
 */
function explainProbe(text: string, command: SmtpCommand | undefined, phrases: Phrases): ExplainedBounce | undefined {
  const probe = bounceRules().probes.exec(text)?.[0];
  if (!probe || (phrases.longestIn(text, command)?.weight ?? 0) >= CODE_WEIGHT) return undefined;
  const answer = text.slice(probe.length);
  const explained = explainBounce({ text: answer, command: findCommand(answer) ?? "rcpt" }, phrases);
  return explained.reason === "undefined" ? undefined : explained;
}

/**
 * Judges a reply within the session. `aboutUs`: a refusal of our address, our rate or our reputation, which says
 * nothing of the contact: defer, and back off from the receiving system.
 */
export function classifyReply(
  reply: SmtpReply,
  context: { readonly stage: SmtpStage; readonly phrases?: Phrases | undefined },
): BounceClass & { readonly aboutUs: boolean } {
  const read = classifyBounce(
    {
      status: reply.enhancedStatus,
      replycode: reply.code,
      text: describeSmtpReply(reply),
      command: COMMAND_OF_STAGE[context.stage],
    },
    context.phrases,
  );
  // 421 closes the session: whoever says it may mean anything by it (RFC 5321 §3.8).
  const { reason, hard }: BounceClass =
    context.stage === "starttls" && reply.code !== 421 ? { reason: "failedstarttls", hard: false } : read;
  const beforeRecipient = !["rcpt", "data", "message"].includes(context.stage);
  const aboutUs = REASONS_ABOUT_US.has(reason) || (beforeRecipient && !REASONS_ABOUT_MESSAGE.has(reason));
  return { reason, hard: hard && !beforeRecipient && reply.code >= 500, aboutUs };
}

/** Whether a reply to RCPT is about the state of that mailbox by its status (RFC 3463 §3.3), such as one that gets too much at once. */
export function isOfMailbox({ code, enhancedStatus }: SmtpReply, stage: SmtpStage): boolean {
  return stage === "rcpt" && code !== 421 && /^[45]\.2\./.test(enhancedStatus ?? "");
}

/** The reply code in a text, where one stands as such and not as part of a number, a size or an address. */
export function findReplyCode(text: string): string | undefined {
  return /(?:^|[\s;:"'(>#[,-])([45][0-7]\d)(?=[ \-:"'\],\t\n]|$)(?![- ]?(?:bytes?|kb|mb|seconds|hours|minutes|days|recipients|messages)\b)/i.exec(
    text,
  )?.[1];
}

/** Of the Status field and the codes in the text, the first that says more than its class. */
export function mostSpecificStatus(field: string | null | undefined, text: string): EnhancedStatus | undefined {
  const stated = field ? parseEnhancedStatus(field) : undefined;
  const found = findEnhancedStatuses(text.slice(0, MAX_TEXT_CHARACTERS)).filter((code) => !code.startsWith("2"));
  const candidates = stated && !isVague(stated) ? [stated, ...found] : [...found, ...(stated ? [stated] : [])];
  return candidates.find(isSpecific) ?? candidates[0];
}

const MAX_TEXT_CHARACTERS = 4000;

const HARD_REASONS: ReadonlySet<BounceReason> = new Set(["userunknown", "hostunknown", "hasmoved", "notaccept"]);

/** What a name server or a mail exchanger says of its whole domain may be over soon, unlike what is said of a mailbox. */
const REASONS_OF_DOMAIN: ReadonlySet<BounceReason> = new Set(["hostunknown", "notaccept"]);

const REASONS_ABOUT_US: ReadonlySet<BounceReason> = new Set([
  "blocked",
  "badreputation",
  "ratelimited",
  "toomanyconn",
  "speeding",
  "requireptr",
  "authfailure",
]);

/** What may be refused for the message's sake as early as MAIL FROM, where its size is announced (RFC 1870 §6). */
const REASONS_ABOUT_MESSAGE: ReadonlySet<BounceReason> = new Set(["mesgtoobig", "exceedlimit", "contenterror"]);

const COMMAND_OF_STAGE: Readonly<Record<SmtpStage, SmtpCommand>> = {
  connect: "connect",
  ehlo: "connect",
  starttls: "connect",
  auth: "connect",
  mail: "mail",
  rcpt: "rcpt",
  data: "data",
  message: "data",
};

interface ReadEvidence {
  readonly text: string;
  readonly exit: ProgramExit | undefined;
  readonly context: string;
  readonly status: EnhancedStatus | undefined;
  readonly replycode: number;
  readonly command: SmtpCommand | undefined;
  readonly unrouted: boolean;
  /** The words are those of a refusal, and neither a command nor a status tells what it answers. */
  readonly untold?: boolean;
  readonly gaveUp: boolean;
  readonly phrases: Phrases;
}

/** What a text tells of a delivery program that ended in failure. */
interface ProgramExit {
  /** The reason, where nothing else tells one. */
  readonly reason: BounceReason;
  /** What else the text says. */
  readonly words: string;
}

function findExit(text: string): ProgramExit | undefined {
  for (const { pattern, reason } of bounceRules().exits) {
    const told = pattern.exec(text)?.[0];
    if (told !== undefined) return { reason, words: text.slice(told.length) };
  }
  return undefined;
}

function findReason(evidence: ReadEvidence): {
  readonly reason: BounceReason;
  readonly by: "words" | "status" | "code";
} {
  const { text, exit, context, status, replycode, command, unrouted, gaveUp } = evidence;
  const hasStatus = status !== undefined && isSpecific(status);
  const isCoarse = (exit ? COARSE_BESIDE_EXIT : WRITTEN_OVER).test(status ?? "");
  const byOwnStatus = hasStatus && !isCoarse ? reasonOfStatus(status) : undefined;
  const untold = replycode >= 500 && !command && (!status || isVague(status));
  const asReply = unrouted ? { ...evidence, command: "rcpt" as const } : { ...evidence, untold };
  const words = exit?.words ?? text;
  const inText =
    reasonInCode(text, evidence) ??
    reasonInWords(words, asReply) ??
    (gaveUp && !status?.startsWith("5") ? "expired" : undefined);
  if (inText) return { reason: inText, by: "words" };
  if (byOwnStatus) return { reason: byOwnStatus, by: "status" };
  const hinted =
    reasonInHints(words, evidence) ??
    reasonInWords(context, evidence) ??
    exit?.reason ??
    reasonInHints(context, evidence);
  if (hinted) return { reason: hinted, by: "words" };
  const bySubject = hasStatus ? reasonOfSubject(status) : undefined;
  if (bySubject) return { reason: bySubject, by: "status" };
  return { reason: reasonOfReplyCode(replycode) ?? "undefined", by: "code" };
}

/** What relays write over the remote system's own code says little. */
const WRITTEN_OVER = /\.5\.0$/;
/** What a delivery system has for an exit status says no more than that, without a detail, unless it is about the address. */
const COARSE_BESIDE_EXIT = /\.[^1]\.0$/;

/** An operator's own wording, or a provider's code. */
function reasonInCode(text: string, { phrases, command }: ReadEvidence): BounceReason | undefined {
  const phrase = phrases.longestIn(text, command);
  return phrase && phrase.weight >= CODE_WEIGHT ? phrase.reason : undefined;
}

function reasonInWords(words: string, evidence: ReadEvidence): BounceReason | undefined {
  const phrase = evidence.phrases.longestIn(words, evidence.command);
  return (
    (phrase && phrase.weight >= CERTAIN_WEIGHT ? phrase.reason : undefined) ??
    reasonIn(bounceRules().wordings, words, evidence)
  );
}

function reasonInHints(words: string, evidence: ReadEvidence): BounceReason | undefined {
  return evidence.phrases.longestIn(words, evidence.command)?.reason ?? reasonIn(bounceRules().hints, words, evidence);
}

function reasonIn(rules: readonly WordingRule[], words: string, evidence: ReadEvidence): BounceReason | undefined {
  if (words === "") return undefined;
  return rules.find((rule) => rule.pattern.test(words) && appliesTo(rule, evidence))?.reason;
}

/** Shorter phrases ("message rejected") are said by many systems of many things: they only hint. */
const CERTAIN_WEIGHT = 18;

function appliesTo(rule: WordingRule, { status, command, untold }: ReadEvidence): boolean {
  if (rule.onlyAtRcpt && command !== "rcpt" && !(rule.orUntold && untold)) {
    const aboutRecipient = status?.startsWith("5.1.") || (status === "5.7.1" && command !== "data");
    if (!aboutRecipient) return false;
  }
  if (rule.onlyStatus && !status?.startsWith(rule.onlyStatus)) return false;
  return !(rule.unlessStatus && status?.startsWith(rule.unlessStatus) && command !== "rcpt");
}

function findCommand(text: string): SmtpCommand | undefined {
  return bounceRules().commands.find((rule) => rule.pattern.test(text))?.command;
}

/** X.0.0 repeats the class; X.4.7 and X.5.0 are what relays write over the remote system's own code. */
function isVague(status: EnhancedStatus): boolean {
  return !isSpecific(status) || /\.(?:4\.7|5\.0)$/.test(status);
}
