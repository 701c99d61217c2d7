import { DomainName, MAX_LABEL_OCTETS, MAX_NAME_OCTETS, ROOT } from "./name.ts";

/** A name of 255 octets has 127 labels: no more pointers than that lead from one to the next. */
const MOST_POINTERS = 127;

/**
 * Reads a message from the front, all numbers big-endian. Past the end every read gives `undefined` and leaves the
 * reader where it was: hostile octets are refused, never thrown at.
 */
export class WireReader {
  /** The next octet to read. */
  offset: number;
  readonly #octets: Uint8Array;
  readonly #view: DataView;

  constructor(octets: Uint8Array, offset = 0) {
    this.#octets = octets;
    this.#view = new DataView(octets.buffer, octets.byteOffset, octets.length);
    this.offset = offset;
  }

  /** Octets not read yet. */
  get remaining(): number {
    return this.#octets.length - this.offset;
  }

  u8(): number | undefined {
    return this.remaining < 1 ? undefined : this.#view.getUint8(this.#advance(1));
  }

  u16(): number | undefined {
    return this.remaining < 2 ? undefined : this.#view.getUint16(this.#advance(2));
  }

  u32(): number | undefined {
    return this.remaining < 4 ? undefined : this.#view.getUint32(this.#advance(4));
  }

  /** 48 bits, as TSIG has its times. */
  u48(): number | undefined {
    if (this.remaining < 6) return undefined;
    const offset = this.#advance(6);
    return this.#view.getUint16(offset) * 2 ** 32 + this.#view.getUint32(offset + 2);
  }

  /** The next octets, a view and no copy. */
  bytes(length: number): Uint8Array | undefined {
    if (this.remaining < length) return undefined;
    const start = this.#advance(length);
    return this.#octets.subarray(start, start + length);
  }

  /**
   * A name, compressed or not. Each pointer must lead to before the run of labels it ends, so that no loop is
   * possible, and the whole must have at most 255 octets and 127 pointers; label types 01 and 10 are refused (RFC 6891 §5).
   * @see RFC 1035 §4.1.4
   */
  name(): DomainName | undefined {
    const octets = this.#octets;
    const runs: Uint8Array[] = [];
    let nameOctets = 1;
    let labelCount = 0;
    let pointers = 0;
    let runStart = this.offset;
    let position = runStart;
    let end: number | undefined;
    for (;;) {
      const length = octets[position];
      if (length === undefined) return undefined;
      if (length >= 0xc0) {
        const low = octets[position + 1];
        if (low === undefined) return undefined;
        const target = ((length & 0x3f) << 8) | low;
        pointers += 1;
        if (target >= runStart || pointers > MOST_POINTERS) return undefined;
        end ??= position + 2;
        if (position > runStart) runs.push(octets.subarray(runStart, position));
        runStart = target;
        position = target;
        continue;
      }
      if (length > MAX_LABEL_OCTETS) return undefined;
      if (length === 0) break;
      position += length + 1;
      nameOctets += length + 1;
      labelCount += 1;
      if (nameOctets > MAX_NAME_OCTETS || position > octets.length) return undefined;
    }
    runs.push(octets.subarray(runStart, position));
    this.offset = end ?? position + 1;
    if (labelCount === 0) return ROOT;
    const wire = new Uint8Array(nameOctets);
    let written = 0;
    for (const run of runs) {
      wire.set(run, written);
      written += run.length;
    }
    return new DomainName(wire, labelCount);
  }

  /** Goes past a name, and does not look at what a pointer leads to. @returns whether there is one */
  skipName(): boolean {
    const octets = this.#octets;
    for (let position = this.offset; ; ) {
      const length = octets[position];
      if (length === undefined || (length > MAX_LABEL_OCTETS && length < 0xc0)) return false;
      position += length >= 0xc0 ? 2 : length + 1;
      if (position > octets.length || position - this.offset > MAX_NAME_OCTETS + 1) return false;
      if (length > 0 && length < 0xc0) continue;
      this.offset = position;
      return true;
    }
  }

  #advance(length: number): number {
    const start = this.offset;
    this.offset += length;
    return start;
  }
}
