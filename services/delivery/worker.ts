import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { queueOf } from "../core/mail/queue/destination-queue.ts";
import type { RetrySchedule } from "../core/mail/retry.ts";
import { recentMap } from "../core/recent-map.ts";
import type { AttemptLog } from "../operations/mail/attempt-log.ts";
import { withoutBarred } from "../operations/mail/late-withdrawals.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { WakeUp } from "../platform/wake-up.ts";
import { isSpread } from "../store/mail/by-instance.ts";
import { assignPools, movePartitions } from "../store/mail/queue/pool-assignments.ts";
import { type DueDelivery, type LeasedPartition, loadDueDeliveries } from "../store/mail/queue/queue-leases.ts";
import { eachPlace } from "./each-place.ts";
import { HeldLeases } from "./held-leases.ts";
import { Lane, type LaneTools } from "./lane.ts";
import { OutcomeWriter } from "./outcome-writer.ts";
import { rankByEngagement } from "./pace/engagement.ts";
import type { PaceKeeper } from "./pace/pace-keeper.ts";
import { type DeliveryPolicy, mostUnnoted, type Scale, scaleOf } from "./policy.ts";
import type { LookResult } from "./queue-look.ts";
import { QueueTurns } from "./queue-turns.ts";
import { RunningLanes } from "./running-lanes.ts";
import { PARTITIONS_AT_ONCE, type TrafficShaping } from "./shaping.ts";
import { TroubledDestinations } from "./troubled-destinations.ts";

interface WorkerOptions {
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
  readonly tools: Omit<LaneTools, "writer" | "shaping" | "mayLeave" | "giveWay" | "troubled">;
}

/** How often the queue is looked at when nobody tells of new mail. */
const POLL_MS = 500;
/** The same where instances are spread over machines: what each costs more is saved while nothing happens. */
const RARE_POLL_MS = 2_000;
const AFTER_FAILURE_MS = 1_000;
/**
 * Looks begin this far apart: when much arrives at once, one look takes for many notices. Mail that comes while nothing
 * else does is looked for at once, and mail that a look has left for want of lanes when many are free.
 */
const BETWEEN_LOOKS_MS = 40;
/** Where instances are spread over machines, looks begin at most so far apart while few lanes are free. */
const MOST_BETWEEN_LOOKS_MS = 160;
/** With so many that are free, or will be when a look ends, many lanes are: a part of `lanes`. */
const MANY_FREE = 1 / 2;
const FEW_MS = 5;
/** Workers that died and are remembered. */
const MOST_DEAD = 1_000;
/** Of all instances, where one machine has them all. */
const ONE_PLACE = 0;
const NO_INSTANCES: ReadonlyMap<number, number> = new Map();

/** `more`: a part of what some instance has; `failed`: the queue could not be read. */
type Found = "nothing" | "some" | "more" | "failed";

/**
 * Whether a lane that ends leads to a look: `with each` after one that lacked lanes, or slots of a destination queue, `when many
 * are free` after one that began with an instance at its share of the lanes, which may have more mail.
 */
type LookTrigger = "never by a lane" | "with each" | "when many are free";

/**
 * Leases partitions as lanes become free, and runs them. Any number of workers share a queue; what one that died held
 * goes to others when its lease ends, and a worker that cannot prolong its leases stops sending before they do.
 */
export class DeliveryWorker {
  readonly #id = randomUUID();
  readonly #options: WorkerOptions;
  readonly #writer: OutcomeWriter;
  readonly #wakeUp = new WakeUp();
  readonly #leases: HeldLeases;
  readonly #lanes: RunningLanes;
  readonly #troubled: TroubledDestinations;
  /** Workers whose leases ran out, for a lease's time: messages of their windows that were not told of yet. */
  readonly #takenFrom = recentMap<string, { readonly windows: number; readonly untilMs: number }>(MOST_DEAD);
  readonly #turns: QueueTurns;
  /** What leads to the next look, beside notice and time. */
  #lookTrigger: LookTrigger = "never by a lane";
  /** Lanes that ended during the last look. */
  #endInALook = 0;
  /** Each instance may be on another machine of the database; known before any lane begins. */
  #isSpread = false;
  #stopping = false;
  #running: Promise<unknown> | undefined;

