import { type MimePart, partsByDepth } from "./mime.ts";

/** What in a report may name a delivery of ours; nothing of it is verified. Each in the order in which it was found. */
export interface ReturnedTokens {
  /** Local parts of return paths. */
  readonly returnPaths: readonly string[];
  /** Tokens of unsubscribe URLs. */
  readonly unsubscribe: readonly string[];
}

/** A message of ours has its token a few times; whoever sends more of them wants them all to be computed. */
const MOST_CANDIDATES = 20;
const RETURN_PATH = /(?<![a-z\d+.])b\+[a-z2-7]{4,32}\.[a-z2-7]{24}(?![a-z\d])/gi;
const UNSUBSCRIBE_URL = /\/u\/([\w-]{23,80})(?![\w-])/g;

/**
 * Looks for tokens in the whole of a report: providers redact addresses, each in other fields, and leave what they do not
 * know. Fields of the header come before texts, the outer parts before the inner.
 * @param report the part that holds the report beside the returned message
 */
export function findReturnedTokens(report: MimePart): ReturnedTokens {
  const returnPaths = new Set<string>();
  const unsubscribe = new Set<string>();
  for (const text of textsOf(report)) {
    collect(returnPaths, text, RETURN_PATH, 0);
    collect(unsubscribe, text, UNSUBSCRIBE_URL, 1);
  }
  return { returnPaths: [...returnPaths], unsubscribe: [...unsubscribe] };
}

function* textsOf(report: MimePart): Generator<string> {
  const parts = [...partsByDepth(report)];
  for (const { headers } of parts) for (const { value } of headers) yield value;
  for (const { text } of parts) yield text;
}

function collect(found: Set<string>, text: string, pattern: RegExp, group: number): void {
  for (const match of text.matchAll(pattern)) {
    if (found.size >= MOST_CANDIDATES) return;
    found.add(match[group]!);
  }
}
