import { fairShares } from "../core/mail/lane-shares.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import type { Db } from "../platform/postgres/db.ts";
import { byPlace, isSpread } from "../store/mail/by-instance.ts";
import { type Ask, lotOf } from "../store/mail/queue/lease-partitions.ts";
import { listWork, putOffWork } from "../store/mail/queue/mail-work.ts";
import { wakePartitions } from "../store/mail/queue/queue-leases.ts";
import { KnownBackOffs } from "./known-back-offs.ts";
import { type AskResult, type LookRequest, QueueLook } from "./queue-look.ts";

/** Instances that are asked at once. */
const INSTANCES_PER_LOOK = 100;
/**
 * Where each instance costs a statement of its own, here and for what becomes of its mail, one is asked at once for each so
 * many partitions that there is room for, and one at least.
 */
const PARTITIONS_PER_PLACE = 48;
/** Lots that one look visits at most, shared by the instances that it asks. */
const LOTS_PER_LOOK = 500;
/** After a visit that gave all that was wanted the next one visits so many lots for each partition, and for one more. */
const LOTS_PER_PARTITION = 2;
/** Lots that one look visits of each instance at least. */
const LOTS_PER_INSTANCE = 10;
/** A look asks so often: what some instances leave of their shares goes to others. It ends when all were asked in vain. */
const ROUNDS = 3;
/** Partitions of each kind that are made ready at once. */
const WAKE_LIMIT = 1_000;
/** Statements at a time, of different places. */
const AT_ONCE = 4;
/** An instance of which nothing could be taken is looked at again after so long, or when there is notice of mail. */
const IDLE_MS = 500;
/** One that could not be looked at: its machine is away, say. */
const AFTER_FAILURE_MS = 2_000;
/** What is due, and what others let run out, is made ready when leases told that it is, and so often: it may have changed. */
const WAKE_MS = 60_000;
/** The same where nothing could be taken: no lease tells of other lots then. */
const BLOCKED_WAKE_MS = 2_000;
/** Looks at those that had nothing are put off together, so often. */
const PUT_OFF_MS = 500;

/** What is remembered of an instance while it is to be looked at; times are those of the worker's monotonic clock. */
class InstanceTurn {
  readonly instanceId: number;
  /** Its lots take turns: after this one. */
  after = "";
  /** Not visited yet. */
  isNew = true;
  /** It is left alone until then. */
  idleUntilMs = 0;
  /** The last visit gave all that was wanted of it. */
  isRich = false;
  /** Nothing of it was ready: after its idle time its next look is put off. */
  isEmpty = false;
  /** What is ready of it, where nothing can be taken; undefined: there may be more. */
  blocked: SeenLots | undefined;
  /** What the visits found since they began with its first lot; undefined where something may have come to it meanwhile. */
  seen: SeenLots | undefined;
  /** When what is due was made ready, or this began. */
  wokenAtMs: number;
  /** From then on something is due, as far as its last lease told. */
  dueAtMs = Number.POSITIVE_INFINITY;

  constructor(instanceId: number, atMs: number) {
    this.instanceId = instanceId;
    this.wokenAtMs = atMs;
  }

  /** Whether what is due is to be made ready. */
  isToWake(atMs: number): boolean {
    return this.dueAtMs <= atMs || this.wokenAtMs + (this.blocked === undefined ? WAKE_MS : BLOCKED_WAKE_MS) <= atMs;
  }

  /** What is due was made ready: the next lease tells of more. */
  woken(atMs: number): void {
    this.wokenAtMs = atMs;
    this.dueAtMs = Number.POSITIVE_INFINITY;
  }

  /** There may be something new. */
  notice(): void {
    Object.assign(this, { idleUntilMs: 0, isEmpty: false, blocked: undefined, seen: undefined });
  }
}

/** Lots of an instance that are ready. */
interface SeenLots {
  /** There may be room for these at any moment. */
  readonly open: Set<string>;
  /** Others are barred. */
  someAreBarred: boolean;
  /** Something was taken. */
  hasGiven: boolean;
  /** When the first of them was visited. */
  readonly sinceMs: number;
}

/**
 * Takes partitions of the queue for one worker: of the instances that have work those first that have the fewest under way,
 * and equal ones in turn; of each a few from each lot in turn. A statement is about all that one machine has.
 */
