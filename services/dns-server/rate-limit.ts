import { type AddressBlock, knownAddressBlock } from "../core/dns/address-block.ts";
import type { Client } from "./message/client.ts";

/** What becomes of an answer. */
export const VERDICT = { SEND: 0, SLIP: 1, DROP: 2 } as const;

const BUCKET_BITS = 16;
/** Words of a bucket: key, second, answers in it. */
const BUCKET_WORDS = 4;
/** Every second answer over the limit goes out truncated, so that a real client can come back over TCP. */
const SLIP = 2;
/** Octets of an address that make its network: an IPv4 /24, an IPv6 /56. */
const NETWORK_OCTETS_V4 = 3;
const NETWORK_OCTETS_V6 = 7;

export interface RateLimitSettings {
  /** Equal answers per second for a client network; 0 for no limit. */
  readonly answersPerSecond: number;
  /** Blocks of clients that are never limited. */
  readonly allow: readonly string[];
  readonly limitLoopback: boolean;
  /** Random word, so that nobody can aim at another's bucket. */
  readonly seed: number;
  /** Shared by all threads; made by `createRateLimitTable`. */
  readonly table: SharedArrayBuffer;
}

export function createRateLimitTable(): SharedArrayBuffer {
  return new SharedArrayBuffer((1 << BUCKET_BITS) * BUCKET_WORDS * 4);
}

/**
 * Response rate limiting: a spoofed client's network gets so many equal answers a second and no more.
 * A bucket holds one key; another that falls on it takes it over, which errs on the side of answering.
 * @see https://kb.isc.org/docs/aa-01000
 */
export class RateLimit {
  readonly #settings: RateLimitSettings;
  readonly #words: Int32Array;
  readonly #allow: readonly AddressBlock[];

  constructor(settings: RateLimitSettings) {
    this.#settings = settings;
    this.#words = new Int32Array(settings.table);
    this.#allow = settings.allow.map(knownAddressBlock);
  }

  get isOn(): boolean {
    return this.#settings.answersPerSecond > 0;
  }

  /**
   * Counts an answer and says what becomes of it.
   * @param kind two words that equal answers share: what they are, and what they come from
   */
  judge(client: Client, kind: number, origin: number, nowSeconds: number): number {
    const key = this.#key(client, kind, origin);
    const bucket = (key >>> (32 - BUCKET_BITS)) * BUCKET_WORDS;
    const words = this.#words;
    // As a word has it, which from 2^31 s on (2038) is another number.
    const second = nowSeconds | 0;
    if (words[bucket] !== key || words[bucket + 1] !== second) {
      words[bucket] = key;
      words[bucket + 1] = second;
      words[bucket + 2] = 0;
    }
    const over = Atomics.add(words, bucket + 2, 1) + 1 - this.#settings.answersPerSecond;
    if (over <= 0 || this.#isExempt(client)) return VERDICT.SEND;
    return over % SLIP === 0 ? VERDICT.SLIP : VERDICT.DROP;
  }

  #isExempt(client: Client): boolean {
    if (!this.#settings.limitLoopback && client.isLoopback) return true;
    return this.#allow.some((block) => client.isIn(block));
  }

  #key(client: Client, kind: number, origin: number): number {
    let hash = mix(mix(this.#settings.seed, kind), origin);
    const octets = client.addressOctets === 4 ? NETWORK_OCTETS_V4 : NETWORK_OCTETS_V6;
    for (let index = 0; index < octets; index += 1) hash = mix(hash, client.address[index]!);
    return hash;
  }
}

/** One step of MurmurHash3's mixing. */
function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
