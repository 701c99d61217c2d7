import {
  ANY_POOL,
  ANY_SOURCE,
  type DestinationQueue,
  queueOf,
  splitQueue,
} from "../core/mail/queue/destination-queue.ts";
import type { Db } from "../platform/postgres/db.ts";
import { readBackOffs } from "../store/mail/queue/queue-backoffs.ts";

/** They are read again after so long: one that is not known yet costs a needless attempt, no more. */
const READ_AGAIN_MS = 500;
/** Of one statement; what comes after them has its turn later. */
const MOST_SUSPENDED = 500;

/**
 * Destination queues that rest, as many as one statement is told: those of whose pool every source is in back-off at the
 * destination. With the pool `*` all of the destination rest, as there is no way to it, or an operator holds it.
 */
export interface SuspendedQueues {
  /** In ascending order. */
  readonly queues: readonly DestinationQueue[];
  /** The destination with which the others begin; '' where these are all. */
  readonly end: string;
}

/** Sources in back-off at destinations, of all workers, and the queues that are suspended for it. */
export class KnownBackOffs {
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  readonly #nowMs: () => number;
  /** By destination and source, until when. */
  #until = new Map<string, Map<string, number>>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** The same in both: in ascending order, and to be found by name. */
  #suspended: readonly DestinationQueue[] = [];
  #isSuspended: ReadonlySet<DestinationQueue> = new Set();
  #atMs = Number.NEGATIVE_INFINITY;
  #resumedAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param sources where the mail of each pool leaves from; '' is the default pool
   * @param nowMs a monotonic clock; it is that of all times here
   */
  constructor(sources: ReadonlyMap<string, readonly string[]>, nowMs: () => number) {
    this.#sources = sources;
    this.#nowMs = nowMs;
  }

  /** When `read` was last called. */
  get atMs(): number {
    return this.#atMs;
  }

  /** When some queue was last found to be suspended no longer. */
  get resumedAtMs(): number {
    return this.#resumedAtMs;
  }

  /** They may have changed. */
  forget(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Has what is known be of now. @param held destinations that nobody turns to */
  async read(db: Db, held: readonly string[]): Promise<void> {
    const nowMs = this.#nowMs();
    this.#atMs = nowMs;
    if (nowMs - this.#readAtMs >= READ_AGAIN_MS) {
      const rows = await readBackOffs(db);
      this.#readAtMs = nowMs;
      this.#until = new Map();
      for (const { destination, source, seconds } of rows) {
        const own = this.#until.get(destination) ?? new Map<string, number>();
        this.#until.set(destination, own.set(source, nowMs + seconds * 1000));
      }
    }
    const inBackOff = [...this.#until.keys()].flatMap((destination) => this.#inBackOff(destination, nowMs));
    const isSuspended = new Set([...inBackOff, ...held.map((destination) => queueOf(destination, ANY_POOL))]);
    if (this.#suspended.some((queue) => !isSuspended.has(queue))) this.#resumedAtMs = nowMs;
    this.#isSuspended = isSuspended;
    this.#suspended = [...isSuspended].sort();
  }

  #inBackOff(destination: string, nowMs: number): DestinationQueue[] {
    const resting = this.resting(destination, nowMs);
    if (resting.has(ANY_SOURCE)) return [queueOf(destination, ANY_POOL)];
    const pools = [...this.#sources].filter(([, own]) => own.length > 0 && own.every((source) => resting.has(source)));
    return pools.map(([pool]) => queueOf(destination, pool));
  }

  /** Whether nothing of a queue is to leave now. */
  isSuspended(queue: DestinationQueue): boolean {
    return this.#isSuspended.has(queue) || this.#isSuspended.has(queueOf(splitQueue(queue).destination, ANY_POOL));
  }

  /** Those of a queue's destination, and of those behind it. */
  suspendedFrom(queue: DestinationQueue): SuspendedQueues {
    const { destination } = splitQueue(queue);
    const first = this.#suspended.findIndex((each) => each >= destination);
    if (first < 0) return { queues: [], end: "" };
    const next = this.#suspended[first + MOST_SUSPENDED];
    return {
      queues: this.#suspended.slice(first, first + MOST_SUSPENDED),
      end: next === undefined ? "" : splitQueue(next).destination,
    };
  }

  /** Sources in back-off at a destination, with the seconds for which they stay so. */
  resting(destination: string, nowMs = this.#nowMs()): ReadonlyMap<string, number> {
    const own = [...(this.#until.get(destination) ?? [])].filter(([, untilMs]) => untilMs > nowMs);
    return new Map(own.map(([source, untilMs]) => [source, (untilMs - nowMs) / 1000]));
  }
}
