import type { SMTPServerDataStream } from "smtp-server";
import { Counts } from "../../core/counts.ts";
import type { SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

/** A message in memory; `release` gives its share of the memory back. */
export interface CollectedMessage {
  readonly octets: Buffer;
  release(): void;
}

/** Memory for all messages that are being received at once, blocks that are not full yet included. */
const MEMORY_OCTETS = 384 * 1024 * 1024;
/** Memory for those of one holder; a single message may take more. */
const SHARE_OCTETS = MEMORY_OCTETS / 6;

/** How much of one message is taken. Octets, as they came. */
export interface MessageSize {
  /** A message of more is refused. */
  readonly mostOctets: number;
  /** What lies beyond is read and not kept. */
  readonly keptOctets: number;
}

/** A client that goes on this far beyond the limit does not listen; its message is refused before its end. */
const PATIENCE_FACTOR = 4;

const CR = 0x0d;
const LF = 0x0a;

/**
 * Reads the DATA of every session of a service, within message limits, a limit on memory for all together, and a share of it
 * for each holder, so that whoever sends slowly in many sessions leaves room to others.
 */
export class MessageCollector {
  readonly #lines: "strict" | "as-they-are";
  #heldOctets = 0;
  readonly #heldBy = new Counts<string>();

  /** @param lines `strict` refuses bare CR and LF, and NUL; what comes back from elsewhere may be read as it is */
  constructor(lines: "strict" | "as-they-are") {
    this.#lines = lines;
  }

  /**
   * Reads on when a message is refused, so that the dialogue can go on, up to a multiple of its limit; rejects when the
   * client goes away.
   * @param holder whose share of the memory the message takes
   * @returns the message, or the reply that refuses it
   */
  async collect(
    stream: SMTPServerDataStream,
    { mostOctets, keptOctets }: MessageSize,
    holder: string,
  ): Promise<Result<CollectedMessage, SmtpReply>> {
    const message = new OctetBlocks(keptOctets);
    let held = 0;
    let problem: SmtpReply | undefined;
    const lineEnds = this.#lines === "strict" ? new LineEndCheck() : undefined;
    const share = Math.max(SHARE_OCTETS, keptOctets);
    const hold = (octets: number) => {
      held += octets;
      this.#heldOctets += octets;
      this.#heldBy.add(holder, octets);
    };
    const release = () => hold(-held);
    try {
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        if (stream.byteLength > PATIENCE_FACTOR * mostOctets) {
          release();
          return refuse(TOO_BIG);
        }
        const growth = message.growthFor(chunk);
        if (stream.byteLength > mostOctets) problem = TOO_BIG;
        else if (this.#heldOctets + growth > MEMORY_OCTETS || this.#heldBy.of(holder) + growth > share) {
          problem ??= NO_ROOM;
        }
        problem ??= lineEnds?.read(chunk);
        if (problem) {
          message.clear();
          release();
        } else {
          hold(growth);
          message.append(chunk);
        }
      }
    } catch (error) {
      release();
      throw error;
    }
    problem ??= lineEnds?.end();
    if (problem) {
      release();
      return refuse(problem);
    }
    const octets = message.toBuffer();
    hold(octets.length - held);
    return ok({ octets, release });
  }
}

const BLOCK_OCTETS = 64 * 1024;

/**
 * The first octets of what comes in pieces, in blocks: a piece kept as it is takes some hundred octets beside its own,
 * and smtp-server makes one of each line that begins with a dot.
 */
class OctetBlocks {
  readonly #mostOctets: number;
  #blocks: Buffer[] = [];
  /** The block that is being filled, and how far. */
  #last: Buffer = NOTHING;
  #filled = 0;
  #capacity = 0;

  constructor(mostOctets: number) {
    this.#mostOctets = mostOctets;
  }

  /** How many octets of memory the piece takes beyond those that are taken. */
  growthFor(piece: Buffer): number {
    const missing = piece.length - (this.#last.length - this.#filled);
    const blocks = Math.ceil(Math.max(0, missing) / BLOCK_OCTETS);
    return Math.min(blocks * BLOCK_OCTETS, this.#mostOctets - this.#capacity);
  }

  append(piece: Buffer): void {
    const growth = this.growthFor(piece);
    const fitting = piece.copy(this.#last, this.#filled);
    this.#filled += fitting;
    if (growth === 0) return;
    this.#last = Buffer.allocUnsafeSlow(growth);
    this.#blocks.push(this.#last);
    this.#capacity += growth;
    this.#filled = piece.copy(this.#last, 0, fitting);
  }

  clear(): void {
    this.#blocks = [];
    this.#last = NOTHING;
    this.#filled = 0;
    this.#capacity = 0;
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#blocks, this.#capacity - (this.#last.length - this.#filled));
  }
}

const NOTHING = Buffer.alloc(0);
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
