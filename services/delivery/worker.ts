import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { nextAttempt, type RetrySchedule } from "../core/mail/retry.ts";
import { recentMap } from "../core/recent-map.ts";
import type { AttemptLog } from "../operations/mail/attempt-log.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { ANY_SOURCE, type InstanceShare, leasePartitions, lotOf } from "../store/mail/queue/lease-partitions.ts";
import { assignPools, movePartitions } from "../store/mail/queue/pool-assignments.ts";
import { backOffDestination, endBackOff } from "../store/mail/queue/queue-backoffs.ts";
import {
  type DueDelivery,
  extendLeases,
  type LeasedPartition,
  loadDueDeliveries,
  wakePartitions,
} from "../store/mail/queue/queue-leases.ts";
import { acknowledgeStops, findStops } from "../store/mail/queue/queue-stops.ts";
import { Lane, type LaneTools } from "./lane.ts";
import { OutcomeWriter } from "./outcome-writer.ts";
import { rankByEngagement } from "./pace/engagement.ts";
import type { PaceKeeper } from "./pace/pace-keeper.ts";
import { type DeliveryPolicy, mostUnnoted } from "./policy.ts";
import { PARTITIONS_AT_ONCE, type TrafficShaping } from "./shaping.ts";
import { WakeUp } from "./wake-up.ts";

export interface WorkerOptions {
  readonly db: Db;
  readonly policy: DeliveryPolicy;
  readonly shaping: TrafficShaping;
  /** What the deployment learns of providers; absent where mail does not go to them by itself. */
  readonly pace?: PaceKeeper | undefined;
  readonly schedule: RetrySchedule;
  readonly hardBouncesToInvalidate: number;
  /** Undefined where attempts are not kept. */
  readonly attempts: AttemptLog | undefined;
  readonly observe: Observe;
  readonly tools: Omit<LaneTools, "writer" | "shaping" | "mayLeave" | "giveWay" | "noteDestination">;
}

/** How often the queue is looked at when nobody tells of new mail. */
const POLL_MS = 500;
const AFTER_FAILURE_MS = 1_000;
/**
 * Looks begin this far apart: when much arrives at once, one look takes for many notices. Mail that comes while nothing
 * else does is looked for at once.
 */
const BETWEEN_LOOKS_MS = 40;
const WAKE_LIMIT = 1_000;
/** Destinations in back-off that are remembered; of a forgotten one the back-off ends by itself. */
const MOST_TROUBLED = 10_000;
/** A lane whose far side lets it wait for longer makes room for another one. */
const LONG_WAIT_MS = 2_000;
/** Of the lanes that wait for the same servers so many make room, as a part of `lanes`: a slow smart host gets no more. */
const WAITING_FOR_ONE = 1 / 2;
/** One instance leaves so many lanes to others, as a part of `lanes` and of `waitingLanes`; of a few lanes none. */
const LEFT_TO_OTHERS = 1 / 16;
/** As many lanes above those that there should be are let finish, as a part of `lanes`. */
const TOLERATED_EXCESS = 1 / 4;
/** A lane stops this long before its lease ends: what it has just begun must end within it. */
const LEASE_MARGIN_MS = 5_000;

/**
 * Leases partitions as lanes become free, and runs them. Any number of workers share a queue; what one that died held
 * goes to others when its lease ends, and a worker that cannot prolong its leases stops sending before they do.
 */
export class DeliveryWorker {
  readonly #id = randomUUID();
  readonly #options: WorkerOptions;
  readonly #writer: OutcomeWriter;
  readonly #wakeUp = new WakeUp();
  readonly #stop = new WakeUp();
  readonly #lanes = new Map<
    number,
    { readonly instanceId: number; readonly lane: Lane; readonly done: Promise<void> }
  >();
  /** Partitions that were leased, and whose recipients are being loaded. */
  #starting: readonly number[] = [];
  /** Partitions whose lease ended before it could be prolonged. */
  readonly #lost = new Set<number>();
  /** Partitions of which no further message may begin. */
  readonly #stopped = new Set<number>();
  /** Sources in back-off, with their destinations, as far as this worker knows. */
  readonly #troubled = recentMap<string, true>(MOST_TROUBLED);
  /** Lanes that are to end after their message: their far sides answer again, and new mail waits for its turn. */
  #excess = 0;
  /** Where the next look goes on: after this instance, and of each instance after this lot. */
  #after = 0;
  #destinations: ReadonlyMap<number, string> = new Map();
  /** The last look left something behind, for want of a lane or of room at a destination. */
  #wasShort = false;
  #wokenAtMs = Number.NEGATIVE_INFINITY;
  #leasesEndAtMs = 0;
  #stopping = false;
  #running: Promise<unknown> | undefined;

