import { Counts } from "../core/counts.ts";
import type { DomainGroups } from "../core/mail/address-group.ts";
import { type DestinationQueue, splitQueue } from "../core/mail/queue/destination-queue.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Clock } from "../platform/clock.ts";
import type { PaceKey } from "../store/mail/pace/source-paces.ts";
import type { AttemptResult } from "./decide.ts";
import type { DeliveryPolicy, GroupPolicy } from "./policy.ts";
import { RateLimit } from "./rate-limit.ts";
import { sourcesByPool } from "./routing/source-pools.ts";

/** Of one destination in one look: it fills its sessions soon, and yet leaves lanes to others. Looks are 40 ms apart. */
export const PARTITIONS_AT_ONCE = 8;
/** Hosted domains that are remembered; the next delivery learns a forgotten one again. */
const MOST_LEARNT = 10_000;

/** Messages that may still be sent this minute, and the queues that share them. */
interface SharedRate {
  readonly limit: RateLimit;
  readonly queues: Set<string>;
}

/** What the pace must know of an attempt beside its result. */
export interface PacedAttempt {
  /** Messages that had gone over its session, this one included. */
  readonly messages: number;
  /** How long it took. */
  readonly durationMs: number;
  /** Who spoke. */
  readonly exchanger: string;
}

/** Leave to send one message to a provider. `source`: that it goes for; undefined where nobody limits. */
export interface Leave {
  readonly source: string | undefined;
  readonly provider: string;
  /** The source is new, and sends by a plan: the message goes from there or not at all. */
  readonly isPlanned?: boolean;
}

/** Where nobody has to ask for it. */
export const FREE: Leave = { source: undefined, provider: "" };

/** There is no leave yet. */
export interface Wait {
  readonly waitMs: number;
  /** By plans of ours, and by no word of the far side's. */
  readonly isPlanned: boolean;
}

/** What the whole deployment has learnt of providers; see `pace/pace-keeper`. A provider is told by its share. */
export interface LearntPace {
  /** Takes leave to send one message from the first of the sources that has it. @returns undefined where none has */
  takeLeave(sources: readonly string[], provider: string): Leave | undefined;
  /** Waits for it, behind those who wait already. @returns how long it may take, where that is or was longer than `mostMs` */
  waitForLeave(sources: readonly string[], provider: string, mostMs: number): Promise<Leave | Wait>;
  /** Another message may have it. */
  giveBack(leave: Leave): void;
  /** A message is sent from a source now. @returns false where leave went for another one, and this one has none */
  useLeave(leave: Leave, source: string, provider: string): boolean;
  /** Whether a source has leave that no message has taken. */
  mayUse(source: string, provider: string): boolean;
  /** How many messages more may soon be sent from a source than are waiting already; undefined: any number. */
  room(source: string, provider: string): number | undefined;
  /** Sessions that this worker may have from a source at once; undefined: as configured. */
  connections(source: string, provider: string): number | undefined;
  /** Undefined: as configured. */
  messagesPerConnection(source: string, provider: string): number | undefined;
  /** Whether one more session may be opened from a source. */
  mayOpen(source: string, provider: string): boolean;
  opened(source: string, provider: string): void;
  closed(source: string, provider: string): void;
  /** Whether any source is new, and sends by a plan. */
  readonly isAnyWarming: boolean;
  /** Whether a source sends to a provider by a plan. */
  isWarming(source: string, provider: string): boolean;
  /** Whether the plan of a source has room for a recipient who last opened or clicked so many days ago. */
  wants(source: string, provider: string, touchedDaysAgo: number | undefined): boolean;
  /**
   * How an attempt from a source ended.
   * @returns whether the far side wants less of it, so that it waits
   */
  note(key: PaceKey, result: AttemptResult, facts: Omit<PacedAttempt, "exchanger">): boolean;
}

/**
 * Keeps a worker within the limits of each mailbox provider: how many partitions of it are delivered at once (one
 * session each), and how many messages a minute. A provider's own domains, and those that it hosts by the names of all
 * their mail exchangers, share its limits; each other domain has its own, and what a stranger says goes for no
 * provider. The limits are those of one source: a pool has them as often as it has addresses. What is delivered is told
 * by its destination queue.
 */
export class TrafficShaping {
  readonly #policy: DeliveryPolicy;
  readonly #groups: DomainGroups;
  readonly #clock: Clock;
  readonly #pace: LearntPace | undefined;
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  /** Queues being delivered, with the number of their partitions. */
  readonly #active = new Counts<string>();
  readonly #rates = new Map<string, SharedRate>();
  /** Queues that messages had to take leave for. */
  readonly #paced = recentMap<string, true>(MOST_LEARNT);
  /** Queues of hosted domains. */
  readonly #hosted = recentMap<string, true>(MOST_LEARNT);
  /** Groups of hosted domains, as their exchangers told. */
  readonly #learnt = recentMap<string, number>(MOST_LEARNT);

