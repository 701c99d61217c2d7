import { NSEC3_PARAMETERS, ZONE, zoneWord } from "../zone-database/layout.ts";
import { LookupName } from "../zone-database/lookup-name.ts";
import type { MemorySegment } from "../zone-database/memory.ts";

const BLOCK_OCTETS = 64;
const DIGEST_OCTETS = 20;
/** A digest in base 32. */
const HASH_OCTETS = 32;
/** Names and salts have up to 255 octets; the padding takes at least 9. */
const MAX_INPUT_OCTETS = 9 * BLOCK_OCTETS;
/** RFC 4648 §7, in lower case. */
const BASE32HEX = Buffer.from("0123456789abcdefghijklmnopqrstuv");

/**
 * Hashed owner names (RFC 5155 §5): SHA-1 over a name and the salt, again over the digest and the salt for each
 * iteration. It works on octets of its own, where node:crypto would make objects: a denial needs three of them.
 */
export class Nsec3Hash {
  /** The last hash as the label that it is in an owner name, below an apex that begins at label 1. */
  readonly name = new LookupName();
  readonly #input = new Uint8Array(MAX_INPUT_OCTETS);
  readonly #schedule = new Int32Array(80);
  readonly #state = new Int32Array(5);
  /** Made when it is first wanted: servers without such zones do without. */
  #known: KnownHashes | undefined;

  constructor() {
    this.name.octets[0] = HASH_OCTETS;
    this.name.labelCount = 1;
    this.name.length = HASH_OCTETS + 2;
  }

  /** Hashes the name that begins at a label, as a zone does that has NSEC3 records. */
  hash({ words, octets }: MemorySegment, zone: number, name: LookupName, label: number): void {
    const parameters = words[zoneWord(zone) + ZONE.DENIAL]!;
    const input = this.#input;
    const salt = parameters + NSEC3_PARAMETERS.SALT * 4;
    const saltOctets = words[(parameters >> 2) + NSEC3_PARAMETERS.SALT_OCTETS]!;
    const start = name.startOf(label);
    let length = name.length - start;
    for (let index = 0; index < length; index += 1) input[index] = name.octets[start + index]!;
    for (let left = words[(parameters >> 2) + NSEC3_PARAMETERS.ITERATIONS]!; ; left -= 1) {
      for (let index = 0; index < saltOctets; index += 1) input[length + index] = octets[salt + index]!;
      this.#digest(length + saltOctets);
      if (left === 0) break;
      this.#putDigest();
      length = DIGEST_OCTETS;
    }
    this.#putDigest();
    this.#encode();
  }

  /** As `hash`, for a name that is likely to be asked for again: one that exists, or a wildcard below it. */
  hashKnown(segment: MemorySegment, zone: number, name: LookupName, label: number): void {
    this.#known ??= new KnownHashes();
    const seed = segment.words[zoneWord(zone) + ZONE.SEED]!;
    if (this.#known.read(seed, name, label, this.name.octets)) return;
    this.hash(segment, zone, name, label);
    this.#known.keep(this.name.octets);
  }

  /** SHA-1 (FIPS 180-4 §6.1) over the first octets of the input, into the state. */
  #digest(length: number): void {
    const input = this.#input;
    const end = (length + 9 + BLOCK_OCTETS - 1) & -BLOCK_OCTETS;
    input[length] = 0x80;
    for (let index = length + 1; index < end; index += 1) input[index] = 0;
    input[end - 2] = (length * 8) >>> 8;
    input[end - 1] = length * 8;
    this.#state[0] = 0x67452301;
    this.#state[1] = 0xefcdab89;
    this.#state[2] = 0x98badcfe;
    this.#state[3] = 0x10325476;
    this.#state[4] = 0xc3d2e1f0;
    for (let block = 0; block < end; block += BLOCK_OCTETS) this.#digestBlock(block);
  }