  constructor(options: WorkerOptions) {
    const { db, policy, hardBouncesToInvalidate, attempts, observe } = options;
    this.#options = options;
    const rule = { hardBouncesToInvalidate };
    const { flushMs, flushOutcomes } = policy;
    this.#writer = new OutcomeWriter({ db, workerId: this.#id, flushMs, flushOutcomes, rule, attempts, observe });
  }

  start(): void {
    this.#options.pace?.start(() => this.wake());
    this.#running = Promise.all([this.#fillLanes(), this.#keepLeases()]);
  }

  /** There may be new mail. */
  wake(): void {
    this.#wakeUp.ring();
  }

  /** A batch or a destination may have been stopped: its lanes begin no further message, and the database is told so. */
  async heedStops(): Promise<void> {
    const { db, observe } = this.#options;
    try {
      const stopped = await findStops(db, this.#id);
      for (const id of stopped) this.#stopped.add(id);
      if (stopped.length > 0) await acknowledgeStops(db, this.#id, stopped);
    } catch (error) {
      observe({ kind: "stops-not-read", level: "warn", err: error }); // asked again with the next lease
    }
  }

  /** Finishes the messages that are on their way, stores what became of them, gives the rest back. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wakeUp.ring();
    this.#stop.ring();
    this.#options.pace?.dismiss();
    await this.#running;
    await Promise.all([...this.#lanes.values()].map(({ done }) => done));
    await Promise.all([this.#writer.drain(), this.#options.pace?.stop()]);
    this.#options.tools.sessions.close();
  }

  /** For so long after it was asked for a lease is certain. */
  get #heldMs(): number {
    return this.#options.policy.leaseSeconds * 1000 - LEASE_MARGIN_MS;
  }

  /** Before any mail leaves: tells everybody through which pools it does, and reads at what pace. */
  async #assignPools(): Promise<void> {
    const { db, tools, pace, observe } = this.#options;
    while (!this.#stopping) {
      try {
        await pace?.read();
        return await assignPools(db, tools.sources.assignments);
      } catch (error) {
        observe({ kind: "queue-not-read", level: "error", err: error });
        await this.#wakeUp.wait(AFTER_FAILURE_MS);
      }
    }
  }

