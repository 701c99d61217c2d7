import { createRequire } from "node:module";
import type { EnhancedStatus } from "../enhanced-status.ts";
import type { DsnAction } from "./dsn.ts";
import type { BounceReason } from "./reason.ts";

interface Patterns {
  readonly patterns: readonly string[];
}
interface Wording extends Patterns {
  readonly reason: string;
  readonly onlyAtRcpt?: boolean;
  readonly unlessStatus?: string;
}
interface Layout {
  readonly pattern: string;
  readonly loose?: boolean;
  readonly domainOfSender?: boolean;
}
interface Rules<Rule> {
  readonly rules: readonly Rule[];
}
interface Reasons {
  /** By code, or by the first and the last code of a range. */
  readonly reasons: Readonly<Record<string, string>>;
}

/** `config/bounce-rules.json`. Its type is written out: the compiler would copy a file that it takes one from. */
interface RulesFile {
  readonly actions: Rules<Patterns & { readonly action: string }>;
  readonly delays: Patterns;
  readonly finalities: Patterns;
  readonly senders: Patterns;
  readonly subjects: Patterns;
  readonly openings: Patterns;
  readonly returned: Patterns;
  readonly recipients: Rules<Layout>;
  readonly diagnostics: Rules<{ readonly pattern: string }>;
  readonly commands: Rules<Patterns & { readonly command: string }>;
  readonly automaticSubjects: Patterns;
  readonly automaticTexts: Patterns;
  readonly challenges: Patterns;
  readonly wordings: Rules<Wording>;
  readonly statuses: Reasons;
  readonly hints: Rules<Wording>;
  readonly replycodes: Reasons;
}

/** Policy is a module like any other; `import` of JSON still warns on Node 20. */
const data: RulesFile = createRequire(import.meta.url)("../../../../config/bounce-rules.json");

/** The SMTP command that a reply answered; `connect` stands for everything before MAIL FROM. */
export type SmtpCommand = "connect" | "mail" | "rcpt" | "data";

/**
 * `onlyAtRcpt`: the words count only in a reply to RCPT TO, or beside a status 5.1.x.
 * `unlessStatus`: unless it is a reply to RCPT TO, they do not count beside a status that starts so.
 */
export interface WordingRule {
  readonly reason: BounceReason;
  readonly pattern: RegExp;
  readonly onlyAtRcpt: boolean;
  readonly unlessStatus: string | undefined;
}

/** How mail systems name a recipient in running text; the pattern's first group is the address. */
export interface RecipientLayout {
  readonly pattern: RegExp;
  /** Other addresses look the same, so those of the notice's own sender and addressee do not count. */
  readonly loose: boolean;
  /** The layout gives the local part alone; the domain is that of the notice's sender. */
  readonly domainOfSender: boolean;
}

/**
 * A mailbox in running text, bounded so that hostile text costs linear time. Domains in ASCII only: in scripts that
 * are written without blanks the words around an address would become part of it.
 */
const MAILBOX = String.raw`(?:"[^"@\s]{1,64}"|[^\s<>()\[\]"':;,@|\u0300-\uffff][^\s<>()\[\]":;,@|\u0300-\uffff]{0,127})@[a-z0-9#](?:[a-z0-9_.#-]{0,252}[a-z0-9])?`;

/** Separators are drawn with these; the words of {@link bounceRules.returned} follow them. */
const RULER = String.raw`^[ \t>|*=#_-]{0,100}`;

/** The tables of `config/bounce-rules.json`, which says what each is for, compiled once. */
export const bounceRules = {
  actions: data.actions.rules.map((rule) => ({ action: rule.action as DsnAction, pattern: anyOf(rule.patterns) })),
  delays: anyOf(data.delays.patterns),
  finalities: anyOf(data.finalities.patterns),
  senders: anyOf(data.senders.patterns),
  subjects: anyOf(data.subjects.patterns),
  openings: anyOf(data.openings.patterns),
  returned: new RegExp(`${RULER}(?:${data.returned.patterns.join("|")})`, "im"),
  recipients: data.recipients.rules.map(recipientLayout),
  diagnostics: data.diagnostics.rules.map(({ pattern }) => new RegExp(pattern, "im")),
  commands: data.commands.rules.map((rule) => ({
    command: rule.command as SmtpCommand,
    pattern: anyOf(rule.patterns),
  })),
  automaticSubjects: anyOf(data.automaticSubjects.patterns),
  automaticTexts: anyOf(data.automaticTexts.patterns),
  challenges: anyOf(data.challenges.patterns),
  wordings: data.wordings.rules.map(wordingRule),
  statuses: Object.entries(data.statuses.reasons).map(codeRange),
  hints: data.hints.rules.map(wordingRule),
  replycodes: Object.entries(data.replycodes.reasons).map(codeRange),
};

/** The form in which texts meet most patterns: lower case, runs of blanks and line breaks as one blank. */
export function comparable(text: string): string {
  return text.toLowerCase().replace(/[\s\u00a0]+/g, " ");
}

/** The reason that the table of enhanced statuses has for a code. */
export function reasonOfStatus(status: EnhancedStatus): BounceReason | undefined {
  return reasonInRanges(bounceRules.statuses, status);
}

/** The reason that the table of reply codes has for a code. */
export function reasonOfReplyCode(code: number): BounceReason | undefined {
  return reasonInRanges(bounceRules.replycodes, String(code));
}

interface CodeRange {
  readonly from: readonly number[];
  readonly to: readonly number[];
  readonly reason: BounceReason;
}

function reasonInRanges(ranges: readonly CodeRange[], code: string): BounceReason | undefined {
  const numbers = numbersOf(code);
  return ranges.find(({ from, to }) => compare(from, numbers) <= 0 && compare(numbers, to) <= 0)?.reason;
}

function codeRange([codes, reason]: [string, string]): CodeRange {
  const [from = "", to = from] = codes.split("-");
  return { from: numbersOf(from), to: numbersOf(to), reason: reason as BounceReason };
}

function numbersOf(code: string): number[] {
  return code.split(".").map(Number);
}

function compare(left: readonly number[], right: readonly number[]): number {
  const index = left.findIndex((number, at) => number !== right[at]);
  return index === -1 ? 0 : (left[index] ?? 0) - (right[index] ?? 0);
}

function anyOf(patterns: readonly string[]): RegExp {
  return new RegExp(patterns.join("|").replaceAll("ADDRESS", MAILBOX));
}

function wordingRule(rule: Wording): WordingRule {
  return {
    reason: rule.reason as BounceReason,
    pattern: anyOf(rule.patterns),
    onlyAtRcpt: rule.onlyAtRcpt ?? false,
    unlessStatus: rule.unlessStatus,
  };
}

function recipientLayout(rule: Layout): RecipientLayout {
  return {
    pattern: new RegExp(rule.pattern.replaceAll("ADDRESS", MAILBOX), "gim"),
    loose: rule.loose ?? false,
    domainOfSender: rule.domainOfSender ?? false,
  };
}
