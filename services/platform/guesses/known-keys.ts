import { type RecentMap, recentMap } from "../../core/recent-map.ts";

/** Keys that are remembered, and for each the sources that it was right from. */
const MOST_KEYS = 20_000;
const MOST_SOURCES_OF_A_KEY = 100;
/** The order of use and the end of a memory are kept to this, so that a busy caller costs little. */
const RENEW_MS = 60_000;

/** Remembers which key was right from which source lately. Only that very key is known from there, and from there alone. */
export class KnownKeys {
  readonly #keys = recentMap<string, RecentMap<string, number>>(MOST_KEYS);
  readonly #knownMs: number;

  constructor(knownMs: number) {
    this.#knownMs = knownMs;
  }

  has(source: string, digest: string, now: number): boolean {
    return (this.#keys.get(digest)?.get(source) ?? Number.NEGATIVE_INFINITY) > now;
  }

  note(source: string, digest: string, now: number): void {
    let sources = this.#keys.get(digest);
    if (!sources) {
      sources = recentMap(MOST_SOURCES_OF_A_KEY);
      this.#keys.set(digest, sources);
    }
    if ((sources.get(source) ?? 0) < now + this.#knownMs - RENEW_MS) sources.set(source, now + this.#knownMs);
  }

  forget(source: string, digest: string): void {
    this.#keys.get(digest)?.delete(source);
  }

  /** Keys in memory. */
  get size(): number {
    return this.#keys.size;
  }
}
