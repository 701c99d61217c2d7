/** CRLF . CRLF, and nothing else, ends a message (RFC 5321 §4.1.1.4). */
const END = Buffer.from("\r\n.\r\n");

/** Finds where a message ends that comes in pieces. */
export class MessageEnd {
  /** The last octets of the piece before; the line of the DATA command ended in CRLF. */
  #tail: Buffer = END.subarray(0, 2);

  /** @returns how many octets of the piece are the message's, its final dot included; undefined while it goes on */
  find(piece: Buffer): number | undefined {
    const longestTail = END.length - 1;
    const seam = Buffer.concat([this.#tail, piece.subarray(0, longestTail)]);
    const atSeam = seam.indexOf(END);
    if (atSeam >= 0) return atSeam + END.length - this.#tail.length;
    const at = piece.indexOf(END);
    if (at >= 0) return at + END.length;
    this.#tail = (piece.length < longestTail ? seam : piece).subarray(-longestTail);
    return undefined;
  }
}
