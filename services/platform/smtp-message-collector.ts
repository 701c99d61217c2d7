import type { SMTPServerDataStream } from "smtp-server";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../core/result.ts";

/** A message in memory; `release` gives its share of the memory back. */
export interface CollectedMessage {
  readonly octets: Buffer;
  release(): void;
}

/** All messages that are being received at once may hold this much memory. */
const MEMORY_OCTETS = 512 * 1024 * 1024;
/** A client that goes on this far beyond the limit does not listen; its connection is cut. */
const PATIENCE_FACTOR = 4;

const CR = 0x0d;
const LF = 0x0a;

/** Reads the DATA of every session of a listener, within the message limit and a limit on memory for all together. */
export class MessageCollector {
  readonly #maxMessageOctets: number;
  readonly #lines: "strict" | "as-they-are";
  #heldOctets = 0;

  /** @param lines `strict` refuses bare CR and LF, and NUL; what comes back from elsewhere may be read as it is */
  constructor(maxMessageOctets: number, lines: "strict" | "as-they-are") {
    this.#maxMessageOctets = maxMessageOctets;
    this.#lines = lines;
  }

  /** Reads to the end whatever comes, so that the dialogue can go on; rejects when the client goes away. */
  async collect(stream: SMTPServerDataStream): Promise<Result<CollectedMessage, SmtpReply>> {
    const chunks: Buffer[] = [];
    let held = 0;
    let problem: SmtpReply | undefined;
    const lineEnds = this.#lines === "strict" ? new LineEndCheck() : undefined;
    const release = () => {
      this.#heldOctets -= held;
      held = 0;
    };
    try {
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        if (stream.byteLength > PATIENCE_FACTOR * this.#maxMessageOctets) throw new Error("message without end");
        if (stream.byteLength > this.#maxMessageOctets) problem = TOO_BIG;
        else if (this.#heldOctets + chunk.length > MEMORY_OCTETS) problem ??= NO_ROOM;
        problem ??= lineEnds?.read(chunk);
        if (problem) {
          chunks.length = 0;
          release();
        } else {
          chunks.push(chunk);
          held += chunk.length;
          this.#heldOctets += chunk.length;
        }
      }
    } catch (error) {
      release();
      throw error;
    }
    problem ??= lineEnds?.end();
    if (!problem) return ok({ octets: Buffer.concat(chunks), release });
    release();
    return refuse(problem);
  }
}

const TOO_BIG: SmtpReply = { code: 552, enhancedStatus: "5.3.4", lines: ["message exceeds the size limit"] };
const NO_ROOM: SmtpReply = { code: 452, enhancedStatus: "4.3.1", lines: ["insufficient storage, try again later"] };
const BARE_LINE_END: SmtpReply = {
  code: 550,
  enhancedStatus: "5.6.11",
  lines: ["lines must end in CRLF: the message has a bare CR or LF"],
};
const HAS_NUL: SmtpReply = { code: 550, enhancedStatus: "5.6.0", lines: ["the message contains NUL"] };

/** CR and LF only as a pair, and no NUL (RFC 5321 §2.3.8, §4.1.1.4): what relays disagree on smuggles messages. */
class LineEndCheck {
  #previousWasCr = false;

  read(chunk: Buffer): SmtpReply | undefined {
    if (chunk.includes(0)) return HAS_NUL;
    let position = 0;
    if (this.#previousWasCr && chunk[0] !== LF) return BARE_LINE_END;
    for (let lf = chunk.indexOf(LF); lf !== -1; lf = chunk.indexOf(LF, lf + 1)) {
      const crBefore = lf > 0 ? chunk[lf - 1] === CR : this.#previousWasCr;
      if (!crBefore) return BARE_LINE_END;
    }
    for (position = chunk.indexOf(CR); position !== -1; position = chunk.indexOf(CR, position + 1)) {
      if (position + 1 < chunk.length && chunk[position + 1] !== LF) return BARE_LINE_END;
    }
    if (chunk.length > 0) this.#previousWasCr = chunk.at(-1) === CR;
    return undefined;
  }

  end(): SmtpReply | undefined {
    return this.#previousWasCr ? BARE_LINE_END : undefined;
  }
}
