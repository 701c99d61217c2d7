import { Counts } from "../core/counts.ts";
import type { DomainGroups } from "../core/mail/address-group.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Clock } from "../platform/clock.ts";
import type { PaceKey } from "../store/mail/pace/source-paces.ts";
import { splitLot } from "../store/mail/queue/lease-partitions.ts";
import type { AttemptResult } from "./decide.ts";
import type { DeliveryPolicy, GroupPolicy } from "./policy.ts";
import { RateLimit } from "./rate-limit.ts";
import { sourcesByPool } from "./routing/source-pools.ts";

/** Of one destination in one look: it fills its sessions soon, and yet leaves lanes to others. Looks are 40 ms apart. */
export const PARTITIONS_AT_ONCE = 8;
/** Hosted domains that are remembered; the next delivery learns a forgotten one again. */
const MOST_LEARNT = 10_000;

/** Messages that may still be sent this minute, and the lots that share them. */
interface SharedRate {
  readonly limit: RateLimit;
  readonly lots: Set<string>;
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
 * by its lot (see `lotOf`).
 */
export class TrafficShaping {
  readonly #policy: DeliveryPolicy;
  readonly #groups: DomainGroups;
  readonly #clock: Clock;
  readonly #pace: LearntPace | undefined;
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  /** Lots being delivered, with the number of their partitions. */
  readonly #active = new Counts<string>();
  readonly #rates = new Map<string, SharedRate>();
  /** Lots that messages had to take leave for. */
  readonly #paced = recentMap<string, true>(MOST_LEARNT);
  /** Lots of hosted domains. */
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

  policyOf(lot: string): GroupPolicy {
    return (
      this.#policy.groups[this.#groups.nameOf(this.#groupOf(splitLot(lot).destination))] ?? this.#policy.groups.default
    );
  }

  /** A group of domains, or a domain that is in none. */
  providerOf(lot: string): string {
    const { destination } = splitLot(lot);
    const group = this.#groupOf(destination);
    return group === 0 ? destination : this.#groups.nameOf(group);
  }

  messagesPerConnection(lot: string, source: string): number {
    const learnt = this.#pace?.messagesPerConnection(source, this.providerOf(lot));
    return learnt ?? this.policyOf(lot).messagesPerConnection;
  }

  begin(lot: string): void {
    this.#active.add(lot, 1);
  }

  end(lot: string): void {
    this.#active.add(lot, -1);
  }