  constructor(options: WorkerOptions) {
    const { db, policy, schedule, hardBouncesToInvalidate, attempts, observe, tools } = options;
    const workerId = this.#id;
    this.#options = options;
    this.#turns = new QueueTurns(db, tools.sources.sources);
    const rule = { hardBouncesToInvalidate };
    const placeOf = (instanceId: number) => (this.#isSpread ? instanceId : ONE_PLACE);
    this.#writer = new OutcomeWriter({ db, workerId, placeOf, window: () => this.#scale, rule, attempts, observe });
    const unreleased = () => this.#writer.unreleased;
    this.#leases = new HeldLeases({ db, workerId, leaseSeconds: policy.leaseSeconds, unreleased, observe });
    this.#lanes = new RunningLanes(() => ({ lanes: this.#scale.lanes, waitingLanes: policy.waitingLanes }));
    const { mostBackOffSeconds } = policy;
    this.#troubled = new TroubledDestinations({ db, schedule, mostBackOffSeconds, random: tools.random, observe });
  }

  get #scale(): Scale {
    return scaleOf(this.#options.policy, this.#isSpread);
  }

  start(): void {
    this.#options.pace?.start(() => this.wake());
    this.#running = Promise.all([this.#fillLanes(), this.#leases.keep()]);
  }

  /** There may be new mail of these instances. */
  wake(instanceIds: "all" | readonly number[] = "all"): void {
    this.#turns.notice(instanceIds);
    if (instanceIds !== "all") this.#lanes.notice(instanceIds);
    this.#wakeUp.ring();
  }

  /** A batch or a destination may have been stopped, or what messages say have changed. */
  async heedNotice(): Promise<void> {
    this.#options.tools.messages.forget();
    await this.#leases.heedStops();
  }

  /** Finishes the messages that are on their way, stores what became of them, gives the rest back. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wakeUp.ring();
    this.#leases.end();
    this.#options.pace?.dismiss();
    await this.#running;
    await this.#lanes.untilAllEnd();
    await Promise.all([this.#writer.drain(), this.#options.pace?.stop()]);
    this.#options.tools.sessions.close();
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
      const endedBefore = this.#lanes.ended;
      const found = await this.#leaseSome().catch((error: unknown): Found => {
        this.#options.observe({ kind: "queue-not-read", level: "error", err: error });
        return "failed";
      });
      this.#endInALook = this.#lanes.ended - endedBefore;
      if (found === "failed") await this.#wakeUp.wait(AFTER_FAILURE_MS);
      else if (found === "nothing") await this.#wakeUp.wait(this.#isSpread ? RARE_POLL_MS : POLL_MS);
      await this.#rest(lookedAtMs, found === "more");
    }
  }

  /** Until the next look may begin. Where each instance costs statements of its own, it is to have many lanes to fill. */
  async #rest(lookedAtMs: number, isMoreReady: boolean): Promise<void> {
    const leastMs = isMoreReady && !this.#isSpread ? 0 : BETWEEN_LOOKS_MS;
    const mostMs = this.#isSpread ? MOST_BETWEEN_LOOKS_MS : BETWEEN_LOOKS_MS;
    for (;;) {
      const restedMs = performance.now() - lookedAtMs;
      if (restedMs >= mostMs || (restedMs >= leastMs && this.#hasManyFree)) return;
      await sleep(Math.min(FEW_MS, mostMs - restedMs));
      if (this.#stopping) return;
    }
  }

  /** Looks at the queue once, and begins lanes for what it leases. */
  async #leaseSome(): Promise<Found> {
    const { policy, shaping } = this.#options;
    const free = this.#lanes.free();
    const limit = Math.max(0, free + this.#soonFree);
    const busy = this.#lanes.busy();
    const partitionsPerInstance = this.#lanes.mostPerInstance;
    const slots = shaping.freeSlots();
    const isFull = [...busy.values()].some((count) => count >= partitionsPerInstance);
    const isShort = limit === 0 || [...slots.values()].includes(0);
    this.#lookTrigger = isShort ? "with each" : isFull ? "when many are free" : "never by a lane";
    const mark = this.#leases.mark();
    const look = await this.#turns.look({
      workerId: this.#id,
      limit,
      leaseSeconds: policy.leaseSeconds,
      busy,
      partitionsPerInstance,
      slots,
      slotsPerQueue: Math.min(PARTITIONS_AT_ONCE, policy.groups.default.connections),
      unfinished: [...this.#lanes.partitions(), ...this.#writer.unreleased.keys()],
    });
    this.#tell(look);
    this.#lanes.limit(free, look.isKeptOut ? busy : NO_INSTANCES);
    if (look.taken.length === 0) {
      if (look.failures.length > 0) throw look.failures[0];
      return look.goesOn ? "some" : "nothing";
    }
    await this.#leases.add(look.taken, mark);
    await this.#startLanes(look.taken);
    return look.leavesSome ? "more" : "some";
  }

  #tell({ abandoned, failures, taken }: LookResult): void {
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

  /** The partitions in the pools that their campaigns have now: some were queued just before pools were assigned anew. */
  async #moveToTheirPools(partitions: readonly LeasedPartition[]): Promise<readonly LeasedPartition[]> {
    const { db, tools } = this.#options;
    const right = partitions.map((partition) => {
      const { instanceName, campaignNumid } = partition.message;
      return { ...partition, pool: tools.sources.poolOf(instanceName, campaignNumid) };
    });
    const moved = right.filter(({ pool }, index) => pool !== partitions[index]!.pool);
    await movePartitions(db, moved);
    return right;
  }

  /** Whether a lane that has just ended leads to a look. */
  get #isToLookAgain(): boolean {
    return this.#lookTrigger === "with each" || (this.#lookTrigger === "when many are free" && this.#hasManyFree);
  }

