import type { Sentence } from "../../../core/sentences.ts";
import { formatChoices, formatNumber, formatTime, formatWait } from "./format.ts";
import type { Problem } from "./http.ts";
import { texts } from "./texts.ts";

type Words = Readonly<Record<string, string>>;

/** Gaps for moments, which come as ISO 8601. */
const TIME_GAPS: ReadonlySet<string> = new Set(["time", "until"]);
/** Gaps for numbers that have decimals: a percentage, and what a filter of content gives. */
const DECIMAL_GAPS: ReadonlySet<string> = new Set(["limit", "score"]);

/** What happened and what to do, in one or two sentences of the reader's language; the server's own where none is known. */
export function describeProblem(problem: Problem): string {
  const { problems } = texts().shell;
  const { status, code, values, message, retryAfterSeconds } = problem;
  if (status === 0) return problems.unreachable;
  if (status === 429 && (code === undefined || code === "rate-limited")) {
    return problems.tooMany(retryAfterSeconds === undefined ? undefined : formatWait(retryAfterSeconds));
  }
  if (status === 503) return problems.unavailable;
  if (status >= 500) return problems.internal;
  if (status === 413) return problems.tooLarge;
  if (code !== undefined) return describeSentence({ code, values, message });
  if (status === 403) return `${problems.forbidden} (${message})`;
  return message === "" ? problems.refused(status) : asSentence(message);
}

/** A sentence of the server's in the reader's language. */
export function describeSentence(sentence: Sentence): string {
  return wordsOf(texts().problems.sentences, sentence) ?? asSentence(describeReason(sentence));
}

/** What is wrong with a field, for the place beside it: its label need not be said again. */
export function describeFieldProblem(problem: Problem): string {
  if (problem.code === "missing-field") return texts().problems.fillIn;
  const reason = problem.values?.reason;
  const label = nameIn("field", problem.field ?? "");
  if (typeof reason === "object" && reason.code === "not-empty" && label) return `${label} ${describeReason(reason)}.`;
  return problem.code === "invalid-field" && typeof reason === "object"
    ? asSentence(describeReason(reason))
    : describeProblem(problem);
}

/** Why something was refused or did not work, as a part of a sentence. */
export function describeReason(reason: Sentence): string {
  const { reasons, sentences } = texts().problems;
  const words = wordsOf(reasons, reason) ?? wordsOf(sentences, reason) ?? reason.message;
  return words.replace(/\.$/, "");
}

function wordsOf(words: Words, { code, values }: Pick<Sentence, "code" | "values">): string | undefined {
  return words[code]?.replace(/\{(\w+)\}/g, (gap, name: string) => {
    const value = values[name];
    if (value === undefined) return gap;
    if (typeof value === "object") return describeReason(value);
    if (DECIMAL_GAPS.has(name)) return formatNumber(Number(value), 2);
    if (name === "choices") return formatChoices(value.split(/, | or /));
    return TIME_GAPS.has(name) ? formatTime(value) : (nameIn(name, value) ?? value);
  });
}

/** What the pages call something that the APIs have a name for. */
function nameIn(gap: string, value: string): string | undefined {
  const { problems, dns, mail, operator } = texts();
  const names: Readonly<Record<string, Words>> = {
    ...{ field: problems.fields, column: problems.columns, part: problems.parts, ...problems.names },
    ...{ quota: dns.quotas.names, kind: mail.suppressions.kinds, setting: operator.audit.fields },
  };
  return names[gap]?.[value];
}

function asSentence(words: string): string {
  const capital = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.?!]$/.test(capital) ? capital : `${capital}.`;
}
