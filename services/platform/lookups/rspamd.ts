import { request } from "undici";
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
  symbols: z.record(z.string(), z.object({ score: z.number().default(0) })).default({}),
});

/** So many recipients tell enough of a message. */
const MOST_RECIPIENTS = 20;
const MOST_SYMBOLS = 100;
const MOST_ANSWER_OCTETS = 2 ** 20;

/**
 * Has rspamd look at a message, with whatever it asks in its turn (ClamAV).
 * @see https://docs.rspamd.com/developers/protocol: `POST /checkv2`
 * @throws when it is away, too slow, or answers what is no answer
 */
export async function scanByRspamd(url: string, message: ScannedMessage, timeoutMs: number): Promise<ContentScan> {
  const { statusCode, body } = await request(`${url}/checkv2`, {
    method: "POST",
    headers: {
      From: headerValue(message.mailFrom),
      Rcpt: message.recipients.slice(0, MOST_RECIPIENTS).map(headerValue),
      User: headerValue(message.user),
      ...(message.clientAddress === "" ? {} : { IP: headerValue(message.clientAddress) }),
    },
    body: message.octets,
    signal: AbortSignal.timeout(timeoutMs),
  });
  const chunks: Buffer[] = [];
  let octets = 0;
  for await (const chunk of body) {
    octets += chunk.length;
    if (octets > MOST_ANSWER_OCTETS) throw new Error("rspamd's answer is too long");
    chunks.push(chunk);
  }
  if (statusCode !== 200) throw new Error(`rspamd answers with status ${statusCode}`);
  const { score, action, symbols } = answer.parse(JSON.parse(Buffer.concat(chunks).toString("utf8")));
  const found = Object.entries(symbols)
    .sort(([, a], [, b]) => Math.abs(b.score) - Math.abs(a.score))
    .slice(0, MOST_SYMBOLS);
  return {
    score,
    rejected: action === "reject",
    symbols: Object.fromEntries(found.map(([name, symbol]) => [name, symbol.score])),
  };
}

/** Addresses may be beyond ASCII; no value may hold a line. */
function headerValue(text: string): string {
  return Buffer.from(text.replace(/[\x00-\x1f\x7f]+/g, " "), "utf8").toString("latin1");
}
