/**
 * SipHash-2-4 with a 64-bit result, on 32-bit halves. Holds its state, so that hashing allocates nothing.
 * @see https://www.aumasson.jp/siphash/siphash.pdf, RFC 9018 §4.4
 */
export class SipHash24 {
  readonly #key: Int32Array;
  /** v0 to v3, each low half then high half. */
  readonly #v = new Int32Array(8);

  /** @param key 16 octets */
  constructor(key: Uint8Array) {
    if (key.length !== 16) throw new RangeError(`a SipHash key has 16 octets, not ${key.length}`);
    const view = new DataView(key.buffer, key.byteOffset, 16);
    this.#key = Int32Array.from([0, 4, 8, 12], (offset) => view.getInt32(offset, true));
  }

  /** Hashes the octets in [start, end) and writes the result, least octet first, at `to`. */
  hash(octets: Uint8Array, range: { start: number; end: number }, out: Uint8Array, to: number): void {
    const v = this.#v;
    const [k0, k1, k2, k3] = this.#key;
    v[0] = k0! ^ 0x70736575;
    v[1] = k1! ^ 0x736f6d65;
    v[2] = k2! ^ 0x6e646f6d;
    v[3] = k3! ^ 0x646f7261;
    v[4] = k0! ^ 0x6e657261;
    v[5] = k1! ^ 0x6c796765;
    v[6] = k2! ^ 0x79746573;
    v[7] = k3! ^ 0x74656462;
    const length = range.end - range.start;
    let position = range.start;
    for (; position + 8 <= range.end; position += 8)
      this.#absorb(word(octets, position, 4), word(octets, position + 4, 4));
    const rest = range.end - position;
    const low = word(octets, position, Math.min(rest, 4));
    this.#absorb(low, word(octets, position + 4, Math.max(rest - 4, 0)) | (length << 24));
    v[4]! ^= 0xff;
    for (let round = 0; round < 4; round += 1) this.#round();
    const resultLow = v[0]! ^ v[2]! ^ v[4]! ^ v[6]!;
    const resultHigh = v[1]! ^ v[3]! ^ v[5]! ^ v[7]!;
    for (let index = 0; index < 4; index += 1) {
      out[to + index] = resultLow >>> (8 * index);
      out[to + 4 + index] = resultHigh >>> (8 * index);
    }
  }

  #absorb(low: number, high: number): void {
    const v = this.#v;
    v[6]! ^= low;
    v[7]! ^= high;
    this.#round();
    this.#round();
    v[0]! ^= low;
    v[1]! ^= high;
  }

  #round(): void {
    const v = this.#v;
    add(v, 0, 2);
    rotateXor(v, 2, 13, 0);
    swap(v, 0);
    add(v, 4, 6);
    rotateXor(v, 6, 16, 4);
    add(v, 0, 6);
    rotateXor(v, 6, 21, 0);
    add(v, 4, 2);
    rotateXor(v, 2, 17, 4);
    swap(v, 4);
  }
}

/** Up to four octets as a word, least octet first. */
function word(octets: Uint8Array, start: number, count: number): number {
  let value = 0;
  for (let index = 0; index < count; index += 1) value |= octets[start + index]! << (8 * index);
  return value;
}

/** v[a] += v[b], 64 bits wide. */
function add(v: Int32Array, a: number, b: number): void {
  const low = (v[a]! >>> 0) + (v[b]! >>> 0);
  v[a] = low;
  v[a + 1] = v[a + 1]! + v[b + 1]! + (low > 0xffffffff ? 1 : 0);
}

/** v[a] = rotateLeft(v[a], bits) ^ v[b], for fewer than 32 bits. */
function rotateXor(v: Int32Array, a: number, bits: number, b: number): void {
  const low = v[a]!;
  const high = v[a + 1]!;
  v[a] = ((low << bits) | (high >>> (32 - bits))) ^ v[b]!;
  v[a + 1] = ((high << bits) | (low >>> (32 - bits))) ^ v[b + 1]!;
}

/** A rotation by 32 bits. */
function swap(v: Int32Array, a: number): void {
  const low = v[a]!;
  v[a] = v[a + 1]!;
  v[a + 1] = low;
}
