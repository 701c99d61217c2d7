import type { Clock } from "../platform/clock.ts";

const MS_PER_MINUTE = 60_000;

/** So many a minute, evenly; what was not used is kept for at most a minute (a token bucket). */
export class RateLimit {
  readonly #perMinute: number;
  readonly #clock: Clock;
  #tokens: number;
  #filledAtMs: number;

  constructor(perMinute: number, clock: Clock) {
    this.#perMinute = perMinute;
    this.#clock = clock;
    this.#tokens = perMinute;
    this.#filledAtMs = clock.nowMs();
  }

  /** Whether one more is allowed now. */
  hasToken(): boolean {
    const nowMs = this.#clock.nowMs();
    // A clock that was set back must not stop the mail until it has caught up.
    const gained = (Math.max(0, nowMs - this.#filledAtMs) * this.#perMinute) / MS_PER_MINUTE;
    this.#tokens = Math.min(this.#perMinute, this.#tokens + gained);
    this.#filledAtMs = nowMs;
    return this.#tokens >= 1;
  }

  /** Whether it is as a new one would be. */
  isFull(): boolean {
    return this.hasToken() && this.#tokens === this.#perMinute;
  }

  /** @returns false when this minute's are used up */
  takeToken(): boolean {
    if (!this.hasToken()) return false;
    this.#tokens -= 1;
    return true;
  }
}
