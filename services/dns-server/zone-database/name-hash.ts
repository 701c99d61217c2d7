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
  const tail = position + (length & ~3);
  let word = parentHash;
  // The parent's hash, the label's whole words, the rest of it with the length, then three rounds to finish.
  for (let left = 5; left > 0; ) {
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
    if (position < tail) {
      word =
        octets[position]! |
        (octets[position + 1]! << 8) |
        (octets[position + 2]! << 16) |
        (octets[position + 3]! << 24);
      position += 4;
      continue;
    }
    left -= 1;
    if (left === 4) word = lastWord(octets, position, length);
    else {
      word = 0;
      if (left === 3) v2 ^= 0xff;
    }
  }
  return v1 ^ v3;
}

/** What a label's whole words leave, with its length in the high octet. */
function lastWord(octets: Uint8Array, position: number, length: number): number {
  const rest = length & 3;
  let word = length << 24;
  if (rest > 0) word |= octets[position]!;
  if (rest > 1) word |= octets[position + 1]! << 8;
  if (rest > 2) word |= octets[position + 2]! << 16;
  return word;
}
