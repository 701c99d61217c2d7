import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { nextAttempt, type RetrySchedule } from "../core/mail/retry.ts";
import { recentMap } from "../core/recent-map.ts";
import type { AttemptLog } from "../operations/mail/attempt-log.ts";
import { withoutBarred } from "../operations/mail/late-withdrawals.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { byPlace, isSpread } from "../store/mail/by-instance.ts";
import { ANY_SOURCE, lotOf } from "../store/mail/queue/lease-partitions.ts";
import { assignPools, movePartitions } from "../store/mail/queue/pool-assignments.ts";
import { backOffDestination, endBackOff } from "../store/mail/queue/queue-backoffs.ts";
import { listHeldDestinations } from "../store/mail/queue/queue-destinations.ts";
import {
  type DueDelivery,
  extendLeases,
  type LeasedPartition,
  loadDueDeliveries,
} from "../store/mail/queue/queue-leases.ts";
import { acknowledgeStops, findStops } from "../store/mail/queue/queue-stops.ts";
import { Lane, type LaneTools } from "./lane.ts";
import { OutcomeWriter } from "./outcome-writer.ts";
import { rankByEngagement } from "./pace/engagement.ts";
import type { PaceKeeper } from "./pace/pace-keeper.ts";
import { type DeliveryPolicy, mostUnnoted, type Scale, scaleOf } from "./policy.ts";
import type { QueueLook } from "./queue-look.ts";
import { QueueTurns } from "./queue-turns.ts";
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
/** The same where instances are spread over machines: what each costs more is saved while nothing happens. */
const RARE_POLL_MS = 2_000;
const AFTER_FAILURE_MS = 1_000;
/**
 * Looks begin this far apart: when much arrives at once, one look takes for many notices. Mail that comes while nothing
 * else does is looked for at once.
 */
