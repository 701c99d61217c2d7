import { Counts } from "../core/counts.ts";
import { type DestinationQueue, queueOf } from "../core/mail/queue/destination-queue.ts";
import type { Ask, Takeable, Visit } from "../core/mail/queue/instance-turn.ts";
import type { Db } from "../platform/postgres/db.ts";
import { type LeaseResult, leasePartitions, listReadyQueues } from "../store/mail/queue/lease-partitions.ts";
import type { AbandonedLeases, LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import type { KnownBackOffs } from "./known-back-offs.ts";

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
  /** Free slots, a partition each, of the destination queues that are near their limits; one with 0 is passed over. */
  readonly slots: ReadonlyMap<DestinationQueue, number>;
  /** Free slots of each other one. */
  readonly slotsPerQueue: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What a look has found. */
export interface LookResult {
  readonly taken: readonly LeasedPartition[];
  readonly abandoned: readonly AbandonedLeases[];
  readonly failures: readonly unknown[];
  /** More can be had at once by another look. */
  readonly goesOn: boolean;
  /** An instance gave all that was asked of it, and has more. */
  readonly leavesSome: boolean;
  /** No lane was free for an instance that has nothing under way and may have mail. */
  readonly isKeptOut: boolean;
}

/** One look at the queue: what it has taken so far, and which slots are free yet. */
export class QueueLook implements Takeable {
  readonly request: LookRequest;
  readonly atMs: number;
  readonly taken: LeasedPartition[] = [];
  readonly abandoned: AbandonedLeases[] = [];
  readonly failures: unknown[] = [];
  #leavesSome = false;
  readonly #backOffs: KnownBackOffs;
  readonly #db: Db;
  readonly #now: string;
  readonly #slots: Map<DestinationQueue, number>;
  readonly #takenOf = new Counts<number>();

  /** @param now the database's */
  constructor(db: Db, backOffs: KnownBackOffs, now: string, request: LookRequest) {
    this.#db = db;
    this.#backOffs = backOffs;
    this.atMs = backOffs.atMs;
    this.#now = now;
    this.request = request;
    this.#slots = new Map(request.slots);
  }

  get leavesSome(): boolean {
    return this.#leavesSome;
  }

  /** Partitions that may be taken yet. */
  get free(): number {
    return this.request.limit - this.taken.length;
  }

  get resumedAtMs(): number {
    return this.#backOffs.resumedAtMs;
  }

  busyOf(instanceId: number): number {
    return (this.request.busy.get(instanceId) ?? 0) + this.#takenOf.of(instanceId);
  }

  mayTake(queue: DestinationQueue): boolean {
    return this.#slotsOf(queue) > 0 && !this.isSuspended(queue);
  }

  isSuspended(queue: DestinationQueue): boolean {
    return this.#backOffs.isSuspended(queue);
  }

  /** So many partitions may be asked for at the same time, and no queue gets more than it has slots. */
  get mostAskedAtOnce(): number {
    const free = [...this.#slots.values()].filter((slots) => slots > 0);
    return Math.min(this.request.slotsPerQueue, ...free);
  }

  async ask(asks: readonly Ask[]): Promise<Visit[]> {
    const { workerId, leaseSeconds, slotsPerQueue, unfinished } = this.request;
    const suspended = [...this.#backOffs.held, ...(await this.#inBackOff(asks))];
    const passedOver = { slots: this.#slots, slotsPerQueue, suspended, unfinished };
    const results = await leasePartitions(this.#db, { workerId, asks, leaseSeconds, now: this.#now, ...passedOver });
    const askOf = new Map(asks.map((ask) => [ask.instanceId, ask]));
    return results.map((result) => this.#take(askOf.get(result.instanceId)!, result));
  }

  /** Queues in back-off: all, or, where these are many, those that the asks come to. */
  async #inBackOff(asks: readonly Ask[]): Promise<readonly DestinationQueue[]> {
    const all = this.#backOffs.list();
    if (all !== undefined) return all;
    return (await listReadyQueues(this.#db, asks)).filter((queue) => this.isSuspended(queue));
  }

  #take(ask: Ask, result: LeaseResult): Visit {
    const { instanceId, partitions, queues, hasMore } = result;
    this.#leavesSome ||= hasMore && partitions.length >= ask.share;
    for (const partition of partitions) {
      const queue = queueOf(partition.destination, partition.pool);
      this.#slots.set(queue, this.#slotsOf(queue) - 1);
      this.taken.push({ ...partition, resting: this.#backOffs.resting(partition.destination) });
    }
    this.#takenOf.add(instanceId, partitions.length);
    return { ...result, ask, isRoundOver: queues.length < ask.queues, last: queues.at(-1) ?? ask.after };
  }

  #slotsOf(queue: DestinationQueue): number {
    return this.#slots.get(queue) ?? this.request.slotsPerQueue;
  }
}
