import type { Dispatcher } from "undici";
import { z } from "zod";
import type { ContentScan } from "../../core/mail/guard/content.ts";

/** A message as a filter is to see it. */
export interface ScannedMessage {
  readonly octets: Buffer;
  readonly mailFrom: string;
  readonly recipients: readonly string[];
  /** Who has logged in, or called. */
  readonly user: string;
  /** Where it came from; '' where that is not known. */
  readonly clientAddress: string;
}

const answer = z.object({
  score: z.number(),
  action: z.string(),
  symbols: z
    .record(
      z.string(),
      z.object({
        score: z.number().default(0),
        description: z.string().default(""),
        options: z.array(z.string()).default([]),
      }),
    )
    .default({}),
});

/** What rspamd makes of a message: its rules by name. */
export type RspamdAnswer = z.output<typeof answer>;

/** So many recipients tell enough of a message. */
const MOST_RECIPIENTS = 20;
const MOST_SYMBOLS = 100;
const MOST_ANSWER_OCTETS = 2 ** 20;

/** Has rspamd look at a message that is to be accepted, with whatever it asks in its turn (ClamAV). @throws as {@link askRspamd} */
export async function scanByRspamd(url: string, message: ScannedMessage, timeoutMs: number): Promise<ContentScan> {
  const { octets, mailFrom, recipients, user, clientAddress } = message;
  const headers = { From: mailFrom, Rcpt: recipients.slice(0, MOST_RECIPIENTS), User: user, IP: clientAddress };
  const { score, action, symbols } = await askRspamd(url, octets, { headers, timeoutMs });
  const found = Object.entries(symbols)
    .sort(([, a], [, b]) => Math.abs(b.score) - Math.abs(a.score))
    .slice(0, MOST_SYMBOLS);
  return {
    score,
    rejected: action === "reject",
    symbols: Object.fromEntries(found.map(([name, symbol]) => [name, symbol.score])),
  };
}

/**
 * Asks rspamd about a message.
 * @param options.headers what it is to know of the session; those that are empty are left out
 * @see https://docs.rspamd.com/developers/protocol: `POST /checkv2`
 * @throws when it is away, too slow, or answers what is no answer
 */
export async function askRspamd(
  url: string,
  octets: Buffer,
  options: {
    readonly headers: Readonly<Record<string, string | readonly string[]>>;
    readonly timeoutMs: number;
    /** Where it is reached otherwise than by its address. */
    readonly dispatcher?: Dispatcher;
  },
): Promise<RspamdAnswer> {
  const known = Object.entries(options.headers).filter(([, value]) => value !== "");
  const { request } = await import("undici");
  const { statusCode, body } = await request(`${url}/checkv2`, {
    method: "POST",
    headers: Object.fromEntries(known.map(([name, value]) => [name, headerValues(value)])),
    body: octets,
    signal: AbortSignal.timeout(options.timeoutMs),
    ...(options.dispatcher && { dispatcher: options.dispatcher }),
  });
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MOST_ANSWER_OCTETS) throw new Error("rspamd's answer is too long");
    chunks.push(chunk);
  }
  if (statusCode !== 200) throw new Error(`rspamd answers with status ${statusCode}`);
  return answer.parse(JSON.parse(Buffer.concat(chunks).toString("utf8")));
}

function headerValues(value: string | readonly string[]): string | string[] {
  return typeof value === "string" ? headerValue(value) : value.map(headerValue);
}

/** Addresses may be beyond ASCII; no value may hold a line. */
function headerValue(text: string): string {
  return Buffer.from(text.replace(/[\x00-\x1f\x7f]+/g, " "), "utf8").toString("latin1");
}