  async #fillLanes(): Promise<void> {
    await this.#assignPools();
    while (!this.#stopping) {
      const lookedAtMs = performance.now();
      const found = await this.#leaseSome().catch((error: unknown) => {
        this.#options.observe({ kind: "queue-not-read", level: "error", err: error });
        return undefined;
      });
      if (found === undefined) await this.#wakeUp.wait(AFTER_FAILURE_MS);
      else if (found === 0) await this.#wakeUp.wait(POLL_MS);
      const restMs = lookedAtMs + BETWEEN_LOOKS_MS - performance.now();
      if (restMs > 0) await sleep(restMs);
    }
  }

  /** @returns how many partitions were taken; a free lane, new mail or time lead to the next look */
  async #leaseSome(): Promise<number> {
    const { db, policy, shaping, tools } = this.#options;
    await this.#wakeDue();
    const free = this.#freeLanes();
    this.#excess = Math.max(0, -free - Math.floor(policy.lanes * TOLERATED_EXCESS));
    const limit = Math.max(0, free);
    const room = shaping.room();
    this.#wasShort = limit === 0 || [...room.values()].includes(0);
    if (limit === 0) return 0;
    const askedAtMs = performance.now();
    const { partitions, after, destinations } = await leasePartitions(db, {
      workerId: this.#id,
      limit,
      leaseSeconds: policy.leaseSeconds,
      after: this.#after,
      instances: this.#shares(),
      partitionsPerInstance: policy.lanes - Math.floor(policy.lanes * LEFT_TO_OTHERS),
      sources: tools.sources.sources,
      room,
      partitionsPerDestination: Math.min(PARTITIONS_AT_ONCE, policy.groups.default.connections),
      unfinished: [...this.#lanes.keys(), ...this.#writer.unreleased],
    });
    const roundGoesOn = after !== this.#after || this.#isInTheMidst(destinations);
    this.#after = after;
    const next = new Map([...this.#destinations, ...destinations]);
    this.#destinations = new Map([...next].filter(([, destination]) => destination !== ""));
    if (partitions.length === 0) return roundGoesOn ? 1 : 0;
    await this.#startLanes(await this.#putRight(partitions), askedAtMs + this.#heldMs);
    return partitions.length;
  }

  /** Partitions that were queued while pools were assigned anew may have the pool of before. */
  async #putRight(partitions: readonly LeasedPartition[]): Promise<readonly LeasedPartition[]> {
    const { db, tools } = this.#options;
    const right = partitions.map((partition) => {
      const { instanceName, campaignNumid } = partition.message;
      return { ...partition, pool: tools.sources.poolOf(instanceName, campaignNumid) };
    });
    const moved = right.filter(({ pool }, index) => pool !== partitions[index]!.pool);
    await movePartitions(db, moved);
    return right;
  }

  /** Whether instances have destinations that come only with the next look: some began in the midst, or were not all visited. */
  #isInTheMidst(destinations: ReadonlyMap<number, string>): boolean {
    return [...destinations].some(([instance, next]) => next !== (this.#destinations.get(instance) ?? ""));
  }

  /** What each instance has of the lanes; those that wait for their far sides count from a number on only. */
  #shares(): ReadonlyMap<number, InstanceShare> {
    const { waitingLanes } = this.#options.policy;
    const mostWaiting = waitingLanes - Math.floor(waitingLanes * LEFT_TO_OTHERS);
    const counts = new Map<number, { busy: number; waiting: number }>();
    for (const { instanceId, lane } of this.#lanes.values()) {
      const count = counts.get(instanceId) ?? { busy: 0, waiting: 0 };
      if (lane.waitedMs > LONG_WAIT_MS) count.waiting += 1;
      else count.busy += 1;
      counts.set(instanceId, count);
    }
    const ids = new Set([...counts.keys(), ...this.#destinations.keys()]);
    return new Map(
      [...ids].map((id) => {
        const { busy, waiting } = counts.get(id) ?? { busy: 0, waiting: 0 };
        const partitions = busy + Math.max(0, waiting - mostWaiting);
        return [id, { partitions, after: this.#destinations.get(id) ?? "" }];
      }),
    );
  }

  /**
   * How many more lanes there may be; below 0, how many there are too many. What waits for its far side, a dead one for
   * half a minute and a stalled one for longer, holds up no other destination.
   */
  #freeLanes(): number {
    const { lanes, waitingLanes } = this.#options.policy;
    const waiting = new Map<string, number>();
    for (const { lane } of this.#lanes.values()) {
      if (lane.waitedMs > LONG_WAIT_MS) waiting.set(lane.path, (waiting.get(lane.path) ?? 0) + 1);
    }
    const mostForOne = Math.ceil(lanes * WAITING_FOR_ONE);
    const makeRoom = [...waiting.values()].reduce((sum, count) => sum + Math.min(count, mostForOne), 0);
    return lanes + Math.min(makeRoom, waitingLanes) - this.#lanes.size;
  }

  /** Has one lane end where there are more than there should be. @returns whether the one that asks is it */
  #giveWay(): boolean {
    if (this.#excess === 0) return false;
    this.#excess -= 1;
    return true;
  }

  async #wakeDue(): Promise<void> {
    if (performance.now() - this.#wokenAtMs < POLL_MS) return;
    this.#wokenAtMs = performance.now();
    const { db, policy, observe } = this.#options;
    for (const { workerId, partitions, recipients } of await wakePartitions(db, WAKE_LIMIT)) {
      const mostRepeated = Math.min(recipients, mostUnnoted(policy, partitions));
      observe({ kind: "leases-taken-over", level: "warn", worker: workerId, partitions, recipients, mostRepeated });
    }
  }

  /** @param untilMs when they count as lost: the answer may have been long on its way */
  async #startLanes(partitions: readonly LeasedPartition[], untilMs: number): Promise<void> {
    const due = new Map<number, DueDelivery[]>(partitions.map(({ id }) => [id, []]));
    this.#starting = [...due.keys()];
    try {
      for (const delivery of await loadDueDeliveries(this.#options.db, this.#starting)) {
        due.get(delivery.partitionId)?.push(delivery);
      }
      await rankByEngagement(this.#options.db, this.#options.shaping, partitions, due);
      if (performance.now() >= untilMs) for (const { id } of partitions) this.#lost.add(id);
      for (const partition of partitions) this.#startLane(partition, due.get(partition.id) ?? []);
    } finally {
      this.#starting = [];
    }
  }

  #startLane(partition: LeasedPartition, deliveries: readonly DueDelivery[]): void {
    const { shaping, observe } = this.#options;
    const lot = lotOf(partition.destination, partition.pool);
    shaping.begin(lot);
    const lane = new Lane(partition, this.#laneTools());
    const done = lane
      .run(deliveries)
      .catch((error: unknown) => observe({ kind: "lane-failed", level: "error", partition: partition.id, err: error }))
      .finally(() => {
        shaping.end(lot);
        this.#lanes.delete(partition.id);
        this.#lost.delete(partition.id);
        this.#stopped.delete(partition.id);
        if (this.#wasShort) this.#wakeUp.ring();
      });
    this.#lanes.set(partition.id, { instanceId: partition.instanceId, lane, done });
  }

  #laneTools(): LaneTools {
    const { shaping, tools } = this.#options;
    return {
      ...tools,
      writer: this.#writer,
      shaping,
      mayLeave: ({ id }) => this.#mayLeave(id),
      giveWay: () => this.#giveWay(),
      noteDestination: (...note) => this.#noteDestination(...note),
    };
  }

  #mayLeave(partitionId: number): boolean {
    const isHeld = !this.#lost.has(partitionId) && performance.now() < this.#leasesEndAtMs;
    return isHeld && !this.#stopping && !this.#stopped.has(partitionId);
  }

  /** Prolongs the leases well before they end; a lane stops sending when that has not succeeded in time. */
  async #keepLeases(): Promise<void> {
    const { policy, observe } = this.#options;
    while (!this.#stopping) {
      const startedAtMs = performance.now();
      try {
        await this.#prolong();
        this.#leasesEndAtMs = startedAtMs + this.#heldMs;
      } catch (error) {
        observe({ kind: "leases-not-prolonged", level: "warn", err: error });
      }
      await this.#stop.wait((policy.leaseSeconds * 1000) / 4);
    }
  }

  async #prolong(): Promise<void> {
    const lanes = [...this.#lanes.keys()];
    const known = [...lanes, ...this.#starting, ...this.#writer.unreleased];
    if (known.length === 0) return;
    const { db, policy } = this.#options;
    const held = new Set(await extendLeases(db, this.#id, policy.leaseSeconds, known));
    for (const id of lanes) if (!held.has(id) && this.#lanes.has(id)) this.#lost.add(id);
    await this.heedStops();
  }

  #noteDestination(destination: string, sources: readonly string[], trouble: string | undefined): void {
    const change =
      trouble === undefined ? this.#endBackOff(destination, sources[0]!) : this.#backOff(destination, sources, trouble);
    // A back-off that is not stored costs a needless attempt, no more.
    change?.catch((error: unknown) =>
      this.#options.observe({ kind: "back-off-not-stored", level: "warn", err: error }),
    );
  }

  #endBackOff(destination: string, source: string): Promise<void> | undefined {
    const ended = [source, ANY_SOURCE].filter((each) => this.#troubled.delete(lotOf(destination, each)));
    return ended.length === 0 ? undefined : endBackOff(this.#options.db, destination, source);
  }

  async #backOff(destination: string, sources: readonly string[], reason: string): Promise<void> {
    const { db, schedule, policy, tools } = this.#options;
    for (const source of sources) this.#troubled.set(lotOf(destination, source), true);
    const seconds = Math.min(nextAttempt(1, schedule, tools.random) / 1000, policy.mostBackOffSeconds);
    await backOffDestination(db, destination, { sources, seconds, reason });
  }
}