  /** @param pace has the messages a minute, for all workers together; without it they are of this worker alone */
  constructor(policy: DeliveryPolicy, groups: DomainGroups, clock: Clock, pace?: LearntPace) {
    this.#policy = policy;
    this.#groups = groups;
    this.#clock = clock;
    this.#pace = pace;
    this.#sources = sourcesByPool(policy.pools);
  }

  policyOf(queue: DestinationQueue): GroupPolicy {
    return (
      this.#policy.groups[this.#groups.nameOf(this.#groupOf(splitQueue(queue).destination))] ??
      this.#policy.groups.default
    );
  }

  /** A group of domains, or a domain that is in none. */
  providerOf(queue: DestinationQueue): string {
    const { destination } = splitQueue(queue);
    const group = this.#groupOf(destination);
    return group === 0 ? destination : this.#groups.nameOf(group);
  }

  messagesPerConnection(queue: DestinationQueue, source: string): number {
    const learnt = this.#pace?.messagesPerConnection(source, this.providerOf(queue));
    return learnt ?? this.policyOf(queue).messagesPerConnection;
  }

  begin(queue: DestinationQueue): void {
    this.#active.add(queue, 1);
  }

  end(queue: DestinationQueue): void {
    this.#active.add(queue, -1);
  }

  /** Takes note of the exchangers of a queue's destination: it shares the limits of a provider that all of them are of. */
  learn(queue: DestinationQueue, exchangers: readonly string[]): void {
    const { destination } = splitQueue(queue);
    if (this.#groups.ofDomain(destination) !== 0) return;
    const [group = 0, ...others] = new Set(exchangers.map((name) => this.#groups.ofMxHost(name)));
    if (group === 0 || others.length > 0) {
      this.#learnt.delete(destination);
      this.#hosted.delete(queue);
    } else {
      this.#learnt.set(destination, group);
      this.#hosted.set(queue, true);
    }
  }

  /** Whether the provider of a queue that was begun has more sessions than it is to have: the partition has to wait. */
  hasTooManySessions(queue: DestinationQueue): boolean {
    return this.#sessionsOf(this.#shareOf(queue)) > this.#connectionsOf(queue);
  }

  /** Free slots, a partition each, of the queues that are delivered, were slowed down, or are of hosted domains. */
  freeSlots(): Map<DestinationQueue, number> {
    for (const [share, { limit }] of this.#rates) if (limit.isFull()) this.#rates.delete(share);
    for (const queue of [...this.#paced.keys()]) if (this.#leaveFor(queue) === undefined) this.#paced.delete(queue);
    const limited = [...this.#rates.values()].flatMap(({ queues }) => [...queues]);
    const active = [...this.#active].map(([queue]) => queue);
    const queues = new Set([...active, ...limited, ...this.#paced.keys(), ...this.#hosted.keys()]);
    const sessions = new Map<string, number>();
    for (const [queue, count] of this.#active) {
      const share = this.#shareOf(queue);
      sessions.set(share, (sessions.get(share) ?? 0) + count);
    }
    return new Map([...queues].map((queue) => [queue, this.#freeSlotsOf(queue, sessions)]));
  }

  #freeSlotsOf(queue: DestinationQueue, sessions: ReadonlyMap<string, number>): number {
    if (this.isUsedUp(queue)) return 0;
    const used = sessions.get(this.#shareOf(queue)) ?? 0;
    const most = Math.min(PARTITIONS_AT_ONCE, this.#leaveFor(queue) ?? PARTITIONS_AT_ONCE);
    return Math.min(most, Math.max(0, this.#connectionsOf(queue) - used));
  }

  #connectionsOf(queue: DestinationQueue): number {
    const { connections } = this.policyOf(queue);
    const provider = this.providerOf(queue);
    return this.#sourcesOf(queue).reduce(
      (sum, source) => sum + Math.min(connections, this.#pace?.connections(source, provider) ?? connections),
      0,
    );
  }

  /** Messages of a queue that the pace lets pass soon, beside those that wait; undefined: any number. */
  #leaveFor(queue: DestinationQueue): number | undefined {
    const provider = this.providerOf(queue);
    let sum = 0;
    for (const source of this.#sourcesOf(queue)) {
      const room = this.#pace === undefined ? undefined : this.#pace.room(source, provider);
      if (room === undefined) return undefined;
      sum += room;
    }
    return sum;
  }

  /** Whether the messages a minute are used up that this worker has by itself, of every source of the queue's pool. */
  isUsedUp(queue: DestinationQueue): boolean {
    return (
      this.#pace === undefined &&
      !this.#sourcesOf(queue).some((source) => this.#rateOf(queue, source)?.hasToken() ?? true)
    );
  }

  /** Whether a message of a queue that has leave may go from a source. */
  mayUse(queue: DestinationQueue, source: string, leave: Leave): boolean {
    if (this.#pace === undefined) return this.#rateOf(queue, source)?.hasToken() ?? true;
    const provider = this.providerOf(queue);
    if (leave.source === source && leave.provider === provider) return true;
    return !leave.isPlanned && this.#pace.mayUse(source, provider);
  }

  /** Takes leave for one message of a queue, where there is some at once. */
  takeLeave(queue: DestinationQueue, sources: readonly string[]): Leave | undefined {
    if (this.#pace === undefined) return FREE;
    const leave = this.#pace.takeLeave(sources, this.providerOf(queue));
    if (leave?.source !== undefined || leave === undefined) this.#paced.set(queue, true);
    return leave;
  }

  /** Waits for it. @returns how long it may take, where that is or was longer than `mostMs` */
  async waitForLeave(queue: DestinationQueue, sources: readonly string[], mostMs: number): Promise<Leave | Wait> {
    return this.#pace?.waitForLeave(sources, this.providerOf(queue), mostMs) ?? FREE;
  }

  /** For a message that was not sent. */
  giveBack(leave: Leave): void {
    this.#pace?.giveBack(leave);
  }

  /** A message is sent from a source now. @returns false when what there was for the source is used up */
  useLeave(queue: DestinationQueue, source: string, leave: Leave): boolean {
    if (this.#pace) return this.#pace.useLeave(leave, source, this.providerOf(queue));
    return this.#rateOf(queue, source)?.takeToken() ?? true;
  }

  /** Whether one more session may be opened from a source. */
  mayOpen(queue: DestinationQueue, source: string): boolean {
    return this.#pace?.mayOpen(source, this.providerOf(queue)) ?? true;
  }

  /** A session is being opened. @returns to be called when it is closed, or never was open */
  opened(queue: DestinationQueue, source: string): () => void {
    const provider = this.providerOf(queue);
    this.#pace?.opened(source, provider);
    return () => this.#pace?.closed(source, provider);
  }

  /** How an attempt at a queue ended. @returns whether the source waits now, as the far side wants less of it */
  note(queue: DestinationQueue, source: string, result: AttemptResult, { exchanger, ...facts }: PacedAttempt): boolean {
    return this.#pace?.note({ source, provider: this.#speakerOf(queue, exchanger) }, result, facts) ?? false;
  }

  /** Those of the sources that are new, and send to the provider of a queue by a plan. */
  warming(queue: DestinationQueue, sources: readonly string[] = this.#sourcesOf(queue)): readonly string[] {
    const pace = this.#pace;
    if (pace === undefined || !pace.isAnyWarming) return NONE;
    const provider = this.providerOf(queue);
    return sources.filter((source) => pace.isWarming(source, provider));
  }

  /** Whether the plan of such a source has room for a recipient who last opened or clicked so many days ago. */
  wants(queue: DestinationQueue, source: string, touchedDaysAgo: number | undefined): boolean {
    return this.#pace?.wants(source, this.providerOf(queue), touchedDaysAgo) ?? false;
  }

  /** What a complaint about a message to an exchanger is to be counted for, where the source sends by a plan. */
  plannedFrom(queue: DestinationQueue, source: string, exchanger: string): PaceKey | undefined {
    if (!this.#pace?.isAnyWarming) return undefined;
    const provider = this.#speakerOf(queue, exchanger);
    return this.#pace.isWarming(source, provider) ? { source, provider } : undefined;
  }

  /** Undefined where there is no limit. From now on the queue is one of those that `freeSlots` tells of until the rate is full. */
  #rateOf(queue: DestinationQueue, source: string): RateLimit | undefined {
    const { messagesPerMinute } = this.policyOf(queue);
    if (messagesPerMinute === null) return undefined;
    const key = `${source} ${this.providerOf(queue)}`;
    const rate = this.#rates.get(key) ?? {
      limit: new RateLimit(messagesPerMinute, this.#clock),
      queues: new Set<string>(),
    };
    rate.queues.add(queue);
    this.#rates.set(key, rate);
    return rate.limit;
  }

  #sessionsOf(share: string): number {
    let sessions = 0;
    for (const [queue, count] of this.#active) if (this.#shareOf(queue) === share) sessions += count;
    return sessions;
  }

  /** What sessions are counted by: pools for which the system chooses the address have one source, and share them. */
  #shareOf(queue: DestinationQueue): string {
    return `${this.providerOf(queue)} from ${this.#sourcesOf(queue).join(" ")}`;
  }

  /** Whose word that of an exchanger is: of a domain that was hosted until a moment ago it may be a stranger's. */
  #speakerOf(queue: DestinationQueue, exchanger: string): string {
    const { destination } = splitQueue(queue);
    const group = this.#groupOf(destination);
    const isProvider = this.#groups.ofDomain(destination) !== 0 || this.#groups.ofMxHost(exchanger) === group;
    return group !== 0 && isProvider ? this.#groups.nameOf(group) : destination;
  }

  #sourcesOf(queue: DestinationQueue): readonly string[] {
    return this.#sources.get(splitQueue(queue).pool) ?? this.#sources.get("")!;
  }

  #groupOf(destination: string): number {
    return this.#groups.ofDomain(destination) || (this.#learnt.get(destination) ?? 0);
  }
}

const NONE: readonly string[] = [];
