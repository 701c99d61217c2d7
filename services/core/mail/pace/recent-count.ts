/** A rate is measured over so long: what came in a burst counts for no more than it is. */
const WINDOW_MS = 60_000;
const BUCKETS = 12;
const BUCKET_MS = WINDOW_MS / BUCKETS;
const HOUR_MS = 3_600_000;

/** Counts what happened in the last minute. Times are milliseconds of one monotonic clock. */
export class RecentCount {
  readonly #counts = new Uint32Array(BUCKETS);
  /** Number of the bucket that is being filled, from the clock's beginning. */
  #current = 0;

  add(nowMs: number): void {
    const bucket = this.#moveTo(nowMs) % BUCKETS;
    this.#counts[bucket] = this.#counts[bucket]! + 1;
  }

  /** As a rate: what was not seen yet of the minute counts as nothing. */
  perHour(nowMs: number): number {
    this.#moveTo(nowMs);
    return (this.#counts.reduce((sum, count) => sum + count, 0) * HOUR_MS) / WINDOW_MS;
  }

  #moveTo(nowMs: number): number {
    const bucket = Math.max(this.#current, Math.floor(nowMs / BUCKET_MS));
    const passed = Math.min(BUCKETS, bucket - this.#current);
    for (let i = 0; i < passed; i += 1) this.#counts[(bucket - i) % BUCKETS] = 0;
    this.#current = bucket;
    return bucket;
  }
}