  /** Enough for a look to be worth its cost. */
  get #hasManyFree(): boolean {
    return this.#lanes.free() + this.#soonFree >= this.#scale.lanes * MANY_FREE;
  }

  /**
   * Lanes that will have ended when a look ends that begins now, as during the last one: where a look takes long it fills
   * these too. Those of slow far sides do not end, and nothing is taken ahead for them.
   */
  get #soonFree(): number {
    return this.#isSpread ? Math.min(this.#endInALook, this.#lanes.tolerated) : 0;
  }

  async #startLanes(taken: readonly LeasedPartition[]): Promise<void> {
    await eachPlace(this.#options.db, taken, async (own) => {
      try {
        await this.#startLanesOf(own);
      } finally {
        // What was not begun goes to others when its lease ends.
        for (const { id } of own) if (!this.#lanes.has(id)) this.#leases.drop(id);
      }
    });
  }

  async #startLanesOf(taken: readonly LeasedPartition[]): Promise<void> {
    const { db, shaping } = this.#options;
    const partitions = await this.#moveToTheirPools(taken);
    const due = new Map<number, DueDelivery[]>(partitions.map(({ id }) => [id, []]));
    const loaded = await withoutBarred(db, partitions, await loadDueDeliveries(db, partitions));
    for (const delivery of loaded) due.get(delivery.partitionId)?.push(delivery);
    for (const [id, deliveries] of due) due.set(id, inTurn(deliveries));
    await rankByEngagement(db, shaping, partitions, due);
    for (const partition of partitions) this.#startLane(partition, due.get(partition.id) ?? []);
  }

  #startLane(partition: LeasedPartition, deliveries: readonly DueDelivery[]): void {
    const { shaping, observe } = this.#options;
    const queue = queueOf(partition.destination, partition.pool);
    shaping.begin(queue);
    const lane = new Lane(partition, this.#laneTools());
    const done = lane
      .run(deliveries)
      .catch((error: unknown) => observe({ kind: "lane-failed", level: "error", partition: partition.id, err: error }))
      .finally(() => {
        shaping.end(queue);
        this.#lanes.end(partition.id);
        this.#leases.drop(partition.id);
        if (this.#isToLookAgain) this.#wakeUp.ring();
      });
    this.#lanes.begin(partition.id, { instanceId: partition.instanceId, lane, done });
  }

  /** Whether a lane is to end for new mail of its instance, which the next look takes. */
  #makeRoom({ id }: LeasedPartition): boolean {
    if (this.#lookTrigger === "never by a lane" || !this.#lanes.isInTheWay(id)) return false;
    this.#lookTrigger = "with each";
    return true;
  }

  #laneTools(): LaneTools {
    const { shaping, tools } = this.#options;
    return {
      ...tools,
      writer: this.#writer,
      shaping,
      mayLeave: ({ id }) => this.#leases.mayLeave(id),
      giveWay: (partition) => this.#lanes.giveWay(partition.instanceId) || this.#makeRoom(partition),
      troubled: this.#troubled,
    };
  }
}

/**
 * Those who were tried least and those who were tried most by turns: nobody is always behind the same who are refused, and
 * whom a greylist knows by now show that others may be tried.
 */
function inTurn(deliveries: readonly DueDelivery[]): DueDelivery[] {
  const ordered = deliveries.toSorted((a, b) => a.attempts - b.attempts);
  if (ordered[0]?.attempts === ordered.at(-1)?.attempts) return ordered;
  const most = ordered.splice(Math.ceil(ordered.length / 2)).reverse();
  return ordered.flatMap((least, index) => [least, ...most.slice(index, index + 1)]);
}
