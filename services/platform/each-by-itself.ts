import { isDatabaseAway, isOneMachineAway, isOverLimit } from "./postgres/db.ts";

/** How long what has failed rests: twice as long after each further failure. */
const FIRST_REST_MS = 5_000;
const LONGEST_REST_MS = 300_000;

interface Rest {
  readonly untilMs: number;
  readonly failures: number;
}

/**
 * Work for many, whose rows are their own: what fails for one of them is told of, and rests for a while, and all others have
 * their turn. What is wrong with the database as a whole is nobody's own: it is thrown.
 */
export class EachByItself<Key extends string | number> {
  readonly #failed: (key: Key, error: unknown) => void;
  readonly #rests = new Map<Key, Rest>();

  /** @param failed tells of one for whom the work failed */
  constructor(failed: (key: Key, error: unknown) => void) {
    this.#failed = failed;
  }

  /** Those that have failed, and are not to be tried yet. */
  get resting(): Key[] {
    const nowMs = performance.now();
    return [...this.#rests].filter(([, { untilMs }]) => untilMs > nowMs).map(([key]) => key);
  }

  /**
   * Does one's work, unless it rests.
   * @returns undefined where it rests, or failed
   * @throws what is wrong with the database as a whole
   */
  async attempt<T>(key: Key, work: () => Promise<T>): Promise<T | undefined> {
    const rest = this.#rests.get(key);
    if (rest !== undefined && rest.untilMs > performance.now()) return undefined;
    try {
      const done = await work();
      this.#rests.delete(key);
      return done;
    } catch (error) {
      if (isDatabaseAway(error) && !isOverLimit(error) && !isOneMachineAway(error)) throw error;
      this.#forgetGone();
      const failures = (rest?.failures ?? 0) + 1;
      const restMs = Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** (failures - 1));
      this.#rests.set(key, { untilMs: performance.now() + restMs, failures });
      this.#failed(key, error);
      return undefined;
    }
  }

  /** What is gone meanwhile is not tried any more, and never succeeds. */
  #forgetGone(): void {
    const nowMs = performance.now();
    for (const [key, { untilMs }] of this.#rests) if (untilMs + LONGEST_REST_MS < nowMs) this.#rests.delete(key);
  }
}
