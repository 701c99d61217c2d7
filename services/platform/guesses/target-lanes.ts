import type { GuessPolicy } from "./policy.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** Somebody whose key waits to be looked at. */
interface Waiting {
  readonly source: string;
  /** The lowest is served first, of equal ones who came first. */
  readonly rank: number;
  readonly isGone: () => boolean;
  readonly settle: (served: boolean) => void;
}

/** Targets that are remembered: resellers, instances, campaigns, and names that are none. */
const MOST_TARGETS = 50_000;
/** Who waits holds a connection: so many in all. */
const MOST_WAITING_IN_ALL = 2_000;

/**
 * Lets guesses at one target through at a bounded rate, whoever makes them: what comes too fast waits its turn, one of each
 * source, those first who have been wrong least. So a stranger who has never been wrong overtakes all who have.
 */
export class TargetLanes {
  readonly #policy: GuessPolicy["target"];
  readonly #buckets: TokenBuckets;
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #nowMs: () => number;
  #inAll = 0;

  constructor(policy: GuessPolicy["target"], nowMs: () => number) {
    this.#policy = policy;
    this.#buckets = new TokenBuckets(policy, MOST_TARGETS);
    this.#nowMs = nowMs;
  }

  /**
   * Waits for the turn of an attempt.
   * @param isGone whether the one who waits has left, so that the turn is the next one's
   * @returns false when the lane is full, the source waits in it already, or somebody with a lower rank took the place
   */
  enter(target: string, attempt: Pick<Waiting, "source" | "rank" | "isGone">): Promise<boolean> | true {
    const queue = this.#waiting.get(target) ?? [];
    const waitMs = queue.length === 0 ? this.#buckets.take(target, this.#nowMs()) : this.#policy.refillMs;
    if (waitMs === 0) return true;
    this.#drop(queue, ({ isGone }) => isGone());
    if (queue.some(({ source }) => source === attempt.source)) return Promise.resolve(false);
    if (queue.length >= this.#policy.mostWaiting || this.#inAll >= MOST_WAITING_IN_ALL) {
      const last = queue.at(-1);
      if (!last || last.rank <= attempt.rank) return Promise.resolve(false);
      this.#drop(queue, (one) => one === last);
    }
    return new Promise((settle) => {
      const place = queue.findIndex(({ rank }) => rank > attempt.rank);
      queue.splice(place < 0 ? queue.length : place, 0, { ...attempt, settle });
      this.#inAll += 1;
      this.#waiting.set(target, queue);
      this.#serveIn(waitMs, target, queue);
    });
  }

  /** An attempt was right, or could not be judged: it does not count. */
  giveBack(target: string): void {
    this.#buckets.giveBack(target, this.#nowMs());
  }

  /** How long a full lane takes, in milliseconds. */
  get longestWaitMs(): number {
    return this.#policy.mostWaiting * this.#policy.refillMs;
  }

  /** Attempts that wait. */
  get waiting(): number {
    return this.#inAll;
  }

  #serveIn(waitMs: number, target: string, queue: Waiting[]): void {
    if (this.#timers.has(target)) return;
    const serve = () => {
      this.#timers.delete(target);
      this.#drop(queue, ({ isGone }) => isGone());
      const stillMs = queue.length > 0 ? this.#buckets.take(target, this.#nowMs()) : 0;
      if (queue.length > 0 && stillMs === 0) this.#leave(queue, 0, true);
      if (queue.length > 0) this.#serveIn(stillMs || this.#policy.refillMs, target, queue);
      else this.#waiting.delete(target);
    };
    this.#timers.set(target, setTimeout(serve, waitMs).unref());
  }

  #drop(queue: Waiting[], unwanted: (one: Waiting) => boolean): void {
    for (let place = queue.length - 1; place >= 0; place -= 1) {
      if (unwanted(queue[place]!)) this.#leave(queue, place, false);
    }
  }

  #leave(queue: Waiting[], place: number, served: boolean): void {
    const [left] = queue.splice(place, 1);
    this.#inAll -= 1;
    left!.settle(served);
  }
}