  #digestBlock(start: number): void {
    const w = this.#schedule;
    const state = this.#state;
    this.#fillSchedule(start);
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    // One loop for each of the four functions: a choice in every round would take twice the time.
    let t = 0;
    for (; t < 20; t += 1) {
      const next = (((a << 5) | (a >>> 27)) + (d ^ (b & (c ^ d))) + e + 0x5a827999 + w[t]!) | 0;
      e = d;
      d = c;
      c = (b << 30) | (b >>> 2);
      b = a;
      a = next;
    }
    for (; t < 40; t += 1) {
      const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0x6ed9eba1 + w[t]!) | 0;
      e = d;
      d = c;
      c = (b << 30) | (b >>> 2);
      b = a;
      a = next;
    }
    for (; t < 60; t += 1) {
      const next = (((a << 5) | (a >>> 27)) + ((b & c) | (d & (b | c))) + e - 0x70e44324 + w[t]!) | 0;
      e = d;
      d = c;
      c = (b << 30) | (b >>> 2);
      b = a;
      a = next;
    }
    for (; t < 80; t += 1) {
      const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e - 0x359d3e2a + w[t]!) | 0;
      e = d;
      d = c;
      c = (b << 30) | (b >>> 2);
      b = a;
      a = next;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
  }

  #fillSchedule(start: number): void {
    const w = this.#schedule;
    const input = this.#input;
    for (let t = 0; t < 16; t += 1) {
      const at = start + t * 4;
      w[t] = (input[at]! << 24) | (input[at + 1]! << 16) | (input[at + 2]! << 8) | input[at + 3]!;
    }
    for (let t = 16; t < 80; t += 1) {
      const word = w[t - 3]! ^ w[t - 8]! ^ w[t - 14]! ^ w[t - 16]!;
      w[t] = (word << 1) | (word >>> 31);
    }
  }

  /** The state as octets, at the input's start. */
  #putDigest(): void {
    for (let index = 0; index < DIGEST_OCTETS; index += 1) {
      this.#input[index] = this.#state[index >> 2]! >>> (24 - (index & 3) * 8);
    }
  }

  /** The digest in the input as 32 characters, five bits each, in the name's only label. */
  #encode(): void {
    const input = this.#input;
    let bits = 0;
    let bitCount = 0;
    let position = 1;
    for (let index = 0; index < DIGEST_OCTETS; index += 1) {
      bits = ((bits << 8) | input[index]!) & 0xfff;
      for (bitCount += 8; bitCount >= 5; position += 1) {
        bitCount -= 5;
        this.name.octets[position] = BASE32HEX[(bits >> bitCount) & 31]!;
      }
    }
  }
}

const KNOWN_SLOTS = 1_024;
/** Of a slot: the hash, then the name. */
const SLOT_OCTETS = HASH_OCTETS + 256;

/** Hashes of names of zones, each slot that of the last name that fell on it. A zone made anew has another seed. */
class KnownHashes {
  readonly #seeds = new Int32Array(KNOWN_SLOTS);
  readonly #octets = new Uint8Array(KNOWN_SLOTS * SLOT_OCTETS);
  #slot = 0;

  /** Copies the hash of a name behind a label's length octet; if it is not known, its slot is the name's from now on. */
  read(seed: number, name: LookupName, label: number, text: Uint8Array): boolean {
    const start = name.startOf(label);
    const length = name.length - start;
    let place = seed;
    for (let index = 0; index < length; index += 1) place = (Math.imul(place, 31) + name.octets[start + index]!) | 0;
    this.#slot = (place ^ (place >>> 10)) & (KNOWN_SLOTS - 1);
    const slot = this.#slot * SLOT_OCTETS;
    let isKnown = this.#seeds[this.#slot] === seed;
    // The root octet ends a name, so that none is the beginning of another.
    for (let index = 0; index < length && isKnown; index += 1) {
      isKnown = this.#octets[slot + HASH_OCTETS + index] === name.octets[start + index];
    }
    if (isKnown) {
      for (let index = 0; index < HASH_OCTETS; index += 1) text[1 + index] = this.#octets[slot + index]!;
    } else {
      this.#seeds[this.#slot] = seed;
      for (let index = 0; index < length; index += 1) {
        this.#octets[slot + HASH_OCTETS + index] = name.octets[start + index]!;
      }
    }
    return isKnown;
  }

  /** Keeps the hash of the name that `read` did not know. */
  keep(text: Uint8Array): void {
    const slot = this.#slot * SLOT_OCTETS;
    for (let index = 0; index < HASH_OCTETS; index += 1) this.#octets[slot + index] = text[1 + index]!;
  }
}
