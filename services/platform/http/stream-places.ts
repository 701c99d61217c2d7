import { Counts } from "../../core/counts.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sharer } from "./endpoint.ts";

/**
 * What a stream holds as long as its client reads: a connection to the database, all that it shows, a page of it, or a page for
 * which contacts are counted.
 */
export type Held = "connection" | "memory" | "page" | "counts";

/** So many streams at a time hold it; of connections a few are always left to everybody else. */
export const MOST_STREAMS: Readonly<Record<Held, number>> = { connection: 6, memory: 6, page: 8, counts: 6 };

/** Streams of one caller at a time, whatever they hold. */
export const MOST_PER_CALLER = 2;
/** Streams at a time of callers that have a share together. */
export const MOST_PER_GROUP = 3;
const RETRY_AFTER_SECONDS = 5;

/** Whom a stream is for, and what it holds meanwhile. */
export interface StreamFor {
  readonly sharer: Sharer;
  readonly holds: Held;
}

/** Gives a place back; called once. */
export type LeavePlace = () => void;

/** The places that there are for streams: of a kind, of a caller and of a group. */
export class StreamPlaces {
  readonly #taken: Record<Held, number> = { connection: 0, memory: 0, page: 0, counts: 0 };
  readonly #ofCaller = new Counts<string>();
  readonly #ofGroup = new Counts<string>();
  /** Tries of those who wait, the longest first. */
  readonly #waiting = new Set<() => void>();

  /** @returns what gives the place back; refused while the caller, or all together, have too many */
  take(whose: StreamFor): Result<LeavePlace, Refusal> {
    const { sharer, holds } = whose;
    if (this.#ofCaller.of(sharer.key) >= MOST_PER_CALLER || this.#ofGroup.of(sharer.group) >= MOST_PER_GROUP) {
      return refuse({ kind: "rate-limited", retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    if (this.#taken[holds] >= MOST_STREAMS[holds]) return refuse({ kind: "unavailable" });
    this.#count(whose, 1);
    return ok(() => {
      this.#count(whose, -1);
      for (const tryAgain of [...this.#waiting]) tryAgain();
    });
  }

  /** Takes a place as soon as there is one. @returns undefined when there is none by then, as of performance.now() */
  takeBefore(endsAtMs: number, whose: StreamFor): Promise<LeavePlace | undefined> {
    return new Promise((resolve) => {
      const settle = (leave?: LeavePlace) => {
        clearTimeout(deadline);
        this.#waiting.delete(tryAgain);
        resolve(leave);
      };
      const tryAgain = () => {
        const place = this.take(whose);
        if (place.ok) settle(place.value);
      };
      const deadline = setTimeout(() => settle(), endsAtMs - performance.now());
      this.#waiting.add(tryAgain);
      tryAgain();
    });
  }

  #count({ sharer, holds }: StreamFor, more: 1 | -1): void {
    this.#taken[holds] += more;
    this.#ofCaller.add(sharer.key, more);
    this.#ofGroup.add(sharer.group, more);
  }
}