const BETWEEN_LOOKS_MS = 40;
/** Where instances are spread over machines, looks begin at most so far apart while few lanes are free. */
const MOST_BETWEEN_LOOKS_MS = 160;
/** With so many that are free, or will be when a look ends, many lanes are: a part of `lanes`. */
const MANY_FREE = 1 / 2;
const FEW_MS = 10;
/** Destinations in back-off that are remembered; of a forgotten one the back-off ends by itself. */
const MOST_TROUBLED = 10_000;
/** Workers that died and are remembered. */
const MOST_DEAD = 1_000;
/** A lane whose far side lets it wait for longer makes room for another one. */
const LONG_WAIT_MS = 2_000;
/** Of the lanes that wait for the same servers so many make room, as a part of `lanes`: a slow smart host gets no more. */
const WAITING_FOR_ONE = 1 / 2;
/** One instance leaves so many lanes to others, as a part of `lanes` and of `waitingLanes`; of a few lanes none. */
const LEFT_TO_OTHERS = 1 / 16;
/** As many lanes above those that there should be are let finish, as a part of `lanes`. */
const TOLERATED_EXCESS = 1 / 4;
/** Statements at a time, of different places. */
const AT_ONCE = 4;
/** Of all instances, where one machine has them all. */
const ONE_PLACE = 0;
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
  /** Partitions that were leased, until their lanes are done: until when that is certain, by `performance.now()`. */
  readonly #leases = new Map<number, { readonly instanceId: number; untilMs: number }>();
  /** Partitions of which no further message may begin. */
  readonly #stopped = new Set<number>();
  /** Sources in back-off, with their destinations, as far as this worker knows. */
  readonly #troubled = recentMap<string, true>(MOST_TROUBLED);
  /** Workers whose leases ran out, for a lease's time: messages of their windows that were not told of yet. */
  readonly #takenFrom = recentMap<string, { readonly windows: number; readonly untilMs: number }>(MOST_DEAD);
  /** Lanes that are to end after their message: their far sides answer again, and new mail waits for its turn. */
  #excess = 0;
  /** The same of instances that have more than their share, while others that may have mail have none. */
  #keptFromOthers = new Map<number, number>();
  readonly #turns: QueueTurns;
  /** Notices of stops that have come: what was leased meanwhile is asked for as well. */
  #stopNotices = 0;
  /** The last look left something behind, for want of a lane or of room at a destination. */
  #wasShort = false;
  /** An instance had its share of the lanes when the last look began, and may have more mail. */
  #wasFull = false;
  /** Lanes that have ended. */
  #ended = 0;
  /** So many ended during the last look. */
  #endInALook = 0;
  /** Each instance may be on another machine of the database; known before any lane begins. */
  #isSpread = false;
  #stopping = false;
  #running: Promise<unknown> | undefined;

  constructor(options: WorkerOptions) {
    const { db, hardBouncesToInvalidate, attempts, observe } = options;
    this.#options = options;
    this.#turns = new QueueTurns(db, options.tools.sources.sources);
    const rule = { hardBouncesToInvalidate };
    const placeOf = (instanceId: number) => (this.#isSpread ? instanceId : ONE_PLACE);
    const writer = { db, workerId: this.#id, placeOf, window: () => this.#scale, rule, attempts, observe };
    this.#writer = new OutcomeWriter(writer);
  }

  get #scale(): Scale {
    return scaleOf(this.#options.policy, this.#isSpread);
  }

  start(): void {
    this.#options.pace?.start(() => this.wake());
    this.#running = Promise.all([this.#fillLanes(), this.#keepLeases()]);
  }

  /** There may be new mail of these instances. */
  wake(instanceIds: "all" | readonly number[] = "all"): void {
    this.#turns.notice(instanceIds);
    this.#wakeUp.ring();
  }

  /** A batch or a destination may have been stopped, or what messages say have changed. */
  async heedNotice(): Promise<void> {
    this.#options.tools.messages.forget();
    await this.#heedStops();
  }

  /** A batch or a destination may have been stopped: its lanes begin no further message, and the database is told so. */
  async #heedStops(): Promise<void> {
    const { db, observe } = this.#options;
    this.#stopNotices += 1;
    try {
      const instances = [...new Set([...this.#leases.values()].map(({ instanceId }) => instanceId))];
      if (instances.length === 0) return;
      const held = await listHeldDestinations(db);
      const keys = instances.map((instanceId) => ({ instanceId }));
      await this.#byPlace(keys, async (own) => {
        const ids = own.map(({ instanceId }) => instanceId);
        const stopped = await findStops(db, this.#id, ids, held);
        for (const { id } of stopped) this.#stopped.add(id);
        if (stopped.length > 0) await acknowledgeStops(db, this.#id, stopped);
      });
    } catch (error) {
      observe({ kind: "stops-not-read", level: "warn", err: error }); // asked again with the next lease
    }
  }

  /** Each place by itself: one that does not answer holds up no other. @throws the first failure, at the end */
  async #byPlace<Row extends { readonly instanceId: number }>(
    rows: readonly Row[],
    work: (own: readonly Row[]) => Promise<void>,
  ): Promise<void> {
    const failures: unknown[] = [];
    await fewAtOnce(await byPlace(this.#options.db, rows), { pieces: AT_ONCE }, async (own) => {
      await work(own).catch((error: unknown) => failures.push(error));
    });
    if (failures.length > 0) throw failures[0];
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
        this.#isSpread = await isSpread(db);
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
      const endedBefore = this.#ended;
      const found = await this.#leaseSome().catch((error: unknown) => {
        this.#options.observe({ kind: "queue-not-read", level: "error", err: error });
        return undefined;
      });
      this.#endInALook = this.#ended - endedBefore;
      if (found === undefined) await this.#wakeUp.wait(AFTER_FAILURE_MS);
      else if (found === 0) await this.#wakeUp.wait(this.#isSpread ? RARE_POLL_MS : POLL_MS);
      await this.#rest(lookedAtMs);
    }
  }

  /** Until the next look may begin. Where each instance costs statements of its own, it is to have many lanes to fill. */
  async #rest(lookedAtMs: number): Promise<void> {
    const restMs = lookedAtMs + BETWEEN_LOOKS_MS - performance.now();
    if (restMs > 0) await sleep(restMs);
    while (this.#isSpread && !this.#stopping && !this.#hasManyFree) {
      if (performance.now() >= lookedAtMs + MOST_BETWEEN_LOOKS_MS) return;
      await sleep(FEW_MS);
    }
  }

  /** @returns how many partitions were taken; a free lane, new mail or time lead to the next look */
  async #leaseSome(): Promise<number> {
    const { policy, shaping } = this.#options;
    const { lanes } = this.#scale;
    const free = this.#freeLanes();
    const limit = Math.max(0, free + this.#soonFree);
    const busy = this.#busy();
    const partitionsPerInstance = lanes - Math.floor(lanes * LEFT_TO_OTHERS);
    const room = shaping.room();
    this.#wasFull = [...busy.values()].some((count) => count >= partitionsPerInstance);
    this.#wasShort = limit === 0 || [...room.values()].includes(0);
    const askedAtMs = performance.now();
    const stopNotices = this.#stopNotices;
    const look = await this.#turns.look({
      workerId: this.#id,
      limit,
      leaseSeconds: policy.leaseSeconds,
      busy,
      partitionsPerInstance,
      room,
      partitionsPerDestination: Math.min(PARTITIONS_AT_ONCE, policy.groups.default.connections),
      unfinished: [...this.#lanes.keys(), ...this.#writer.unreleased.keys()],
    });
    this.#tell(look);
    this.#excess = Math.max(0, -free - Math.floor(lanes * TOLERATED_EXCESS));
    const beyond = [...busy].map(([id, count]) => [id, look.isKeptOut ? count - partitionsPerInstance : 0] as const);
    this.#keptFromOthers = new Map(beyond.filter(([, count]) => count > 0));
    if (look.taken.length === 0) {
      if (look.failures.length > 0) throw look.failures[0];
      return look.goesOn ? 1 : 0;
    }
    for (const { id, instanceId } of look.taken) {
      this.#leases.set(id, { instanceId, untilMs: askedAtMs + this.#heldMs });
    }
    if (this.#stopNotices > stopNotices) await this.#heedStops();
    await this.#startLanes(look.taken);
    return look.taken.length;
  }

  #tell({ abandoned, failures, taken }: QueueLook): void {
    const { observe } = this.#options;
    for (const { workerId, partitions, recipients } of abandoned) {
      const mostRepeated = this.#takeUnnoted(workerId, { partitions, recipients });
      observe({ kind: "leases-taken-over", level: "warn", worker: workerId, partitions, recipients, mostRepeated });
    }
    if (taken.length > 0) for (const err of failures) observe({ kind: "queue-not-read", level: "error", err });
  }

  /** What is taken over in parts was in the windows of one worker: what was told is left out. */
  #takeUnnoted(workerId: string, { partitions, recipients }: { partitions: number; recipients: number }): number {
    const known = this.#takenFrom.get(workerId);
    const isOver = known === undefined || known.untilMs < performance.now();
    const windows = isOver ? mostUnnoted(this.#scale, 0) : known.windows;
    const told = Math.min(recipients, windows + partitions);
    const untilMs = performance.now() + 1_000 * this.#options.policy.leaseSeconds;
    this.#takenFrom.set(workerId, { windows: windows - Math.max(0, told - partitions), untilMs });
    return told;
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

  /** What each instance has of the lanes; those that wait for their far sides count from a number on only. */
  #busy(): ReadonlyMap<number, number> {
    const { waitingLanes } = this.#options.policy;
    const mostWaiting = waitingLanes - Math.floor(waitingLanes * LEFT_TO_OTHERS);
    const counts = new Map<number, { busy: number; waiting: number }>();
    for (const { instanceId, lane } of this.#lanes.values()) {
      const count = counts.get(instanceId) ?? { busy: 0, waiting: 0 };
      if (lane.waitedMs > LONG_WAIT_MS) count.waiting += 1;
      else count.busy += 1;
      counts.set(instanceId, count);
    }
    return new Map([...counts].map(([id, { busy, waiting }]) => [id, busy + Math.max(0, waiting - mostWaiting)]));
  }

  /**
   * How many more lanes there may be; below 0, how many there are too many. What waits for its far side, a dead one for
   * half a minute and a stalled one for longer, holds up no other destination.
   */
  #freeLanes(): number {
    const { lanes } = this.#scale;
    const { waitingLanes } = this.#options.policy;
    const waiting = new Map<string, number>();
    for (const { lane } of this.#lanes.values()) {
      if (lane.waitedMs > LONG_WAIT_MS) waiting.set(lane.path, (waiting.get(lane.path) ?? 0) + 1);
    }
    const mostForOne = Math.ceil(lanes * WAITING_FOR_ONE);
    const makeRoom = [...waiting.values()].reduce((sum, count) => sum + Math.min(count, mostForOne), 0);
    return lanes + Math.min(makeRoom, waitingLanes) - this.#lanes.size;
  }

  /** Enough for a look to be worth its cost. */
  get #hasManyFree(): boolean {
    return this.#freeLanes() + this.#soonFree >= this.#scale.lanes * MANY_FREE;
  }

  /**
   * Lanes that will have ended when a look ends that begins now, as during the last one: where a look takes long it fills
   * these too. Those of slow far sides do not end, and nothing is taken ahead for them.
   */
  get #soonFree(): number {
    return this.#isSpread ? Math.min(this.#endInALook, Math.floor(this.#scale.lanes * TOLERATED_EXCESS)) : 0;
  }

  /** Has one lane end where there are more than there should be. @returns whether the one that asks is it */
  #giveWay(instanceId: number): boolean {
    const kept = this.#keptFromOthers.get(instanceId) ?? 0;
    if (kept > 0) this.#keptFromOthers.set(instanceId, kept - 1);
    const isTooMuch = this.#excess > 0 || kept > 0;
    if (this.#excess > 0) this.#excess -= 1;
    return isTooMuch;
  }

  async #startLanes(taken: readonly LeasedPartition[]): Promise<void> {
    await this.#byPlace(taken, async (own) => {
      try {
        await this.#startLanesOf(own);
      } finally {
        // What was not begun goes to others when its lease ends.
        for (const { id } of own) if (!this.#lanes.has(id)) this.#leases.delete(id);
      }
    });
  }

  async #startLanesOf(taken: readonly LeasedPartition[]): Promise<void> {
    const { db, shaping } = this.#options;
    const partitions = await this.#putRight(taken);
    const due = new Map<number, DueDelivery[]>(partitions.map(({ id }) => [id, []]));
    const loaded = await withoutBarred(db, partitions, await loadDueDeliveries(db, partitions));
    for (const delivery of loaded) due.get(delivery.partitionId)?.push(delivery);
    await rankByEngagement(db, shaping, partitions, due);
    for (const partition of partitions) this.#startLane(partition, due.get(partition.id) ?? []);
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
        this.#ended += 1;
        this.#leases.delete(partition.id);
        this.#stopped.delete(partition.id);
        if (this.#wasShort || (this.#wasFull && this.#hasManyFree)) this.#wakeUp.ring();
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
      giveWay: ({ instanceId }) => this.#giveWay(instanceId),
      noteDestination: (...note) => this.#noteDestination(...note),
    };
  }

  #mayLeave(partitionId: number): boolean {
    const isHeld = performance.now() < (this.#leases.get(partitionId)?.untilMs ?? 0);
    return isHeld && !this.#stopping && !this.#stopped.has(partitionId);
  }

  /** Prolongs the leases well before they end; a lane stops sending when that has not succeeded in time. */
  async #keepLeases(): Promise<void> {
    const { policy, observe } = this.#options;
    while (!this.#stopping) {
      try {
        await this.#prolong();
      } catch (error) {
        observe({ kind: "leases-not-prolonged", level: "warn", err: error });
      }
      await this.#stop.wait((policy.leaseSeconds * 1000) / 4);
    }
  }

  async #prolong(): Promise<void> {
    const { db, policy } = this.#options;
    const known = new Map([...this.#leases].map(([id, { instanceId }]) => [id, instanceId] as const));
    for (const [id, instanceId] of this.#writer.unreleased) known.set(id, instanceId);
    const untilMs = performance.now() + this.#heldMs;
    const partitions = [...known].map(([id, instanceId]) => ({ instanceId, id }));
    try {
      await this.#byPlace(partitions, async (own) => {
        const held = new Set(await extendLeases(db, this.#id, policy.leaseSeconds, own));
        for (const { id } of own) {
          const lease = this.#leases.get(id);
          if (lease !== undefined) lease.untilMs = held.has(id) ? untilMs : 0;
        }
      });
    } finally {
      await this.#heedStops();
    }
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
