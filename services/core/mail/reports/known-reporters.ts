import { createRequire } from "node:module";
import { headerValue, parseHeaders } from "../bounce/mime.ts";

/** A receiver that many send to, by what its reports come from. */
export interface KnownReporter {
  readonly name: string;
  /** In the From field of its reports, in lower case. */
  readonly address: string;
  /** That signs them, or a name below it does. */
  readonly domain: string;
  /** What public material says of it, for whoever judges the entry. */
  readonly found: string;
}

const KNOWN: readonly KnownReporter[] = createRequire(import.meta.url)("#config/known-reporters.json");

/** What they are called. */
export const KNOWN_REPORTERS: readonly string[] = KNOWN.map(({ name }) => name);

/** Of a message: its header has to end within. */
const MOST_HEADER_OCTETS = 64 * 2 ** 10;
/** Each one costs look-ups and a pass over the message. */
const MOST_SIGNATURES = 5;

/**
 * The reporter that a message claims to come from, by its only From field. A message whose signatures leave a part of its body
 * unsigned (RFC 6376 §8.2), or that has more of them than reports have, claims nothing.
 */
export function claimedReporter(message: Buffer): KnownReporter | undefined {
  const head = message.subarray(0, MOST_HEADER_OCTETS).toString("latin1");
  const end = head.search(/\r?\n\r?\n/);
  if (end === -1) return undefined;
  const headers = parseHeaders(head.slice(0, end));
  const signatures = headers.filter(({ name }) => name === "dkim-signature");
  const isWhole = signatures.every(({ value }) => !/;\s*l\s*=/i.test(value));
  const hasOneFrom = headers.filter(({ name }) => name === "from").length === 1;
  if (!hasOneFrom || !isWhole || signatures.length === 0 || signatures.length > MOST_SIGNATURES) return undefined;
  const from = headerValue({ headers }, "from").toLowerCase();
  const address = /^(?:[^<>]*<)?([^<>\s]+@[^<>\s]+?)>?$/.exec(from)?.[1];
  return KNOWN.find((known) => known.address === address);
}
