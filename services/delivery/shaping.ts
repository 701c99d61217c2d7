import type { DomainGroups } from "../core/mail/address-group.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Clock } from "../platform/clock.ts";
import { splitLot } from "../store/mail/queue/lease-partitions.ts";
import type { DeliveryPolicy, GroupPolicy } from "./policy.ts";
import { RateLimit } from "./rate-limit.ts";
import { sourcesByPool } from "./routing/source-pools.ts";

/** Of one destination in one look: it fills its sessions soon, and yet leaves lanes to others. */
export const PARTITIONS_AT_ONCE = 4;
/** Hosted domains that are remembered; the next delivery learns a forgotten one again. */
const MOST_LEARNT = 10_000;

/** Messages that may still be sent this minute, and the lots that share them. */
interface SharedRate {
  readonly limit: RateLimit;
  readonly lots: Set<string>;
}

/**
 * Keeps a worker within the limits of each mailbox provider: how many partitions of it are delivered at once (one
 * session each), and how many messages a minute. A provider's own domains, and those that it hosts by the names of
 * their mail exchangers, share its limits; each other domain has its own. The limits are those of one source: a pool has
 * them as often as it has addresses. What is delivered is told by its lot (see `lotOf`).
 */
export class TrafficShaping {
  readonly #policy: DeliveryPolicy;
  readonly #groups: DomainGroups;
  readonly #clock: Clock;
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  /** Lots being delivered, with the number of their partitions. */
  readonly #active = new Map<string, number>();
  readonly #rates = new Map<string, SharedRate>();
  /** Lots of hosted domains. */
  readonly #hosted = recentMap<string, true>(MOST_LEARNT);
  /** Groups of hosted domains, as their exchangers told. */
  readonly #learnt = recentMap<string, number>(MOST_LEARNT);

  constructor(policy: DeliveryPolicy, groups: DomainGroups, clock: Clock) {
    this.#policy = policy;
    this.#groups = groups;
    this.#clock = clock;
    this.#sources = sourcesByPool(policy.pools);
  }

  policyOf(lot: string): GroupPolicy {
    return (
      this.#policy.groups[this.#groups.nameOf(this.#groupOf(splitLot(lot).destination))] ?? this.#policy.groups.default
    );
  }

  begin(lot: string): void {
    this.#active.set(lot, (this.#active.get(lot) ?? 0) + 1);
  }

  end(lot: string): void {
    const left = (this.#active.get(lot) ?? 1) - 1;
    if (left === 0) this.#active.delete(lot);
    else this.#active.set(lot, left);
  }

  /** Takes note of the exchangers of a lot's destination, which tell whose limits it shares. */
  learn(lot: string, exchangers: readonly string[]): void {
    const { destination } = splitLot(lot);
    if (this.#groups.ofDomain(destination) !== 0) return;
    const group = exchangers.map((name) => this.#groups.ofMxHost(name)).find((id) => id !== 0);
    if (group === undefined) {
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
    const limited = [...this.#rates.values()].flatMap(({ lots }) => [...lots]);
    const lots = new Set([...this.#active.keys(), ...limited, ...this.#hosted.keys()]);
    const sessions = new Map<string, number>();
    for (const [lot, count] of this.#active) {
      const share = this.#shareOf(lot);
      sessions.set(share, (sessions.get(share) ?? 0) + count);
    }
    return new Map([...lots].map((lot) => [lot, this.#roomOf(lot, sessions)]));
  }

  #roomOf(lot: string, sessions: ReadonlyMap<string, number>): number {
    if (!this.hasToken(lot)) return 0;
    const used = sessions.get(this.#shareOf(lot)) ?? 0;
    return Math.min(PARTITIONS_AT_ONCE, Math.max(0, this.#connectionsOf(lot) - used));
  }

  #connectionsOf(lot: string): number {
    const { connections } = this.policyOf(lot);
    return connections * this.#sourcesOf(lot).length;
  }

  /** Whether one more message of a lot may be sent now, from a source of its pool, or from any. */
  hasToken(lot: string, source?: string): boolean {
    const sources = source === undefined ? this.#sourcesOf(lot) : [source];
    return sources.some((each) => this.#rateOf(lot, each)?.hasToken() ?? true);
  }

  /** Takes leave to send one message. @returns false when what there was is used up */
  takeToken(lot: string, source: string = this.#sourcesOf(lot)[0]!): boolean {
    return this.#rateOf(lot, source)?.takeToken() ?? true;
  }

  /** Undefined where there is no limit. */
  #rateOf(lot: string, source: string): RateLimit | undefined {
    const { messagesPerMinute } = this.policyOf(lot);
    if (messagesPerMinute === null) return undefined;
    const key = `${source} ${this.#providerOf(lot)}`;
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
    return `${this.#providerOf(lot)} from ${this.#sourcesOf(lot).join(" ")}`;
  }

  /** A group of domains, or a domain that is in none. */
  #providerOf(lot: string): string {
    const { destination } = splitLot(lot);
    const group = this.#groupOf(destination);
    return group === 0 ? destination : this.#groups.nameOf(group);
  }

  #sourcesOf(lot: string): readonly string[] {
    return this.#sources.get(splitLot(lot).pool) ?? this.#sources.get("")!;
  }

  #groupOf(destination: string): number {
    return this.#groups.ofDomain(destination) || (this.#learnt.get(destination) ?? 0);
  }
}
