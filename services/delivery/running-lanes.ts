import type { Lane } from "./lane.ts";
import type { DeliveryPolicy } from "./policy.ts";

/** A lane at work on a partition. */
interface RunningLane {
  readonly instanceId: number;
  readonly lane: Pick<Lane, "waitedMs" | "path">;
  readonly done: Promise<void>;
}

interface BegunLane extends RunningLane {
  readonly beganAtMs: number;
  /** There may be mail of its instance that came after it began. */
  hasNewBehind: boolean;
}

interface LaneNumbers extends Pick<DeliveryPolicy, "waitingLanes"> {
  /** That there are at once, without those that wait (`Scale`). */
  readonly lanes: number;
}

/** A lane whose far side lets it wait for longer makes room for another one. */
const LONG_WAIT_MS = 2_000;
/** Of the lanes that wait for the same servers so many make room, as a part of `lanes`: a slow smart host gets no more. */
const WAITING_FOR_ONE = 1 / 2;
/** One instance leaves so many lanes to others, as a part of `lanes` and of `waitingLanes`; of a few lanes none. */
const LEFT_TO_OTHERS = 1 / 16;
/** A lane behind which new mail waits of its instance goes on for so long at least. */
const LEAST_MS = 1_000;
/** As many lanes above those that there should be are let finish, as a part of `lanes`. */
const TOLERATED_EXCESS = 1 / 4;

/** The lanes of a worker by their partitions: how many each instance has, for how many more there is room, and which are too many. */
export class RunningLanes {
  readonly #lanes = new Map<number, BegunLane>();
  readonly #numbers: () => LaneNumbers;
  /** Lanes that are to end after their message: their far sides answer again, and new mail waits for its turn. */
  #excess = 0;
  /** The same of instances that have more than their share, while others that may have mail have none. */
  #keptFromOthers = new Map<number, number>();
  /** Lanes that have ended. */
  #ended = 0;

  constructor(numbers: () => LaneNumbers) {
    this.#numbers = numbers;
  }

  /** Lanes that have ended, ever. */
  get ended(): number {
    return this.#ended;
  }

  partitions(): Iterable<number> {
    return this.#lanes.keys();
  }

  has(partitionId: number): boolean {
    return this.#lanes.has(partitionId);
  }

  begin(partitionId: number, lane: RunningLane): void {
    this.#lanes.set(partitionId, { ...lane, beganAtMs: performance.now(), hasNewBehind: false });
  }

  /** There may be new mail of these instances, which may go ahead of what their lanes have. */
  notice(instanceIds: readonly number[]): void {
    for (const lane of this.#lanes.values()) lane.hasNewBehind ||= instanceIds.includes(lane.instanceId);
  }

  end(partitionId: number): void {
    this.#lanes.delete(partitionId);
    this.#ended += 1;
  }

  async untilAllEnd(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(({ done }) => done));
  }

  /** What each instance has of the lanes; those that wait for their far sides count from a number on only. */
  busy(): ReadonlyMap<number, number> {
    const mostWaiting = withoutOthers(this.#numbers().waitingLanes);
    const counts = new Map<number, { busy: number; waiting: number }>();
    for (const { instanceId, lane } of this.#lanes.values()) {
      const count = counts.get(instanceId) ?? { busy: 0, waiting: 0 };
      if (lane.waitedMs > LONG_WAIT_MS) count.waiting += 1;
      else count.busy += 1;
      counts.set(instanceId, count);
    }
    return new Map([...counts].map(([id, { busy, waiting }]) => [id, busy + Math.max(0, waiting - mostWaiting)]));
  }

  /** That one instance may have. */
  get mostPerInstance(): number {
    return withoutOthers(this.#numbers().lanes);
  }

  /**
   * How many more lanes there may be; below 0, how many there are too many. What waits for its far side, a dead one for
   * half a minute and a stalled one for longer, holds up no other destination.
   */
  free(): number {
    const { lanes, waitingLanes } = this.#numbers();
    const waiting = new Map<string, number>();
    for (const { lane } of this.#lanes.values()) {
      if (lane.waitedMs > LONG_WAIT_MS) waiting.set(lane.path, (waiting.get(lane.path) ?? 0) + 1);
    }
    const mostForOne = Math.ceil(lanes * WAITING_FOR_ONE);
    const makeRoom = [...waiting.values()].reduce((sum, count) => sum + Math.min(count, mostForOne), 0);
    return lanes + Math.min(makeRoom, waitingLanes) - this.#lanes.size;
  }

  /** Lanes beyond those that there should be that are let finish. */
  get tolerated(): number {
    return Math.floor(this.#numbers().lanes * TOLERATED_EXCESS);
  }

  /**
   * Has as many end as a look has found to be too many.
   * @param free as it began
   * @param busy the same, where others were kept out for want of lanes
   */
  limit(free: number, busy: ReadonlyMap<number, number>): void {
    this.#excess = Math.max(0, -free - this.tolerated);
    const beyond = [...busy].map(([id, count]) => [id, count - this.mostPerInstance] as const);
    this.#keptFromOthers = new Map(beyond.filter(([, count]) => count > 0));
  }

  /**
   * Whether new mail waits behind a lane, and has waited long enough: it is looked for before the lane's partition goes on. To be asked
   * where lanes or slots are scarce.
   */
  isInTheWay(partitionId: number): boolean {
    const lane = this.#lanes.get(partitionId);
    return lane?.hasNewBehind === true && performance.now() - lane.beganAtMs >= LEAST_MS;
  }

  /** Has one lane end where there are more than there should be. @returns whether the one that asks is it */
  giveWay(instanceId: number): boolean {
    const kept = this.#keptFromOthers.get(instanceId) ?? 0;
    if (kept > 0) this.#keptFromOthers.set(instanceId, kept - 1);
    const isTooMuch = this.#excess > 0 || kept > 0;
    if (this.#excess > 0) this.#excess -= 1;
    return isTooMuch;
  }
}

/** One instance's part of so many lanes. */
function withoutOthers(lanes: number): number {
  return lanes - Math.floor(lanes * LEFT_TO_OTHERS);
}
