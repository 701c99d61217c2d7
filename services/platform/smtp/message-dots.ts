/** CRLF . CRLF, and nothing else, ends a message (RFC 5321 §4.1.1.4). */
const END = Buffer.from("\r\n.\r\n");
/** What may be the beginning of the end. */
const BEGINNINGS = [4, 3, 2, 1].map((length) => END.subarray(0, length));
const LINE_DOT = END.subarray(0, 3);
const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;

/** What a piece of a message comes to. */
export interface ReadPiece {
  /** What the library gets of it, and of what was held back before. */
  readonly octets: Buffer;
  /** How many octets of the piece are the message's, its final dot included. */
  readonly taken: number;
  readonly isEnd: boolean;
}

/**
 * Reads a message that comes in pieces by the dots that begin its lines. One alone ends it; one in front of anything but
 * another dot is taken away (RFC 5321 §4.5.2): the library does that with the first of two dots only. A few octets are
 * held back until it is known what they are.
 */
export class MessageDots {
  /** The line of the DATA command ended in CRLF, which is none of the message. */
  #held: Buffer = END.subarray(0, 2);
  /** How many of the octets that are held back are none of the message. */
  #foreign = 2;

  read(piece: Buffer): ReadPiece {
    const text = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    const kept: Buffer[] = [];
    let from = this.#foreign;
    for (let at = text.indexOf(LINE_DOT); at >= 0; at = text.indexOf(LINE_DOT, at + LINE_DOT.length)) {
      const dot = at + 2;
      const [next, second] = [text[dot + 1], text[dot + 2]];
      if (next === CR && second === LF) {
        const end = at + END.length;
        return { octets: join(kept, text.subarray(from, end)), taken: end - this.#held.length, isEnd: true };
      }
      if (next === undefined || (next === CR && second === undefined)) break;
      if (next !== DOT) {
        kept.push(text.subarray(from, dot));
        from = dot + 1;
      }
    }
    const known = text.length - undecided(text);
    this.#held = text.subarray(known);
    this.#foreign = known === 0 ? this.#foreign : 0;
    return { octets: join(kept, text.subarray(from, Math.max(from, known))), taken: piece.length, isEnd: false };
  }
}

/** How many of the last octets of a text may be the beginning of its end. */
function undecided(text: Buffer): number {
  return BEGINNINGS.find((beginning) => text.subarray(-beginning.length).equals(beginning))?.length ?? 0;
}

function join(kept: readonly Buffer[], last: Buffer): Buffer {
  return kept.length === 0 ? last : Buffer.concat([...kept, last]);
}
