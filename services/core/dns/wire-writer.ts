import type { DomainName } from "./name.ts";

/** Compression pointers hold 14 bits (RFC 1035 §4.1.4). */
const MAX_POINTER_TARGET = 0x3fff;
const POINTER_MARK = 0xc000;

/**
 * Builds a message or part of one in a growing buffer, all numbers big-endian. Names may be compressed against
 * those written before, ASCII case aside.
 */
export class WireWriter {
  /** Octets written so far. */
  length = 0;
  #octets: Buffer;
  /** Where each suffix stands, by its key. */
  #targets: Map<string, number> | undefined;

  /** @param capacityOctets how much room to set aside at first */
  constructor(capacityOctets = 512) {
    this.#octets = Buffer.allocUnsafe(capacityOctets);
  }

  u8(value: number): void {
    this.#reserve(1);
    this.#octets[this.length] = value;
    this.length += 1;
  }

  u16(value: number): void {
    this.#reserve(2);
    this.#octets.writeUInt16BE(value, this.length);
    this.length += 2;
  }

  u32(value: number): void {
    this.#reserve(4);
    this.#octets.writeUInt32BE(value, this.length);
    this.length += 4;
  }

  /** 48 bits, as TSIG has its times. */
  u48(value: number): void {
    this.#reserve(6);
    this.#octets.writeUIntBE(value, this.length, 6);
    this.length += 6;
  }

  bytes(octets: Uint8Array): void {
    this.#reserve(octets.length);
    this.#octets.set(octets, this.length);
    this.length += octets.length;
  }

  /** A name in full, and no target for later ones. */
  uncompressedName(name: DomainName): void {
    this.bytes(name.wire);
  }

  /**
   * A name as its longest suffix written before allows; what is new becomes a target for later names, as far as
   * a pointer reaches (RFC 1035 §4.1.4).
   */
  compressedName(name: DomainName): void {
    const { wire, key } = name;
    this.#targets ??= new Map();
    let position = 0;
    while (wire[position]! > 0) {
      const suffix = position === 0 ? key : key.slice(position);
      const target = this.#targets.get(suffix);
      if (target !== undefined) {
        this.u16(POINTER_MARK | target);
        return;
      }
      if (this.length <= MAX_POINTER_TARGET) this.#targets.set(suffix, this.length);
      const end = position + wire[position]! + 1;
      this.bytes(wire.subarray(position, end));
      position = end;
    }
    this.u8(0);
  }

  /** Overwrites two octets written before, such as a count or a length. */
  patchU16(offset: number, value: number): void {
    this.#octets.writeUInt16BE(value, offset);
  }

  /** Forgets all that was written from `length` on, targets included: for a record that does not fit. */
  truncate(length: number): void {
    this.length = length;
    for (const [suffix, target] of this.#targets ?? []) {
      if (target >= length) this.#targets?.delete(suffix);
    }
  }

  /** A copy of the octets written. */
  finish(): Uint8Array {
    const octets = new Uint8Array(this.length);
    octets.set(this.#octets.subarray(0, this.length));
    return octets;
  }

  #reserve(extra: number): void {
    const needed = this.length + extra;
    if (needed <= this.#octets.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#octets.length * 2));
    this.#octets.copy(grown, 0, 0, this.length);
    this.#octets = grown;
  }
}
