import { type DestinationQueue, queueOf } from "./destination-queue.ts";

/** What an instance is asked for. */
export interface Ask {
  readonly instanceId: number;
  /** Partitions. */
  readonly share: number;
  /** Most destination queues to visit. */
  readonly queues: number;
  /** Queues after this one are visited: they take turns in the order of their names. '' starts from the first. */
  readonly after: DestinationQueue;
  /** It is visited for the first time: of instances that are asked together such ones begin with different queues. */
  readonly isNew: boolean;
  /** Mail that goes ahead comes first, of as many queues that have such; else all takes its turn. */
  readonly goesAhead: boolean;
  /** As `after`, of the queues that have mail which goes ahead. */
  readonly aheadAfter: DestinationQueue;
}

/** What came of an ask. */
export interface Visit {
  readonly ask: Ask;
  /** That were leased. */
  readonly partitions: readonly { readonly destination: string; readonly pool: string; readonly goesAhead: boolean }[];
  /** Queues that were visited for mail that goes ahead, in their order. */
  readonly aheadQueues: readonly DestinationQueue[];
  /** Those that have mail ready and were visited, in their order, whether or not something was taken of them. */
  readonly queues: readonly DestinationQueue[];
  /** All queues after the one that the ask names were visited. */
  readonly isRoundOver: boolean;
  /** The last one that was visited, or passed over. */
  readonly last: DestinationQueue;
  /** More is ready than was taken, of these queues or of others. */
  readonly hasMore: boolean;
  /** After so long something that waits is due, or a lease is over, unless that is changed; infinite where nothing waits. */
  readonly dueInMs: number;
}

/** What may be taken at the moment of a look. */
export interface Takeable {
  readonly atMs: number;
  /** Whether a partition of a queue may be leased: it has a free slot, and is not suspended. */
  mayTake(queue: DestinationQueue): boolean;
  /** Whether a queue rests until its destination is out of back-off, or no longer held. */
  isSuspended(queue: DestinationQueue): boolean;
  /** When some queue was last found to be suspended no longer. */
  readonly resumedAtMs: number;
}

/** Of so many looks one has all mail take its turn: what goes ahead does not keep the rest of its instance waiting for ever. */
const LOOKS_A_TURN = 4;
/** After a visit that gave all that was asked the next one visits so many queues for each partition, and for one more. */
const QUEUES_PER_PARTITION = 2;
/** An instance of which nothing could be taken is looked at again after so long, or when there is notice of mail. */
const IDLE_MS = 500;
/** One that could not be looked at: its machine is away, say. */
const AFTER_FAILURE_MS = 2_000;
/** What is due, and what others let run out, is made ready when leases told that it is, and so often: it may have changed. */
const WAKE_MS = 60_000;
/** The same where nothing could be taken: no lease tells of other queues then. */
const BLOCKED_WAKE_MS = 2_000;

/**
 * Whether an instance is asked for mail.
 *
 * | state   | what is known                       | is asked                          | is left by                          |
 * |---------|-------------------------------------|-----------------------------------|-------------------------------------|
 * | open    | there may be mail to take           | at each look                      | a visit                             |
 * | empty   | nothing is ready                    | never; its next look is put off   | notice, or mail made ready, to open |
 * | blocked | of all that is ready nothing was to | when a queue of its round has a   | a visit; to open by notice, or when |
 * |         | be taken                            | slot, or one was resumed since    | what is due was made ready          |
 *
 * A round is undefined where mail may have come to queues that it has passed: it cannot end as blocked.
 */
type State =
  | { readonly kind: "open"; readonly round: Round | undefined }
  | { readonly kind: "empty" }
  | { readonly kind: "blocked"; readonly round: Round };

const ANEW: State = { kind: "open", round: undefined };
const EMPTY: State = { kind: "empty" };

/** What a worker remembers of an instance that has work; times are those of its monotonic clock. */
export class InstanceTurn {
  readonly instanceId: number;
  #state: State = ANEW;
  /** Whatever its state is, it is left alone until then. */
  #restsUntilMs = 0;
  /** The next visit begins after this queue. */
  #after: DestinationQueue = "";
  /** The same for mail that goes ahead. */
  #aheadAfter: DestinationQueue = "";
  /** Looks that have asked it, and when the last one did. */
  #looks = 0;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  /** What the last visit gave of what was asked. */
  #lastGave: "nothing was asked" | "all" | "less" = "nothing was asked";
  /** When what is due was made ready, or this began. */
  #madeReadyAtMs: number;
  /** From then on something is due, as far as its last lease told. */
  #dueAtMs = Number.POSITIVE_INFINITY;

  constructor(instanceId: number, atMs: number) {
    this.instanceId = instanceId;
    this.#madeReadyAtMs = atMs;
  }

