import { RepeatedWork } from "../../platform/repeated-work.ts";

/** After the followers of a zone were stirred it rests for so long, and so many times as long as that took. */
const LEAST_REST_MS = 500;
const RESTS = 20;
const RETRY_MS = 1_000;
/** Between two looks, of whatever zones: many zones that change one after the other are looked after together. */
const PAUSE_MS = 50;
/** Until somebody wakes it. */
const IDLE_MS = 60_000;

export interface ZoneNoticesOptions {
  /** Has what follows names of these zones derived anew; undefined: of all zones. */
  readonly stir: (zoneIds: readonly number[] | undefined) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

/**
 * Gathers the zones that changed. A change is looked after at once, and what comes after it a moment later, together: a
 * zone that changes all the time, and that thousands of names follow, takes a part of the work and not all of it.
 */
export class ZoneNotices {
  readonly #options: ZoneNoticesOptions;
  readonly #work: RepeatedWork;
  /** By zone, 0 for any, when it may be looked after; those without have not changed since. */
  readonly #waiting = new Map<number, number>();
  readonly #resting = new Map<number, number>();
  #pauseUntil = 0;
  /** Whether a look is to come that will see what is noted now. */
  #isAwake = false;

  constructor(options: ZoneNoticesOptions) {
    this.#options = options;
    this.#work = new RepeatedWork({
      take: () => this.#stir(),
      failed: (error) => {
        options.failed(error);
        return RETRY_MS;
      },
    });
  }

  /** @param payload ids of zones, with blanks between them; undefined for any */
  note(payload: string | undefined): void {
    for (const zoneId of payload === undefined ? [ANY] : payload.split(" ").map(Number)) {
      if (!this.#waiting.has(zoneId)) this.#waiting.set(zoneId, this.#resting.get(zoneId) ?? 0);
    }
    if (this.#isAwake) return;
    this.#isAwake = true;
    this.#work.wake();
  }

  stop(): Promise<void> {
    return this.#work.stop();
  }

  /** Looks after the zones whose rest is over. @returns how long to rest, in ms */
  async #stir(): Promise<number> {
    const from = performance.now();
    if (from < this.#pauseUntil) return this.#pauseUntil - from;
    this.#isAwake = false;
    for (const [zoneId, until] of this.#resting) if (until <= from) this.#resting.delete(zoneId);
    const due = [...this.#waiting].filter(([, at]) => at <= from).map(([zoneId]) => zoneId);
    if (due.length > 0) {
      for (const zoneId of due) this.#waiting.delete(zoneId);
      try {
        await this.#options.stir(due.includes(ANY) ? undefined : due);
      } catch (error) {
        for (const zoneId of due) this.#waiting.set(zoneId, 0);
        throw error;
      }
      const now = performance.now();
      this.#pauseUntil = now + PAUSE_MS;
      for (const zoneId of due) this.#resting.set(zoneId, now + LEAST_REST_MS + RESTS * (now - from));
    }
    return Math.max(0, Math.min(IDLE_MS, ...[...this.#waiting.values()].map((at) => at - performance.now())));
  }
}

const ANY = 0;