export class QueueTurns {
  readonly #db: Db;
  readonly #backOffs: KnownBackOffs;
  readonly #nowMs: () => number;
  readonly #turns = new Map<number, InstanceTurn>();
  /** Instances take turns in the order of their ids, after this one. */
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
  async look(request: LookRequest): Promise<QueueLook> {
    const { instanceIds, now, held } = await listWork(this.#db);
    await this.#backOffs.read(this.#db, held);
    const look = new QueueLook(this.#db, this.#backOffs, now, request);
    const known = new Set(instanceIds);
    for (const id of this.#turns.keys()) if (!known.has(id)) this.#turns.delete(id);
    for (const id of instanceIds) {
      if (!this.#turns.has(id)) this.#turns.set(id, new InstanceTurn(id, look.atMs));
    }
    await this.#makeReady(look);
    const turns = instanceIds.map((id) => this.#turns.get(id)!).filter((turn) => mayHave(turn, look));
    let open = [
      ...turns.filter(({ instanceId }) => instanceId > this.#after),
      ...turns.filter(({ instanceId }) => instanceId <= this.#after),
    ];
    look.isKeptOut = look.free === 0 && open.some(({ instanceId }) => look.busyOf(instanceId) === 0);
    for (let round = 0; round < ROUNDS && open.length > 0 && look.free > 0; round += 1) {
      const { free } = look;
      const { left, wereAllAsked } = await this.#askAll(open, look);
      open = left;
      if (look.free === free && wereAllAsked) break;
    }
    look.goesOn ||= look.free > 0 && open.length > 0;
    await this.#putOff(look);
    return look;
  }

  /** Makes ready what has become due of those that have much else. */
  async #makeReady(look: QueueLook): Promise<void> {
    const waiting = [...this.#turns.values()].filter(
      (turn) => !turn.isEmpty && turn.isToWake(look.atMs) && turn.idleUntilMs <= look.atMs,
    );
    const longest = waiting.toSorted((one, other) => one.wokenAtMs - other.wokenAtMs).slice(0, INSTANCES_PER_LOOK);
    await this.#byPlace(longest, look, async (turns) => {
      const woken = await this.#wake(turns, look);
      for (const turn of woken) turn.seen = undefined;
      for (const turn of turns) turn.blocked = undefined;
    });
  }

  /** @returns those of which something was made ready */
  async #wake(turns: readonly InstanceTurn[], look: QueueLook): Promise<InstanceTurn[]> {
    if (turns.length === 0) return [];
    const ids = turns.map(({ instanceId }) => instanceId);
    const { woken, abandoned } = await wakePartitions(this.#db, ids, WAKE_LIMIT);
    for (const turn of turns) turn.woken(look.atMs);
    look.abandoned.push(...abandoned);
    const isWoken = new Set(woken);
    return turns.filter(({ instanceId }) => isWoken.has(instanceId));
  }

  /** Asks some of the instances, or all. @returns those that may have more, and whether all were asked */
  async #askAll(
    turns: readonly InstanceTurn[],
    look: QueueLook,
  ): Promise<{ readonly left: InstanceTurn[]; readonly wereAllAsked: boolean }> {
    const hasNothingYet = look.taken.length === 0;
    const most = look.request.partitionsPerInstance;
    const mostAsked = (await isSpread(this.#db))
      ? Math.max(1, Math.floor(look.free / PARTITIONS_PER_PLACE))
      : INSTANCES_PER_LOOK;
    const asked = leastBusy(turns, look).slice(0, mostAsked);
    const shares = fairShares(
      asked.map(({ instanceId }) => ({ has: look.busyOf(instanceId), most })),
      look.free,
    );
    const wanted = asked.flatMap((turn, index) => (shares[index]! > 0 ? [{ turn, share: shares[index]! }] : []));
    const mostLots = Math.max(LOTS_PER_INSTANCE, Math.floor(LOTS_PER_LOOK / Math.max(1, wanted.length)));
    const shareOf = new Map(wanted.map(({ turn, share }) => [turn, share]));
    const left = new Set(turns.filter((turn) => !shareOf.has(turn) && look.busyOf(turn.instanceId) < most));
    await this.#byPlace(
      [...shareOf.keys()],
      look,
      async (own) => {
        const asks = own.map((turn) => toAsk(turn, shareOf.get(turn)!, mostLots));
        const empty: InstanceTurn[] = [];
        for (const result of await look.ask(asks)) {
          const turn = this.#turns.get(result.instanceId)!;
          if (goOn(turn, result, look)) left.add(turn);
          else if (turn.isEmpty && result.dueInMs <= 0) empty.push(turn);
        }
        for (const turn of await this.#wake(empty, look)) {
          turn.notice();
          left.add(turn);
        }
      },
      shareOf,
    );
    const wereAllAsked = shareOf.size === turns.length;
    // Who is asked for what others left keeps its turn.
    if (hasNothingYet) {
      const hadTurns = turns.filter((turn) => shareOf.has(turn));
      this.#after = lastWithItsTurn(hadTurns, wereAllAsked)?.instanceId ?? this.#after;
    }
    return { left: turns.filter((turn) => left.has(turn)), wereAllAsked };
  }

  /** Puts off the looks at those that had nothing for a while. */
  async #putOff(look: QueueLook): Promise<void> {
    if (look.atMs < this.#putOffAtMs) return;
    const idle = [...this.#turns.values()].filter((turn) => turn.isEmpty && turn.idleUntilMs <= look.atMs);
    if (idle.length > 0 && idle.length <= INSTANCES_PER_LOOK) this.#putOffAtMs = look.atMs + PUT_OFF_MS;
    await this.#byPlace(idle.slice(0, INSTANCES_PER_LOOK), look, async (turns) => {
      const ids = turns.map(({ instanceId }) => instanceId);
      const toLookAt = new Set(await putOffWork(this.#db, ids));
      for (const turn of turns) {
        if (toLookAt.has(turn.instanceId)) turn.notice();
        else this.#turns.delete(turn.instanceId);
      }
      look.goesOn ||= toLookAt.size > 0;
    });
  }

  /**
   * Each place by itself, in the order of the turns: one that does not answer holds up no other.
   * @param shareOf what is asked of each
   */
  async #byPlace(
    turns: readonly InstanceTurn[],
    look: QueueLook,
    work: (turns: readonly InstanceTurn[]) => Promise<void>,
    shareOf?: ReadonlyMap<InstanceTurn, number>,
  ): Promise<void> {
    const rank = new Map(turns.map((turn, index) => [turn, index]));
    const places = (await byPlace(this.#db, turns)).toSorted((one, other) => rank.get(one[0]!)! - rank.get(other[0]!)!);
    const of = (own: readonly InstanceTurn[]) => own.reduce((sum, turn) => sum + (shareOf?.get(turn) ?? 0), 0);
    const shares = { of, most: () => look.askedAtOnce };
    await fewAtOnce(places, { pieces: AT_ONCE, shares }, async (own) => {
      try {
        await work(own);
      } catch (error) {
        look.failures.push(error);
        for (const turn of own) turn.idleUntilMs = this.#nowMs() + AFTER_FAILURE_MS;
      }
    });
  }
}

function toAsk({ instanceId, after, isNew, isRich }: InstanceTurn, share: number, mostLots: number): Ask {
  const lots = isRich ? Math.min(mostLots, LOTS_PER_PARTITION * (share + 1)) : mostLots;
  return { instanceId, share, lots, after, isNew };
}

/** Those that have nothing under way first, in the order given. */
function leastBusy(turns: readonly InstanceTurn[], look: QueueLook): InstanceTurn[] {
  const isBusy = (turn: InstanceTurn) => look.busyOf(turn.instanceId) > 0;
  const busy = turns.filter(isBusy).sort((one, other) => look.busyOf(one.instanceId) - look.busyOf(other.instanceId));
  return [...turns.filter((turn) => !isBusy(turn)), ...busy];
}

/**
 * The instance behind which the next look begins. It begins with the first that got less than was asked of it, so that it
 * finds room then; whoever came first this time had all the room, and does not count. Where all got what was asked it begins
 * with those that were not asked, or, where all were, with the second one.
 * @param asked in the order of their turns
 */
function lastWithItsTurn(asked: readonly InstanceTurn[], wereAllAsked: boolean): InstanceTurn | undefined {
  const short = asked.findIndex(({ isRich, isEmpty }, index) => index > 0 && !isRich && !isEmpty);
  if (short > 0) return asked[short - 1];
  return wereAllAsked ? asked[0] : asked.at(-1);
}

function mayHave(turn: InstanceTurn, look: QueueLook): boolean {
  if (turn.isEmpty || turn.idleUntilMs > look.atMs) return false;
  const { blocked } = turn;
  if (blocked === undefined || mayTakeOf(blocked, look)) return true;
  return blocked.someAreBarred && look.backOffs.freedAtMs > blocked.sinceMs;
}

/**
 * Notes where the next look at an instance goes on: after the lot that was served last, or after those that were visited.
 * @returns whether it may have more now
 */
function goOn(turn: InstanceTurn, result: AskResult, look: QueueLook): boolean {
  const { ask, partitions, lots, hasMore, isRoundOver, last, dueInMs } = result;
  if (ask.after === "") turn.seen = { open: new Set(), someAreBarred: false, hasGiven: false, sinceMs: look.atMs };
  turn.isRich = partitions.length >= ask.share;
  const served = partitions.map(({ destination, pool }) => lotOf(destination, pool)).sort();
  turn.isNew = false;
  const wasLast = isRoundOver && (!turn.isRich || served.at(-1) === lots.at(-1));
  turn.after = wasLast ? "" : turn.isRich ? served.at(-1)! : last;
  turn.blocked = undefined;
  turn.dueAtMs = look.atMs + dueInMs;
  if (!hasMore) {
    turn.isEmpty = true;
    turn.idleUntilMs = look.atMs + IDLE_MS;
    return false;
  }
  const { seen } = turn;
  if (seen === undefined) return true;
  for (const lot of lots) {
    if (look.backOffs.isBarred(lot)) seen.someAreBarred = true;
    else seen.open.add(lot);
  }
  seen.hasGiven ||= partitions.length > 0;
  if (!isRoundOver || (seen.hasGiven && mayTakeOf(seen, look))) return true;
  turn.blocked = seen;
  const isHeld = seen.open.size === 0 && !seen.someAreBarred;
  turn.idleUntilMs = isHeld ? look.atMs + IDLE_MS : 0;
  return false;
}

function mayTakeOf({ open }: SeenLots, look: QueueLook): boolean {
  for (const lot of open) if (look.mayTake(lot)) return true;
  return false;
}