  /** Whether a look may ask it for mail. */
  isToAsk(now: Takeable): boolean {
    if (this.#state.kind !== "blocked") return this.isOpen(now.atMs);
    return this.#restsUntilMs <= now.atMs && this.#state.round.mayGiveAgain(now);
  }

  /** Whether it may have mail that may be taken, as far as the last visit told. */
  isOpen(atMs: number): boolean {
    return this.#state.kind === "open" && this.#restsUntilMs <= atMs;
  }

  /** Whether what has become due of it is to be made ready, beside what it has. */
  isToMakeReady(atMs: number): boolean {
    if (this.#state.kind === "empty" || this.#restsUntilMs > atMs) return false;
    const everyMs = this.#state.kind === "blocked" ? BLOCKED_WAKE_MS : WAKE_MS;
    return this.#dueAtMs <= atMs || this.#madeReadyAtMs + everyMs <= atMs;
  }

  /** Whether it had nothing ready, while something that waits is due. */
  isEmptyButDue(atMs: number): boolean {
    return this.#state.kind === "empty" && this.#dueAtMs <= atMs;
  }

  /** Whether it has had nothing for so long that its next look is to be put off. */
  isToPutOff(atMs: number): boolean {
    return this.#state.kind === "empty" && this.#restsUntilMs <= atMs;
  }

  /** Whether its last visit gave less than was asked, although there is more. */
  get wasLeftShort(): boolean {
    return this.#lastGave !== "all" && this.#state.kind !== "empty";
  }

  get madeReadyAtMs(): number {
    return this.#madeReadyAtMs;
  }

  /**
   * @param mostQueues that may be visited of it
   * @param atMs the moment of the look
   */
  ask(share: number, mostQueues: number, atMs: number): Ask {
    const { instanceId } = this;
    if (atMs > this.#askedAtMs) this.#looks += 1;
    this.#askedAtMs = atMs;
    const queues = this.#lastGave === "all" ? Math.min(mostQueues, QUEUES_PER_PARTITION * (share + 1)) : mostQueues;
    const ahead = { goesAhead: this.#looks % LOOKS_A_TURN > 0, aheadAfter: this.#aheadAfter };
    return { instanceId, share, queues, after: this.#after, isNew: this.#lastGave === "nothing was asked", ...ahead };
  }

  /** There may be something new. */
  notice(): void {
    this.#state = ANEW;
    this.#restsUntilMs = 0;
  }

  /** What was due is ready now. @param isAny something was due */
  madeReady(atMs: number, isAny: boolean): void {
    this.#madeReadyAtMs = atMs;
    this.#dueAtMs = Number.POSITIVE_INFINITY; // the next lease tells of more
    if (isAny) this.notice();
    else if (this.#state.kind === "blocked") this.#state = { kind: "open", round: this.#state.round };
  }

  /** A statement about it failed. */
  failed(nowMs: number): void {
    this.#restsUntilMs = nowMs + AFTER_FAILURE_MS;
  }

  /** A look has asked it. The next visit begins after the queue that was served last, or after those that were visited. */
  visited(visit: Visit, now: Takeable): void {
    const { ask, partitions, queues, isRoundOver, last } = visit;
    const round = ask.after === "" ? new Round(now.atMs) : this.#round;
    const gaveAll = partitions.length >= ask.share;
    const inTurn = partitions.filter(({ goesAhead }) => !(ask.goesAhead && goesAhead)).map(toQueue);
    const served = gaveAll ? greatest(inTurn, ask.after) : last;
    if (ask.goesAhead) this.#aheadAfter = nextAhead(visit, gaveAll && inTurn.length === 0);
    this.#lastGave = gaveAll ? "all" : "less";
    this.#after = isRoundOver && (!gaveAll || served === queues.at(-1)) ? "" : served;
    this.#dueAtMs = now.atMs + visit.dueInMs;
    round?.add(visit, now);
    if (!visit.hasMore) {
      this.#state = EMPTY;
      this.#restsUntilMs = now.atMs + IDLE_MS;
    } else if (round !== undefined && isRoundOver && !round.goesOn(now)) {
      this.#state = { kind: "blocked", round };
      this.#restsUntilMs = round.sawNothing ? now.atMs + IDLE_MS : 0;
    } else {
      this.#state = { kind: "open", round };
    }
  }

  get #round(): Round | undefined {
    return this.#state.kind === "empty" ? undefined : this.#state.round;
  }
}

/** What the visits of an instance found since they began with its first queue. */
class Round {
  readonly #beganAtMs: number;
  /** Queues with mail that were not suspended: there may be slots for these at any moment. */
  readonly #ready = new Set<DestinationQueue>();
  #someAreSuspended = false;
  #hasGiven = false;

  constructor(atMs: number) {
    this.#beganAtMs = atMs;
  }

  add({ queues, partitions }: Visit, now: Takeable): void {
    for (const queue of queues) {
      if (now.isSuspended(queue)) this.#someAreSuspended = true;
      else this.#ready.add(queue);
    }
    this.#hasGiven ||= partitions.length > 0;
  }

  /** Whether another one may give something at once. */
  goesOn(now: Takeable): boolean {
    return this.#hasGiven && this.#mayTakeAny(now);
  }

  /** Whether another one may, after this gave nothing more. */
  mayGiveAgain(now: Takeable): boolean {
    return this.#mayTakeAny(now) || (this.#someAreSuspended && now.resumedAtMs > this.#beganAtMs);
  }

  /** The instance has mail, and no queue of it was shown: it is held. */
  get sawNothing(): boolean {
    return this.#ready.size === 0 && !this.#someAreSuspended;
  }

  #mayTakeAny(now: Takeable): boolean {
    for (const queue of this.#ready) if (now.mayTake(queue)) return true;
    return false;
  }
}

function toQueue({ destination, pool }: Visit["partitions"][number]): DestinationQueue {
  return queueOf(destination, pool);
}

/** The greatest of queues, or `least`. */
function greatest(queues: readonly DestinationQueue[], least: DestinationQueue): DestinationQueue {
  return queues.reduce((last, queue) => (queue > last ? queue : last), least);
}

/** After which queue the next visit for mail that goes ahead begins. @param wasCut it took all that was asked for */
function nextAhead({ ask, partitions, aheadQueues }: Visit, wasCut: boolean): DestinationQueue {
  if (!wasCut) return aheadQueues.length < ask.queues ? "" : aheadQueues.at(-1)!;
  const served = new Set(partitions.map(toQueue));
  return aheadQueues.findLast((queue) => served.has(queue)) ?? "";
}
