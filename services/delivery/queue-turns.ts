import { InstanceTurn } from "../core/mail/queue/instance-turn.ts";
import { fairShares } from "../core/mail/queue/lane-shares.ts";
import { inTurns, lastWithItsTurn, leastBusyFirst } from "../core/mail/queue/turn-order.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import type { Db } from "../platform/postgres/db.ts";
import { byPlace, isSpread } from "../store/mail/by-instance.ts";
import { listWork, putOffWork } from "../store/mail/queue/mail-work.ts";
import { wakePartitions } from "../store/mail/queue/queue-leases.ts";
import { KnownBackOffs } from "./known-back-offs.ts";
import { type LookRequest, type LookResult, QueueLook } from "./queue-look.ts";

/** Instances that are asked at once. */
const INSTANCES_PER_LOOK = 100;
/**
 * Where each instance costs a statement of its own, here and for what becomes of its mail, one is asked at once for each so
 * many partitions that there is room for, and one at least.
 */
const PARTITIONS_PER_PLACE = 48;
/** Destination queues that one look visits at most, shared by the instances that it asks. */
const QUEUES_PER_LOOK = 500;
/** Destination queues that one look visits of each instance at least. */
const QUEUES_PER_INSTANCE = 10;
/** A look asks so often: what some instances leave of their shares goes to others. It ends when all were asked in vain. */
const ROUNDS = 3;
/** Partitions of each kind that are made ready at once. */
const WAKE_LIMIT = 1_000;
/** Statements at a time, of different places. */
const AT_ONCE = 4;
/** Looks at those that had nothing are put off together, so often. */
const PUT_OFF_MS = 500;

/**
 * Takes partitions of the queue for one worker: of the instances that have work those first that have the fewest under way,
 * and equal ones in turn; of each a few from each destination queue in turn. A statement is about all that one machine has.
 */
export class QueueTurns {
  readonly #db: Db;
  readonly #backOffs: KnownBackOffs;
  readonly #nowMs: () => number;
  /** Of each instance that has work. */
  readonly #turns = new Map<number, InstanceTurn>();
  /** The instance behind which the next look begins. */
  #after = 0;
  #putOffAtMs = 0;

  /**
   * @param sources where the mail of each pool leaves from; '' is the default pool
   * @param nowMs a monotonic clock
   */
  constructor(db: Db, sources: ReadonlyMap<string, readonly string[]>, nowMs = () => performance.now()) {
    this.#db = db;
    this.#nowMs = nowMs;
    this.#backOffs = new KnownBackOffs(sources, nowMs);
  }

