import type { BounceReason } from "./bounce/reason.ts";

/** The way that an attempt took, up to where it came; what is not known, or was not there, is the empty text. */
export interface AttemptPath {
  /** The mail exchanger's name. */
  readonly exchanger: string;
  /** Its address. */
  readonly address: string;
  /** The address of ours that it left from. */
  readonly source: string;
  /** `TLSv1.3`; empty in clear, and where no session came about before TLS was up. */
  readonly tls: string;
  readonly cipher: string;
  /** `valid`, `dane` where TLSA records vouch for it, or a code for what is wrong with it. */
  readonly certificate: string;
  /** What the destination demands of us, and was held to. */
  readonly policy: "" | "dane" | "mta-sts";
}

/** What was seen in one attempt, beside what became of the recipient. */
export interface AttemptFacts {
  /** When it ended, by the database's clock. */
  readonly endedAt: Date;
  /** For how long the far side and the DNS had the turn. */
  readonly durationMs: number;
  /** The step of the session that failed; empty where none did. */
  readonly stage: string;
  /** Reply code; 0 when nothing was replied. */
  readonly code: number;
  /** Enhanced status; empty when there was none. */
  readonly status: string;
  /** Why it was not delivered; empty when it was. */
  readonly reason: BounceReason | "";
  /** Undefined when there was nobody to turn to. */
  readonly path: AttemptPath | undefined;
}

/** Whether an attempt had a session, in which a message could be sent. @param stage that it failed at */
export function hadSession(path: AttemptPath | null, stage: string): boolean {
  return path !== null && !["connect", "ehlo", "starttls"].includes(stage);
}

const MOST_CHARACTERS = 200;
const LONGEST_WORD = 40;

/**
 * A reply without what differs from one recipient to the next: words with a digit or an address, and the recipient's
 * local part, become `*`. Code and enhanced status at its beginning stay.
 * @param words on one line
 * @param recipient the address that it is about
 */
export function generalWords(words: string, recipient: string): string {
  const [, head = "", rest = ""] = /^(\d{3}(?: \d\.\d{1,3}\.\d{1,3})?)?(.*)$/s.exec(words)!;
  const local = bare(recipient.slice(0, recipient.lastIndexOf("@")));
  const general = rest
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => (isParticular(word, local) ? "*" : word));
  const withoutRuns = general.filter((word, index) => word !== "*" || general[index - 1] !== "*");
  return [...[head, ...withoutRuns].filter((word) => word !== "").join(" ")].slice(0, MOST_CHARACTERS).join("");
}

function isParticular(word: string, local: string): boolean {
  return /[\d@]/.test(word) || word.length > LONGEST_WORD || (local !== "" && bare(word) === local);
}

/** Without the punctuation around it, in lower case. */
function bare(word: string): string {
  return word.toLowerCase().replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
}
