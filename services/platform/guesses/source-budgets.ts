import { recentMap } from "../../core/recent-map.ts";
import type { GuessPolicy } from "./policy.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** What a source has done wrong. */
interface Record {
  failures: number;
  lastAt: number;
  /** Nothing from it is looked at before. */
  until: number;
  /** Digest of the last key that was wrong, and when that one is looked at again. */
  wrong: string | undefined;
  repeatAt: number;
}

/** Whether a key may be looked at. */
export type Start =
  | { readonly kind: "counted" }
  /** The source's last wrong key once more: it tells whoever tries it nothing new. */
  | { readonly kind: "repeated" }
  | { readonly kind: "wait"; readonly waitMs: number };

/** Sources and networks that are remembered; about 200 octets each. */
const MOST_SOURCES = 100_000;
const MOST_NETWORKS = 50_000;

/**
 * Counts wrong keys by source and by network. An attempt counts from its beginning, so that any number at the same moment
 * are as many guesses; what turns out right is taken back. Times are milliseconds of any monotonic clock.
 */
export class SourceBudgets {
  readonly #policy: GuessPolicy["source"];
  readonly #sources = recentMap<string, Record>(MOST_SOURCES);
  readonly #networks: TokenBuckets;
  readonly #countsNetworks: boolean;

  constructor({ source, network }: Pick<GuessPolicy, "source" | "network">) {
    this.#policy = source;
    this.#networks = new TokenBuckets(network, MOST_NETWORKS);
    this.#countsNetworks = source.freeFailures !== null;
  }

  begin(source: string, network: string, digest: string, now: number): Start {
    const record = this.#recordOf(source, now);
    if (this.#isOver(record) && record.wrong === digest) {
      if (now < record.repeatAt) return { kind: "wait", waitMs: record.repeatAt - now };
      record.repeatAt = now + this.#policy.repeatMs;
      return { kind: "repeated" };
    }
    if (now < record.until) return { kind: "wait", waitMs: record.until - now };
    if (this.#countsNetworks) {
      const waitMs = this.#networks.take(network, now);
      if (waitMs > 0) return { kind: "wait", waitMs };
    }
    this.#count(record, now);
    return { kind: "counted" };
  }

  /** A key that had been right from a source no longer is: counts without asking. */
  countFailure(source: string, digest: string, now: number): void {
    const record = this.#recordOf(source, now);
    this.#count(record, now);
    this.noteWrong(source, digest, now);
  }

  /** A counted attempt was wrong. @returns how many the source has had */
  noteWrong(source: string, digest: string, now: number): number {
    const record = this.#recordOf(source, now);
    record.wrong = digest;
    record.repeatAt = now + this.#policy.repeatMs;
    return record.failures;
  }

  /** A counted attempt was right, or could not be judged. */
  takeBack(source: string, network: string, now: number): void {
    const record = this.#recordOf(source, now);
    record.failures = Math.max(0, record.failures - 1);
    if (!this.#isOver(record)) record.until = 0;
    if (this.#countsNetworks) this.#networks.giveBack(network, now);
  }

  /** Who is served first where guesses have to wait: the fewer wrong keys, of the source and then of its network, the sooner. */
  rankOf(source: string, network: string, now: number): number {
    const failures = this.#sources.get(source)?.failures ?? 0;
    return failures * 1_000_000 + this.#networks.takenOf(network, now);
  }

  /** Sources in memory. */
  get size(): number {
    return this.#sources.size;
  }

  #count(record: Record, now: number): void {
    record.failures += 1;
    record.lastAt = now;
    if (!this.#isOver(record)) return;
    const { firstWaitMs, mostWaitMs, freeFailures } = this.#policy;
    record.until = now + Math.min(mostWaitMs, firstWaitMs * 2 ** (record.failures - freeFailures!));
  }

  #isOver({ failures }: Record): boolean {
    return this.#policy.freeFailures !== null && failures >= this.#policy.freeFailures;
  }

  #recordOf(source: string, now: number): Record {
    const known = this.#sources.get(source);
    if (known && now - known.lastAt < this.#policy.forgetMs) return known;
    const fresh = { failures: 0, lastAt: now, until: 0, wrong: undefined, repeatAt: 0 };
    this.#sources.set(source, fresh);
    return fresh;
  }
}
