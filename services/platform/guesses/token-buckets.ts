import { type RecentMap, recentMap } from "../../core/recent-map.ts";

interface Bucket {
  tokens: number;
  at: number;
}

/** A bucket of tokens for each name, which fills up again with time. Those used least lately are forgotten, and are full. */
export class TokenBuckets {
  readonly #atOnce: number;
  readonly #refillMs: number;
  readonly #buckets: RecentMap<string, Bucket>;

  /** @param mostNames buckets that are kept in memory */
  constructor({ atOnce, refillMs }: { readonly atOnce: number; readonly refillMs: number }, mostNames: number) {
    this.#atOnce = atOnce;
    this.#refillMs = refillMs;
    this.#buckets = recentMap(mostNames);
  }

  /** Takes a token. @returns 0, or the milliseconds until there is one, none being taken */
  take(name: string, now: number): number {
    const bucket = this.#bucketOf(name, now);
    if (bucket.tokens < 1) return Math.ceil((1 - bucket.tokens) * this.#refillMs);
    bucket.tokens -= 1;
    return 0;
  }

  giveBack(name: string, now: number): void {
    const bucket = this.#bucketOf(name, now);
    bucket.tokens = Math.min(this.#atOnce, bucket.tokens + 1);
  }

  /** How many tokens are missing, in whole ones. */
  takenOf(name: string, now: number): number {
    return Math.ceil(this.#atOnce - this.#bucketOf(name, now).tokens);
  }

  get size(): number {
    return this.#buckets.size;
  }

  #bucketOf(name: string, now: number): Bucket {
    const known = this.#buckets.get(name);
    if (!known) {
      const full = { tokens: this.#atOnce, at: now };
      this.#buckets.set(name, full);
      return full;
    }
    known.tokens = Math.min(this.#atOnce, known.tokens + Math.max(0, now - known.at) / this.#refillMs);
    known.at = now;
    return known;
  }
}
