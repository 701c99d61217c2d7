import { createRequire } from "node:module";
import type { EnhancedStatus } from "../enhanced-status.ts";
import type { DsnAction } from "./dsn.ts";
import type { Phrase } from "./phrases.ts";
import type { BounceReason, SmtpCommand } from "./reason.ts";

interface Patterns {
  readonly patterns: readonly string[];
}
interface Wording extends Patterns {
  readonly reason: string;
  readonly onlyAtRcpt?: boolean;
  readonly orUntold?: boolean;
  readonly onlyStatus?: string;
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
interface Conflict {
  readonly of: readonly string[];
  readonly command?: SmtpCommand;
  readonly exit?: boolean;
  readonly statuses?: readonly string[];
  readonly replycodes?: readonly number[];
  readonly is: string;
}
interface Reasons {
  /** By code, or by the first and the last code of a range. */
  readonly reasons: Readonly<Record<string, string>>;
}

/** `config/bounces/layouts.json`. The types are written out: the compiler would copy a file that it takes one from. */
interface Layouts {
  readonly actions: Rules<Patterns & { readonly action: string }>;
  readonly delays: Patterns;
  readonly finalities: Patterns;
  readonly expiries: Patterns;
  readonly givenUp: Patterns;
  readonly probes: Patterns;
  readonly sendersRefused: Patterns;
  readonly senders: Patterns;
  readonly subjects: Patterns;
  readonly openings: Patterns;
  readonly refusals: Patterns;
  readonly returned: Patterns;
  readonly recipients: Rules<Layout>;
  readonly diagnostics: Rules<{ readonly pattern: string }>;
  readonly unrouted: Patterns;
  readonly commands: Rules<Patterns & { readonly command: string }>;
  readonly automaticSubjects: Patterns;
  readonly automaticTexts: Patterns;
  readonly challenges: Patterns;
}

/** `config/bounces/wordings.json` */
interface Wordings {
  readonly wordings: Rules<Wording>;
  readonly exits: Rules<Wording>;
  readonly hints: Rules<Wording>;
}

/** `config/bounces/codes.json` */
interface Codes {
  readonly statuses: Reasons;
  readonly replycodes: Reasons;
  readonly conflicts: Rules<Conflict>;
}

/** A file of `config/bounces/systems/` */
interface SystemTable {
  readonly source: string;
  readonly rules: readonly { readonly reason: string; readonly says: readonly string[]; readonly at?: SmtpCommand }[];
}

/** Policy is a module like any other; `import` of JSON still warns on Node 20. */
const load = createRequire(import.meta.url);
const table = (name: string): unknown => load(`#config/bounces/${name}.json`);

/**
 * `onlyAtRcpt`: the words count only in a reply to RCPT TO, or beside a status 5.1.x or, before the message, 5.7.1.
 * `orUntold`: or in a refusal (5xx) of which neither a command nor a status tells what it answers.
 * `onlyStatus`: only beside a status that starts so.
 * `unlessStatus`: unless it is a reply to RCPT TO, they do not count beside a status that starts so.
 */
export interface WordingRule {
  readonly reason: BounceReason;
  readonly pattern: RegExp;
  readonly onlyAtRcpt: boolean;
  readonly orUntold: boolean;
  readonly onlyStatus: string | undefined;
  readonly unlessStatus: string | undefined;
}

/** How mail systems name a recipient in running text; the pattern's first group is the address. */
interface RecipientLayout {
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

/** Separators are drawn with these; the words of "returned" follow them. */
const RULER = String.raw`^[ \t>|*=#_-]{0,100}`;

/** The tables of `config/bounces/`, which say what each is for, compiled for the first text: most processes read none. */
export function bounceRules(): BounceRules {
  compiled ??= compileRules();
  return compiled;
}

type BounceRules = ReturnType<typeof compileRules>;
let compiled: BounceRules | undefined;

function compileRules() {
  const layouts = table("layouts") as Layouts;
  const words = table("wordings") as Wordings;
  const codes = table("codes") as Codes;
  return {
    actions: layouts.actions.rules.map((rule) => ({ action: rule.action as DsnAction, pattern: anyOf(rule.patterns) })),
    delays: anyOf(layouts.delays.patterns),
    finalities: anyOf(layouts.finalities.patterns),
    expiries: anyOf(layouts.expiries.patterns),
    givenUp: anyOf(layouts.givenUp.patterns),
    probes: anyOf(layouts.probes.patterns),
    sendersRefused: anyOf(layouts.sendersRefused.patterns),
    senders: anyOf(layouts.senders.patterns),
    subjects: anyOf(layouts.subjects.patterns),
    openings: anyOf(layouts.openings.patterns),
    refusals: anyOf(layouts.refusals.patterns),
    returned: new RegExp(`${RULER}(?:${layouts.returned.patterns.join("|")})`, "im"),
    recipients: layouts.recipients.rules.map(recipientLayout),
    unrouted: anyOf(layouts.unrouted.patterns),
    diagnostics: layouts.diagnostics.rules.map(({ pattern }) => new RegExp(pattern, "im")),
    commands: layouts.commands.rules.map((rule) => ({
      command: rule.command as SmtpCommand,
      pattern: anyOf(rule.patterns),
    })),
    automaticSubjects: anyOf(layouts.automaticSubjects.patterns),
    automaticTexts: anyOf(layouts.automaticTexts.patterns),
    challenges: anyOf(layouts.challenges.patterns),
    wordings: words.wordings.rules.map(wordingRule),
    exits: words.exits.rules.map(wordingRule),
    statuses: Object.entries(codes.statuses.reasons).map(codeRange),
    hints: words.hints.rules.map(wordingRule),
    replycodes: Object.entries(codes.replycodes.reasons).map(codeRange),
    conflicts: codes.conflicts.rules.map((rule) => ({
      ...rule,
      of: new Set(rule.of as BounceReason[]),
      statuses: rule.statuses?.map((range) => codeRange([range, rule.is])),
      is: rule.is as BounceReason,
    })),
  };
}

/** What single systems say, by the name of their table. */
export function readSystemPhrases(): ReadonlyMap<string, readonly Phrase[]> {
  const { systems } = table("systems") as { systems: readonly string[] };
  return new Map(
    systems.map((name) => {
      const { rules } = table(`systems/${name}`) as SystemTable;
      return [name, rules.flatMap(({ reason, says, at }) => says.map((words) => ({ reason, words, at }) as Phrase))];
    }),
  );
}

/** The form in which texts meet most patterns: lower case, ASCII quotation marks, runs of blanks and line breaks as one blank. */
export function comparable(text: string): string {
  return withAsciiQuotes(text)
    .toLowerCase()
    .replace(/[\s\u00a0]+/g, " ");
}

/**
 * Typographic quotation marks and apostrophes as those of ASCII, in which the tables are written; a character for each.
 * U+0091 to U+0094 are what gateways make of them that take Windows-1252 for ISO 8859-1.
 */
export function withAsciiQuotes(text: string): string {
  return text.replace(/[‘’‚‛ʼ\x91\x92]/g, "'").replace(/[“”„‟\x93\x94]/g, '"');
}

/** The reason that the table of enhanced statuses has for a code. */
export function reasonOfStatus(status: EnhancedStatus): BounceReason | undefined {
  return reasonInRanges(bounceRules().statuses, status);
}

/** The reason that the table has for the subject of a code: what an unregistered detail means. @see RFC 3463 §2 */
export function reasonOfSubject(status: EnhancedStatus): BounceReason | undefined {
  return reasonInRanges(bounceRules().statuses, status.replace(/\d+$/, "0"));
}

/** What counts where a reason, however it was found, meets evidence that it cannot stand beside. */
export function settleConflict(
  reason: BounceReason,
  evidence: {
    readonly command: SmtpCommand | undefined;
    readonly status: EnhancedStatus | undefined;
    readonly replycode: number;
    /** How the text tells that a delivery program ended in failure, where it does. */
    readonly exit: unknown;
  },
): BounceReason {
  const rule = bounceRules().conflicts.find(
    ({ of, command, exit, statuses, replycodes }) =>
      of.has(reason) &&
      (!command || command === evidence.command) &&
      (!exit || evidence.exit !== undefined) &&
      (!statuses || (evidence.status && reasonInRanges(statuses, evidence.status))) &&
      (!replycodes || replycodes.includes(evidence.replycode)),
  );
  return rule?.is ?? reason;
}

/** The reason that the table of reply codes has for a code. */
export function reasonOfReplyCode(code: number): BounceReason | undefined {
  return reasonInRanges(bounceRules().replycodes, String(code));
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
    orUntold: rule.orUntold ?? false,
    onlyStatus: rule.onlyStatus,
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
