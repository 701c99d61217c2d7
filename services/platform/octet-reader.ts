/** Takes pieces of chosen lengths from octets that come in pieces of any length; holds what it is asked for and no more. */
export class OctetReader {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The next octets, which stay where they are; fewer at the end. */
  async peek(octets: number): Promise<Buffer> {
    const pieces = [this.#held];
    let held = this.#held.length;
    while (held < octets) {
      const { value, done } = await this.#source.next();
      if (done) break;
      pieces.push(value);
      held += value.length;
    }
    if (pieces.length > 1) this.#held = Buffer.concat(pieces, held);
    return this.#held.subarray(0, octets);
  }

  /** The next octets; undefined when there are fewer left. */
  async read(octets: number): Promise<Buffer | undefined> {
    const taken = await this.peek(octets);
    if (taken.length < octets) return undefined;
    this.#held = this.#held.subarray(octets);
    return taken;
  }

  async isAtEnd(): Promise<boolean> {
    return (await this.peek(1)).length === 0;
  }

  /** What is left, as it comes. */
  async *rest(): AsyncGenerator<Buffer> {
    if (this.#held.length > 0) yield this.#held;
    this.#held = Buffer.alloc(0);
    for (let next = await this.#source.next(); !next.done; next = await this.#source.next()) yield next.value;
  }
}
