/**
 * Hash of a name one label at a time, from the apex or the root down: the hash of a name is that of its first label
 * under its parent's hash, so that a walk down the tree gets every ancestor's hash on the way.
 *
 * HalfSipHash-1-3 over the parent's hash and the label: keyed, so that nobody can choose names that collide.
 * @param octets a name in lower case
 * @param start offset of the label's length octet
 * @see https://www.aumasson.jp/siphash/siphash.pdf
 */
export function hashLabel(key0: number, key1: number, parentHash: number, octets: Uint8Array, start: number): number {
  const length = octets[start]!;
  let v0 = key0;
  let v1 = key1;
  let v2 = 0x6c796765 ^ key0;
  let v3 = 0x74656462 ^ key1;
  let position = start + 1;
  const whole = length >> 2;
  // The parent's hash, the label's whole words, the rest of it with the length, then three rounds to finish.
  const rounds = whole + 5;
  for (let round = 0; round < rounds; round += 1) {
    let word = 0;
    if (round === 0) {
      word = parentHash;
    } else if (round <= whole) {
      word =
        octets[position]! |
        (octets[position + 1]! << 8) |
        (octets[position + 2]! << 16) |
        (octets[position + 3]! << 24);
      position += 4;
    } else if (round === whole + 1) {
      word = length << 24;
      const rest = length & 3;
      if (rest > 0) word |= octets[position]!;
      if (rest > 1) word |= octets[position + 1]! << 8;
      if (rest > 2) word |= octets[position + 2]! << 16;
    } else if (round === whole + 2) {
      v2 ^= 0xff;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = (v1 << 5) | (v1 >>> 27);
    v1 ^= v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = (v3 << 8) | (v3 >>> 24);
    v3 ^= v2;
    v0 = (v0 + v3) | 0;
    v3 = (v3 << 7) | (v3 >>> 25);
    v3 ^= v0;
    v2 = (v2 + v1) | 0;
    v1 = (v1 << 13) | (v1 >>> 19);
    v1 ^= v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return v1 ^ v3;
}
