import type { Problem } from "./http.ts";
import { knownReason, knownSentence } from "./known-sentences.ts";
import { texts } from "./texts.ts";

/** What happened and what to do, in one or two sentences of the reader's language; the server's own where none is known. */
export function describeProblem({ status, msg, code, values, retryAfterSeconds }: Problem): string {
  const { problems } = texts().shell;
  if (status === 0) return problems.unreachable;
  if (status === 429) return problems.tooMany(retryAfterSeconds);
  if (status === 503) return problems.unavailable;
  if (status >= 500) return problems.internal;
  if (status === 413) return problems.tooLarge;
  const known = sentenceOf(code, values);
  if (known !== undefined) return known;
  if (status === 403) return `${problems.forbidden} (${msg})`;
  return msg === "" ? problems.refused(status) : `${capitalise(msg)}.`;
}

/** A sentence of the server's in the reader's language, where it is a known one. */
export function describeSentence(sentence: string): string {
  const known = knownSentence(sentence);
  return (known && sentenceOf(known.code, known.values)) ?? sentence;
}

/** What is wrong with a field, for the place beside it: its label need not be said again. */
export function describeFieldProblem(problem: Problem): string {
  const { fillIn, notValid } = texts().problems;
  if (problem.code === "missing-field") return fillIn;
  if (problem.code === "malformed-field") return notValid;
  const reason = problem.values?.reason;
  return problem.code === "invalid-field" && reason !== undefined
    ? `${capitalise(describeReason(reason))}.`
    : describeProblem(problem);
}

function sentenceOf(code: string | undefined, values: Problem["values"]): string | undefined {
  const sentence = (texts().problems.sentences as Readonly<Record<string, string>>)[code ?? ""];
  return sentence === undefined ? undefined : fill(sentence, inWords(values));
}

/** Why something was refused or did not work, in the reader's language where the reason is a known one. */
export function describeReason(reason: string): string {
  const known = knownReason(reason);
  const { reasons } = texts().problems;
  const words = known && (reasons as Readonly<Record<string, string>>)[known.code];
  if (words !== undefined) return fill(words, inWords(known?.values));
  const sentence = knownSentence(reason);
  return ((sentence && sentenceOf(sentence.code, sentence.values)) ?? reason).replace(/\.$/, "");
}

/** What fills the gaps, in the reader's language where it is made of words. */
function inWords(values: Problem["values"] = {}): Readonly<Record<string, string>> {
  const { fields, parts } = texts().problems;
  const { names } = texts().dns.quotas;
  const { field, part, reason, quota } = values;
  return {
    ...values,
    ...(field === undefined ? {} : { field: (fields as Readonly<Record<string, string>>)[field] ?? field }),
    ...(part === undefined ? {} : { part: (parts as Readonly<Record<string, string>>)[part] ?? part }),
    ...(quota === undefined ? {} : { quota: (names as Readonly<Record<string, string>>)[quota] ?? quota }),
    ...(reason === undefined ? {} : { reason: describeReason(reason) }),
  };
}

function fill(sentence: string, values: Readonly<Record<string, string>>): string {
  return sentence.replace(/\{(\w+)\}/g, (gap, name: string) => values[name] ?? gap);
}

function capitalise(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1).replace(/\.$/, "");
}
