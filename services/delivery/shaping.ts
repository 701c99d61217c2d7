import type { DomainGroups } from "../core/mail/address-group.ts";
import type { Clock } from "../platform/clock.ts";
import type { DeliveryPolicy, GroupPolicy } from "./policy.ts";

const MS_PER_MINUTE = 60_000;
/** Of one destination in one look: it fills its sessions soon, and yet leaves lanes to others. */
export const PARTITIONS_AT_ONCE = 4;

/** Messages that may still be sent, and the domains that share them. */
interface Bucket {
  tokens: number;
  filledAtMs: number;
  readonly domains: Set<string>;
}

/**
 * Keeps a worker within the limits of each mailbox provider: how many partitions of it are delivered at once (one
 * session each), and how many messages a minute. A provider's domains share its limits; each other domain has its own.
 */
export class TrafficShaping {
  readonly #policy: DeliveryPolicy;
  readonly #groups: DomainGroups;
  readonly #clock: Clock;
  /** Domains being delivered to, with the number of their partitions. */
  readonly #active = new Map<string, number>();
  readonly #buckets = new Map<string, Bucket>();

  constructor(policy: DeliveryPolicy, groups: DomainGroups, clock: Clock) {
    this.#policy = policy;
    this.#groups = groups;
    this.#clock = clock;
  }

  policyOf(destination: string): GroupPolicy {
    return this.#policy.groups[this.#groups.nameOf(this.#groups.ofDomain(destination))] ?? this.#policy.groups.default;
  }

  begin(destination: string): void {
    this.#active.set(destination, (this.#active.get(destination) ?? 0) + 1);
  }

  end(destination: string): void {
    const left = (this.#active.get(destination) ?? 1) - 1;
    if (left === 0) this.#active.delete(destination);
    else this.#active.set(destination, left);
  }

  /** How many more partitions the domains may have that are delivered to, or were slowed down. */
  room(): Map<string, number> {
    const domains = new Set([...this.#active.keys(), ...[...this.#buckets.values()].flatMap((b) => [...b.domains])]);
    return new Map([...domains].map((domain) => [domain, this.#roomOf(domain)]));
  }

  #roomOf(destination: string): number {
    if (!this.#hasToken(destination)) return 0;
    const share = this.#shareOf(destination);
    let sessions = 0;
    for (const [domain, count] of this.#active) if (this.#shareOf(domain) === share) sessions += count;
    return Math.min(PARTITIONS_AT_ONCE, Math.max(0, this.policyOf(destination).connections - sessions));
  }

  /** Takes leave to send one message. @returns false when this minute's are used up */
  takeToken(destination: string): boolean {
    if (!this.#hasToken(destination)) return false;
    const bucket = this.#buckets.get(this.#shareOf(destination));
    if (bucket) bucket.tokens -= 1;
    return true;
  }

  #hasToken(destination: string): boolean {
    const { messagesPerMinute } = this.policyOf(destination);
    if (messagesPerMinute === null) return true;
    const share = this.#shareOf(destination);
    const nowMs = this.#clock.nowMs();
    const bucket = this.#buckets.get(share) ?? { tokens: messagesPerMinute, filledAtMs: nowMs, domains: new Set() };
    // A clock that was set back must not stop the mail until it has caught up.
    const gained = (Math.max(0, nowMs - bucket.filledAtMs) * messagesPerMinute) / MS_PER_MINUTE;
    bucket.tokens = Math.min(messagesPerMinute, bucket.tokens + gained);
    bucket.filledAtMs = nowMs;
    bucket.domains.add(destination);
    this.#buckets.set(share, bucket);
    return bucket.tokens >= 1;
  }

  /** What the limits are counted by. */
  #shareOf(destination: string): string {
    const group = this.#groups.ofDomain(destination);
    return group === 0 ? destination : `group ${group}`;
  }
}
