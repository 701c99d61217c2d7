import {
  ANY_POOL,
  ANY_SOURCE,
  type DestinationQueue,
  queueOf,
  splitQueue,
} from "../core/mail/queue/destination-queue.ts";
import type { Db } from "../platform/postgres/db.ts";
import { readBackOffs } from "../store/mail/queue/queue-backoffs.ts";

/** What has changed is read again after so long: what is not known yet costs a needless attempt, no more. */
const READ_AGAIN_MS = 500;
/** All are read again after so long: a database that took over from another one may have an earlier clock. */
const READ_ALL_MS = 60_000;
/** With more destinations it takes too long to list what is suspended. */
const MOST_LISTED = 500;
/** Ends are noticed together, so often. */
const END_TICK_MS = 250;

/** Sources in back-off at destinations, of all workers, and the queues that are suspended for it or held. */
export class KnownBackOffs {
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  readonly #nowMs: () => number;
  /** By destination and source, until when; some may be over. */
  readonly #until = new Map<string, Map<string, number>>();
  /** Destinations by the tick at which a back-off of theirs is over. */
  readonly #ending = new Map<number, Set<string>>();
  /** The database's moment before which every change is known, as text. */
  #readAt: string | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #readAllAtMs = Number.NEGATIVE_INFINITY;
  /** Destinations. */
  #held: ReadonlySet<string> = new Set();
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

  /**
   * Has what is known be of now.
   * @param held destinations that nobody turns to
   * @param now the database's
   */
  async read(db: Db, { held, now }: { readonly held: readonly string[]; readonly now: string }): Promise<void> {
    this.#atMs = this.#nowMs();
    if (this.#atMs - this.#readAtMs >= READ_AGAIN_MS) await this.#readAgain(db, now);
    this.#forgetThoseOver();
    const heldBefore = this.#held;
    this.#held = new Set(held);
    if ([...heldBefore].some((destination) => !this.#held.has(destination))) this.#resumedAtMs = this.#atMs;
  }

  async #readAgain(db: Db, now: string): Promise<void> {
    const isOfAll = this.#atMs - this.#readAllAtMs >= READ_ALL_MS;
    const rows = await readBackOffs(db, isOfAll ? undefined : this.#readAt);
    this.#readAt = now;
    this.#readAtMs = this.#atMs;
    if (isOfAll) {
      this.#readAllAtMs = this.#atMs;
      this.#resumedAtMs = this.#atMs;
      this.#until.clear();
      this.#ending.clear();
    }
    for (const { destination, source, seconds } of rows) this.#note(destination, source, this.#atMs + seconds * 1000);
  }

  #note(destination: string, source: string, untilMs: number): void {
    const own = this.#until.get(destination) ?? new Map<string, number>();
    this.#until.set(destination, own.set(source, untilMs));
    const tick = Math.ceil(untilMs / END_TICK_MS);
    const ending = this.#ending.get(tick) ?? new Set<string>();
    this.#ending.set(tick, ending.add(destination));
  }

  #forgetThoseOver(): void {
    for (const [tick, destinations] of this.#ending) {
      if (tick * END_TICK_MS > this.#atMs) continue;
      this.#ending.delete(tick);
      for (const destination of destinations) this.#forgetOver(destination);
    }
  }

  #forgetOver(destination: string): void {
    const own = this.#until.get(destination);
    for (const [source, untilMs] of own ?? []) {
      if (untilMs > this.#atMs) continue;
      own!.delete(source);
      this.#resumedAtMs = this.#atMs;
    }
    if (own?.size === 0) this.#until.delete(destination);
  }

  /** Whether nothing of a queue is to leave now: its destination is held, or every source of its pool is in back-off there. */
  isSuspended(queue: DestinationQueue): boolean {
    const { destination, pool } = splitQueue(queue);
    if (this.#held.has(destination)) return true;
    const own = this.#until.get(destination);
    if (own === undefined) return false;
    const rests = (source: string) => (own.get(source) ?? Number.NEGATIVE_INFINITY) > this.#atMs;
    const sources = this.#sources.get(pool) ?? [];
    return rests(ANY_SOURCE) || (sources.length > 0 && sources.every(rests));
  }

  /** All of the destinations that are held. */
  get held(): readonly DestinationQueue[] {
    return [...this.#held].map((destination) => queueOf(destination, ANY_POOL));
  }

  /** The queues in back-off; with the pool `*` all of the destination. @returns undefined where they are many */
  list(): readonly DestinationQueue[] | undefined {
    if (this.#until.size > MOST_LISTED) return undefined;
    const pools = [ANY_POOL, ...this.#sources.keys()];
    const queues = [...this.#until.keys()].flatMap((destination) => pools.map((pool) => queueOf(destination, pool)));
    return queues.filter((queue) => this.isSuspended(queue));
  }

  /** Sources in back-off at a destination, with the seconds for which they stay so. */
  resting(destination: string): ReadonlyMap<string, number> {
    const nowMs = this.#nowMs();
    const own = [...(this.#until.get(destination) ?? [])].filter(([, untilMs]) => untilMs > nowMs);
    return new Map(own.map(([source, untilMs]) => [source, (untilMs - nowMs) / 1000]));
  }
}