  /** There may be new mail of these instances. */
  notice(instanceIds: "all" | readonly number[]): void {
    if (instanceIds === "all") this.#backOffs.forget();
    const noticed = instanceIds === "all" ? [...this.#turns.keys()] : instanceIds;
    for (const id of noticed) this.#turns.get(id)?.notice();
  }

  /** Looks at the queue once. With a limit of 0 only what is due is made ready. */
  async look(request: LookRequest): Promise<LookResult> {
    const { instanceIds, now, held } = await listWork(this.#db);
    await this.#backOffs.read(this.#db, { held, now });
    const look = new QueueLook(this.#db, this.#backOffs, now, request);
    const known = this.#remember(instanceIds, look.atMs);
    await this.#makeDueReady(look);
    let open = inTurns(
      known.filter((turn) => turn.isToAsk(look)),
      this.#after,
    );
    const isKeptOut = look.free === 0 && open.some(({ instanceId }) => look.busyOf(instanceId) === 0);
    for (let round = 0; round < ROUNDS && open.length > 0 && look.free > 0; round += 1) {
      const { free } = look;
      const { left, wereAllAsked } = await this.#ask(open, look);
      open = left;
      if (look.free === free && wereAllAsked) break;
    }
    const isAnyLeft = look.free > 0 && open.length > 0;
    const hasAnyCome = await this.#putOffEmpty(look);
    const { taken, abandoned, failures, leavesSome } = look;
    return { taken, abandoned, failures, leavesSome, isKeptOut, goesOn: isAnyLeft || hasAnyCome };
  }

  /** Has the turns be those of the instances that have work now. @returns them, in the order given */
  #remember(instanceIds: readonly number[], atMs: number): InstanceTurn[] {
    const haveWork = new Set(instanceIds);
    for (const id of this.#turns.keys()) if (!haveWork.has(id)) this.#turns.delete(id);
    return instanceIds.map((id) => {
      const turn = this.#turns.get(id) ?? new InstanceTurn(id, atMs);
      this.#turns.set(id, turn);
      return turn;
    });
  }

  /** Makes ready what has become due of those that have much else, of those first that waited for it longest. */
  async #makeDueReady(look: QueueLook): Promise<void> {
    const waiting = [...this.#turns.values()].filter((turn) => turn.isToMakeReady(look.atMs));
    const longest = waiting.toSorted((one, other) => one.madeReadyAtMs - other.madeReadyAtMs);
    await this.#byPlace(longest.slice(0, INSTANCES_PER_LOOK), look, (turns) => this.#makeReady(turns, look));
  }

  async #makeReady(turns: readonly InstanceTurn[], look: QueueLook): Promise<void> {
    if (turns.length === 0) return;
    const ids = turns.map(({ instanceId }) => instanceId);
    const { woken, abandoned } = await wakePartitions(this.#db, ids, WAKE_LIMIT);
    look.abandoned.push(...abandoned);
    const hadDue = new Set(woken);
    for (const turn of turns) turn.madeReady(look.atMs, hadDue.has(turn.instanceId));
  }

  /**
   * Asks some of the instances, or all, for fair shares of what may be taken yet.
   * @returns those that may have more, and whether all were asked
   */
  async #ask(
    open: readonly InstanceTurn[],
    look: QueueLook,
  ): Promise<{ readonly left: InstanceTurn[]; readonly wereAllAsked: boolean }> {
    const isFirst = look.taken.length === 0;
    const shares = await this.#sharesOf(open, look);
    const mostQueues = Math.max(QUEUES_PER_INSTANCE, Math.floor(QUEUES_PER_LOOK / Math.max(1, shares.size)));
    const shareOf = (turn: InstanceTurn) => shares.get(turn) ?? 0;
    const visit = async (turns: readonly InstanceTurn[]) => {
      const visits = await look.ask(turns.map((turn) => turn.ask(shareOf(turn), mostQueues, look.atMs)));
      for (const each of visits) this.#turns.get(each.ask.instanceId)!.visited(each, look);
      await this.#makeReady(
        turns.filter((turn) => turn.isEmptyButDue(look.atMs)),
        look,
      );
    };
    await this.#byPlace([...shares.keys()], look, visit, shareOf);
    const wereAllAsked = shares.size === open.length;
    // Who is asked for what others left keeps its turn.
    if (isFirst) {
      const asked = open.filter((turn) => shares.has(turn));
      this.#after = lastWithItsTurn(asked, wereAllAsked)?.instanceId ?? this.#after;
    }
    const { partitionsPerInstance } = look.request;
    const mayHaveMore = (turn: InstanceTurn) =>
      shares.has(turn) ? turn.isOpen(look.atMs) : look.busyOf(turn.instanceId) < partitionsPerInstance;
    return { left: open.filter(mayHaveMore), wereAllAsked };
  }

  /** What each instance is asked for that is asked now, those with the fewest partitions under way first. */
  async #sharesOf(open: readonly InstanceTurn[], look: QueueLook): Promise<ReadonlyMap<InstanceTurn, number>> {
    const mostAsked = (await isSpread(this.#db))
      ? Math.max(1, Math.floor(look.free / PARTITIONS_PER_PLACE))
      : INSTANCES_PER_LOOK;
    const asked = leastBusyFirst(open, (id) => look.busyOf(id)).slice(0, mostAsked);
    const most = look.request.partitionsPerInstance;
    const claims = asked.map(({ instanceId }) => ({ has: look.busyOf(instanceId), most }));
    const shares = fairShares(claims, look.free);
    return new Map(asked.flatMap((turn, index) => (shares[index]! > 0 ? [[turn, shares[index]!]] : [])));
  }

  /** Puts off the looks at those that had nothing for a while. @returns whether mail has come to one meanwhile */
  async #putOffEmpty(look: QueueLook): Promise<boolean> {
    if (look.atMs < this.#putOffAtMs) return false;
    const empty = [...this.#turns.values()].filter((turn) => turn.isToPutOff(look.atMs));
    if (empty.length > 0 && empty.length <= INSTANCES_PER_LOOK) this.#putOffAtMs = look.atMs + PUT_OFF_MS;
    let hasAnyCome = false;
    await this.#byPlace(empty.slice(0, INSTANCES_PER_LOOK), look, async (turns) => {
      const ids = turns.map(({ instanceId }) => instanceId);
      const toLookAt = new Set(await putOffWork(this.#db, ids));
      for (const turn of turns) {
        if (toLookAt.has(turn.instanceId)) turn.notice();
        else this.#turns.delete(turn.instanceId);
      }
      hasAnyCome ||= toLookAt.size > 0;
    });
    return hasAnyCome;
  }

  /**
   * Each place by itself, in the order of the turns: one that does not answer holds up no other.
   * @param shareOf partitions that are asked of each
   */
  async #byPlace(
    turns: readonly InstanceTurn[],
    look: QueueLook,
    work: (turns: readonly InstanceTurn[]) => Promise<void>,
    shareOf: (turn: InstanceTurn) => number = () => 0,
  ): Promise<void> {
    const rank = new Map(turns.map((turn, index) => [turn, index]));
    const places = (await byPlace(this.#db, turns)).toSorted((one, other) => rank.get(one[0]!)! - rank.get(other[0]!)!);
    const of = (own: readonly InstanceTurn[]) => own.reduce((sum, turn) => sum + shareOf(turn), 0);
    const shares = { of, most: () => look.mostAskedAtOnce };
    await fewAtOnce(places, { pieces: AT_ONCE, shares }, async (own) => {
      try {
        await work(own);
      } catch (error) {
        look.failures.push(error);
        for (const turn of own) turn.failed(this.#nowMs());
      }
    });
  }
}
