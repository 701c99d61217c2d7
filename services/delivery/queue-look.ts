import { Counts } from "../core/counts.ts";
import type { Db } from "../platform/postgres/db.ts";
import { type Ask, type LeaseResult, leasePartitions, lotOf } from "../store/mail/queue/lease-partitions.ts";
import type { AbandonedLeases, LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import type { BarredLots, KnownBackOffs } from "./known-back-offs.ts";

/** What a look at the queue may take. */
export interface LookRequest {
  readonly workerId: string;
  /** Partitions. */
  readonly limit: number;
  readonly leaseSeconds: number;
  /** Partitions under way of instances that have some. */
  readonly busy: ReadonlyMap<number, number>;
  /** Partitions that one instance may have. */
  readonly partitionsPerInstance: number;
  /** How many more partitions the lots may have that are near their limits; 0 passes them over. */
  readonly room: ReadonlyMap<string, number>;
  /** The same for all other lots. */
  readonly partitionsPerDestination: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What came of it. */
export interface AskResult extends LeaseResult {
  readonly ask: Ask;
  /** All lots after the one that was served last were visited. */
  readonly isRoundOver: boolean;
  /** The last one that was visited, or passed over. */
  readonly last: string;
}

/** One look at the queue: what it has taken so far, and what there is room for yet. */
export class QueueLook {
  readonly request: LookRequest;
  /** By the worker's monotonic clock. */
  readonly atMs: number;
  readonly taken: LeasedPartition[] = [];
  readonly abandoned: AbandonedLeases[] = [];
  readonly failures: unknown[] = [];
  /** More can be had at once by another look. */
  goesOn = false;
  /** An instance gave all that was asked of it, and has more. */
  leavesSome = false;
  /** There was no room for an instance that has nothing under way and may have mail. */
  isKeptOut = false;
  readonly backOffs: KnownBackOffs;
  readonly #db: Db;
  readonly #now: string;
  readonly #room: Map<string, number>;
  readonly #takenOf = new Counts<number>();

  /** @param now the database's */
  constructor(db: Db, backOffs: KnownBackOffs, now: string, request: LookRequest) {
    this.#db = db;
    this.backOffs = backOffs;
    this.atMs = backOffs.atMs;
    this.#now = now;
    this.request = request;
    this.#room = new Map(request.room);
  }

  /** Partitions that may be taken yet. */
  get free(): number {
    return this.request.limit - this.taken.length;
  }

  busyOf(instanceId: number): number {
    return (this.request.busy.get(instanceId) ?? 0) + this.#takenOf.of(instanceId);
  }

  /** Whether something of a lot could be taken. */
  mayTake(lot: string): boolean {
    return (this.#room.get(lot) ?? this.request.partitionsPerDestination) > 0 && !this.backOffs.isBarred(lot);
  }

  /** So many partitions may be asked for at the same time, and no lot gets too many. */
  get askedAtOnce(): number {
    const open = [...this.#room.values()].filter((room) => room > 0);
    return Math.min(this.request.partitionsPerDestination, ...open);
  }

  async ask(asks: readonly Ask[]): Promise<AskResult[]> {
    const { workerId, leaseSeconds, partitionsPerDestination, unfinished } = this.request;
    const first = asks.reduce((least, { after }) => (after < least ? after : least), asks[0]!.after);
    const passedOver = this.backOffs.barredFrom(first);
    if (passedOver.before !== "" && asks.length > 1) {
      const results: AskResult[] = [];
      for (const ask of asks) results.push(...(await this.ask([ask])));
      return results;
    }
    const request = { workerId, asks, leaseSeconds, partitionsPerDestination, unfinished, ...passedOver };
    const results = await leasePartitions(this.#db, { ...request, now: this.#now, room: this.#room });
    const askOf = new Map(asks.map((ask) => [ask.instanceId, ask]));
    return results.map((result) => this.#take(askOf.get(result.instanceId)!, result, passedOver));
  }

  #take(ask: Ask, result: LeaseResult, { barred, before }: BarredLots): AskResult {
    const { instanceId, partitions, lots, hasMore } = result;
    this.leavesSome ||= hasMore && partitions.length >= ask.share;
    for (const partition of partitions) {
      const lot = lotOf(partition.destination, partition.pool);
      this.#room.set(lot, (this.#room.get(lot) ?? this.request.partitionsPerDestination) - 1);
      this.taken.push({ ...partition, resting: this.backOffs.resting(partition.destination) });
    }
    this.#takenOf.add(instanceId, partitions.length);
    const visitedAll = lots.length < ask.lots;
    const last = visitedAll && before !== "" ? barred.at(-1)! : (lots.at(-1) ?? ask.after);
    return { ...result, ask, isRoundOver: visitedAll && before === "", last };
  }
}
