import type { DomainGroups } from "../core/mail/address-group.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Clock } from "../platform/clock.ts";
import type { DeliveryPolicy, GroupPolicy } from "./policy.ts";
import { RateLimit } from "./rate-limit.ts";

/** Of one destination in one look: it fills its sessions soon, and yet leaves lanes to others. */
export const PARTITIONS_AT_ONCE = 4;
/** Hosted domains that are remembered; the next delivery learns a forgotten one again. */
const MOST_LEARNT = 10_000;

/** Messages that may still be sent this minute, and the domains that share them. */
interface SharedRate {
  readonly limit: RateLimit;
  readonly domains: Set<string>;
}

/**
 * Keeps a worker within the limits of each mailbox provider: how many partitions of it are delivered at once (one
 * session each), and how many messages a minute. A provider's own domains, and those that it hosts by the names of
 * their mail exchangers, share its limits; each other domain has its own.
 */
export class TrafficShaping {
  readonly #policy: DeliveryPolicy;
  readonly #groups: DomainGroups;
  readonly #clock: Clock;
  /** Domains being delivered to, with the number of their partitions. */
  readonly #active = new Map<string, number>();
  readonly #rates = new Map<string, SharedRate>();
  /** Groups of hosted domains, as their exchangers told. */
  readonly #learnt = recentMap<string, number>(MOST_LEARNT);

  constructor(policy: DeliveryPolicy, groups: DomainGroups, clock: Clock) {
    this.#policy = policy;
    this.#groups = groups;
    this.#clock = clock;
  }

  policyOf(destination: string): GroupPolicy {
    return this.#policy.groups[this.#groups.nameOf(this.#groupOf(destination))] ?? this.#policy.groups.default;
  }

  begin(destination: string): void {
    this.#active.set(destination, (this.#active.get(destination) ?? 0) + 1);
  }

  end(destination: string): void {
    const left = (this.#active.get(destination) ?? 1) - 1;
    if (left === 0) this.#active.delete(destination);
    else this.#active.set(destination, left);
  }

  /** Takes note of the exchangers of a destination, which tell whose limits it shares. */
  learn(destination: string, exchangers: readonly string[]): void {
    if (this.#groups.ofDomain(destination) !== 0) return;
    const group = exchangers.map((name) => this.#groups.ofMxHost(name)).find((id) => id !== 0);
    if (group === undefined) this.#learnt.delete(destination);
    else this.#learnt.set(destination, group);
  }

  /** Whether the provider of a destination that was begun has more sessions than it is to have: the partition has to wait. */
  hasTooManySessions(destination: string): boolean {
    return this.#sessionsOf(this.#shareOf(destination)) > this.policyOf(destination).connections;
  }

  /** How many more partitions the domains may have that are delivered to, were slowed down, or are hosted. */
  room(): Map<string, number> {
    for (const [share, { limit }] of this.#rates) if (limit.isFull()) this.#rates.delete(share);
    const slowed = [...this.#rates.values()].flatMap(({ domains }) => [...domains]);
    const domains = new Set([...this.#active.keys(), ...slowed, ...this.#learnt.keys()]);
    const sessions = new Map<string, number>();
    for (const [domain, count] of this.#active) {
      const share = this.#shareOf(domain);
      sessions.set(share, (sessions.get(share) ?? 0) + count);
    }
    return new Map([...domains].map((domain) => [domain, this.#roomOf(domain, sessions)]));
  }

  #roomOf(destination: string, sessions: ReadonlyMap<string, number>): number {
    if (!this.hasToken(destination)) return 0;
    const used = sessions.get(this.#shareOf(destination)) ?? 0;
    return Math.min(PARTITIONS_AT_ONCE, Math.max(0, this.policyOf(destination).connections - used));
  }

  /** Whether one more message may be sent to a destination now. */
  hasToken(destination: string): boolean {
    return this.#rateOf(destination)?.hasToken() ?? true;
  }

  /** Takes leave to send one message. @returns false when this minute's are used up */
  takeToken(destination: string): boolean {
    return this.#rateOf(destination)?.takeToken() ?? true;
  }

  /** Undefined where there is no limit. */
  #rateOf(destination: string): RateLimit | undefined {
    const { messagesPerMinute } = this.policyOf(destination);
    if (messagesPerMinute === null) return undefined;
    const share = this.#shareOf(destination);
    const rate = this.#rates.get(share) ?? {
      limit: new RateLimit(messagesPerMinute, this.#clock),
      domains: new Set<string>(),
    };
    rate.domains.add(destination);
    this.#rates.set(share, rate);
    return rate.limit;
  }

  #sessionsOf(share: string): number {
    let sessions = 0;
    for (const [domain, count] of this.#active) if (this.#shareOf(domain) === share) sessions += count;
    return sessions;
  }

  /** What the limits are counted by. */
  #shareOf(destination: string): string {
    const group = this.#groupOf(destination);
    return group === 0 ? destination : `group ${group}`;
  }

  #groupOf(destination: string): number {
    return this.#groups.ofDomain(destination) || (this.#learnt.get(destination) ?? 0);
  }
}