  /** Takes note of the exchangers of a lot's destination: it shares the limits of a provider that all of them are of. */
  learn(lot: string, exchangers: readonly string[]): void {
    const { destination } = splitLot(lot);
    if (this.#groups.ofDomain(destination) !== 0) return;
    const [group = 0, ...others] = new Set(exchangers.map((name) => this.#groups.ofMxHost(name)));
    if (group === 0 || others.length > 0) {
      this.#learnt.delete(destination);
      this.#hosted.delete(lot);
    } else {
      this.#learnt.set(destination, group);
      this.#hosted.set(lot, true);
    }
  }

  /** Whether the provider of a lot that was begun has more sessions than it is to have: the partition has to wait. */
  hasTooManySessions(lot: string): boolean {
    return this.#sessionsOf(this.#shareOf(lot)) > this.#connectionsOf(lot);
  }

  /** How many more partitions the lots may have that are delivered, were slowed down, or are of hosted domains. */
  room(): Map<string, number> {
    for (const [share, { limit }] of this.#rates) if (limit.isFull()) this.#rates.delete(share);
    for (const lot of [...this.#paced.keys()]) if (this.#leaveFor(lot) === undefined) this.#paced.delete(lot);
    const limited = [...this.#rates.values()].flatMap(({ lots }) => [...lots]);
    const active = [...this.#active].map(([lot]) => lot);
    const lots = new Set([...active, ...limited, ...this.#paced.keys(), ...this.#hosted.keys()]);
    const sessions = new Map<string, number>();
    for (const [lot, count] of this.#active) {
      const share = this.#shareOf(lot);
      sessions.set(share, (sessions.get(share) ?? 0) + count);
    }
    return new Map([...lots].map((lot) => [lot, this.#roomOf(lot, sessions)]));
  }

  #roomOf(lot: string, sessions: ReadonlyMap<string, number>): number {
    if (this.isUsedUp(lot)) return 0;
    const used = sessions.get(this.#shareOf(lot)) ?? 0;
    const most = Math.min(PARTITIONS_AT_ONCE, this.#leaveFor(lot) ?? PARTITIONS_AT_ONCE);
    return Math.min(most, Math.max(0, this.#connectionsOf(lot) - used));
  }

  #connectionsOf(lot: string): number {
    const { connections } = this.policyOf(lot);
    const provider = this.providerOf(lot);
    return this.#sourcesOf(lot).reduce(
      (sum, source) => sum + Math.min(connections, this.#pace?.connections(source, provider) ?? connections),
      0,
    );
  }

  /** Messages of a lot that the pace lets pass soon, beside those that wait; undefined: any number. */
  #leaveFor(lot: string): number | undefined {
    const provider = this.providerOf(lot);
    let sum = 0;
    for (const source of this.#sourcesOf(lot)) {
      const room = this.#pace === undefined ? undefined : this.#pace.room(source, provider);
      if (room === undefined) return undefined;
      sum += room;
    }
    return sum;
  }

  /** Whether the messages a minute are used up that this worker has by itself, of every source of the lot's pool. */
  isUsedUp(lot: string): boolean {
    return (
      this.#pace === undefined && !this.#sourcesOf(lot).some((source) => this.#rateOf(lot, source)?.hasToken() ?? true)
    );
  }

  /** Whether a message of a lot that has leave may go from a source. */
  mayUse(lot: string, source: string, leave: Leave): boolean {
    if (this.#pace === undefined) return this.#rateOf(lot, source)?.hasToken() ?? true;
    const provider = this.providerOf(lot);
    if (leave.source === source && leave.provider === provider) return true;
    return !leave.isPlanned && this.#pace.mayUse(source, provider);
  }

  /** Takes leave for one message of a lot, where there is some at once. */
  takeLeave(lot: string, sources: readonly string[]): Leave | undefined {
    if (this.#pace === undefined) return FREE;
    const leave = this.#pace.takeLeave(sources, this.providerOf(lot));
    if (leave?.source !== undefined || leave === undefined) this.#paced.set(lot, true);
    return leave;
  }

  /** Waits for it. @returns how long it may take, where that is or was longer than `mostMs` */
  async waitForLeave(lot: string, sources: readonly string[], mostMs: number): Promise<Leave | Wait> {
    return this.#pace?.waitForLeave(sources, this.providerOf(lot), mostMs) ?? FREE;
  }

  /** For a message that was not sent. */
  giveBack(leave: Leave): void {
    this.#pace?.giveBack(leave);
  }

  /** A message is sent from a source now. @returns false when what there was for the source is used up */
  useLeave(lot: string, source: string, leave: Leave): boolean {
    if (this.#pace) return this.#pace.useLeave(leave, source, this.providerOf(lot));
    return this.#rateOf(lot, source)?.takeToken() ?? true;
  }

  /** Whether one more session may be opened from a source. */
  mayOpen(lot: string, source: string): boolean {
    return this.#pace?.mayOpen(source, this.providerOf(lot)) ?? true;
  }

  /** A session is being opened. @returns to be called when it is closed, or never was open */
  opened(lot: string, source: string): () => void {
    const provider = this.providerOf(lot);
    this.#pace?.opened(source, provider);
    return () => this.#pace?.closed(source, provider);
  }

  /** How an attempt at a lot ended. @returns whether the source waits now, as the far side wants less of it */
  note(lot: string, source: string, result: AttemptResult, { exchanger, ...facts }: PacedAttempt): boolean {
    return this.#pace?.note({ source, provider: this.#speakerOf(lot, exchanger) }, result, facts) ?? false;
  }

  /** Those of the sources that are new, and send to the provider of a lot by a plan. */
  warming(lot: string, sources: readonly string[] = this.#sourcesOf(lot)): readonly string[] {
    const pace = this.#pace;
    if (pace === undefined || !pace.isAnyWarming) return NONE;
    const provider = this.providerOf(lot);
    return sources.filter((source) => pace.isWarming(source, provider));
  }

  /** Whether the plan of such a source has room for a recipient who last opened or clicked so many days ago. */
  wants(lot: string, source: string, touchedDaysAgo: number | undefined): boolean {
    return this.#pace?.wants(source, this.providerOf(lot), touchedDaysAgo) ?? false;
  }

  /** What a complaint about a message to an exchanger is to be counted for, where the source sends by a plan. */
  plannedFrom(lot: string, source: string, exchanger: string): PaceKey | undefined {
    if (!this.#pace?.isAnyWarming) return undefined;
    const provider = this.#speakerOf(lot, exchanger);
    return this.#pace.isWarming(source, provider) ? { source, provider } : undefined;
  }

  /** Undefined where there is no limit. From now on the lot is one of those that `room` speaks of until the rate is full. */
  #rateOf(lot: string, source: string): RateLimit | undefined {
    const { messagesPerMinute } = this.policyOf(lot);
    if (messagesPerMinute === null) return undefined;
    const key = `${source} ${this.providerOf(lot)}`;
    const rate = this.#rates.get(key) ?? {
      limit: new RateLimit(messagesPerMinute, this.#clock),
      lots: new Set<string>(),
    };
    rate.lots.add(lot);
    this.#rates.set(key, rate);
    return rate.limit;
  }

  #sessionsOf(share: string): number {
    let sessions = 0;
    for (const [lot, count] of this.#active) if (this.#shareOf(lot) === share) sessions += count;
    return sessions;
  }

  /** What sessions are counted by: pools for which the system chooses the address have one source, and share them. */
  #shareOf(lot: string): string {
    return `${this.providerOf(lot)} from ${this.#sourcesOf(lot).join(" ")}`;
  }

  /** Whose word that of an exchanger is: of a domain that was hosted until a moment ago it may be a stranger's. */
  #speakerOf(lot: string, exchanger: string): string {
    const { destination } = splitLot(lot);
    const group = this.#groupOf(destination);
    const isProvider = this.#groups.ofDomain(destination) !== 0 || this.#groups.ofMxHost(exchanger) === group;
    return group !== 0 && isProvider ? this.#groups.nameOf(group) : destination;
  }

  #sourcesOf(lot: string): readonly string[] {
    return this.#sources.get(splitLot(lot).pool) ?? this.#sources.get("")!;
  }

  #groupOf(destination: string): number {
    return this.#groups.ofDomain(destination) || (this.#learnt.get(destination) ?? 0);
  }
}

const NONE: readonly string[] = [];
