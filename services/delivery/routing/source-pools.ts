import { isIP } from "node:net";
import { type CampaignPool, poolFor } from "../../core/mail/pools.ts";
import { SYSTEM_SOURCE } from "../../core/mail/queue/destination-queue.ts";
import type { Clock } from "../../platform/clock.ts";
import type { PoolAssignment } from "../../store/mail/queue/pool-assignments.ts";
import type { DeliveryPolicy, PoolPolicy } from "../policy.ts";
import { RateLimit } from "../rate-limit.ts";

/** An address of ours that a session is to leave from. */
export interface SourceAddress {
  readonly address: string;
  /** What EHLO says from there, where it is not PALOMAR_HOSTNAME. */
  readonly hostname?: string | undefined;
}

/** A lane's place in a pool. */
export interface SourcePlace {
  /** Sessions are shared only within a pool. */
  readonly pool: string;
  /** What has a reputation of its own: each address of the pool, or the system's choice. */
  readonly sources: readonly string[];
  /** Whether one more message may leave now. */
  hasToken(): boolean;
  /** Takes leave to send one message. @returns false when this minute's are used up */
  takeToken(): boolean;
  /**
   * An address of the pool to speak to a host from, by the weights; undefined: as the system chooses.
   * @param mayUse whether a source may be spoken from now
   * @returns null when the pool has addresses, but none of the host's family that may be used
   */
  pick(host: string, mayUse?: (source: string) => boolean): SourceAddress | undefined | null;
  leave(): void;
}

interface Pool {
  readonly policy: PoolPolicy;
  readonly rate: RateLimit | undefined;
  lanes: number;
}

/** What a pool is called that mail leaves through unless config/delivery.json says otherwise; partitions have '' for it. */
const DEFAULT_POOL = "default";

/** The addresses that mail leaves from, as config/delivery.json divides them among instances and campaigns. */
export class SourcePools {
  /** `poolOf`, as the store keeps it. */
  readonly assignments: readonly PoolAssignment[];
  /** By pool, '' for the default one; see `SourcePlace`. */
  readonly sources: ReadonlyMap<string, readonly string[]>;
  readonly #pools: ReadonlyMap<string, Pool>;
  readonly #rowsOf = new Map<string, CampaignPool[]>();
  readonly #random: () => number;

  constructor({ pools, poolOf }: Pick<DeliveryPolicy, "pools" | "poolOf">, clock: Clock, random: () => number) {
    const entries = Object.entries(pools).map(([name, policy]) => [labelOf(name), policy] as const);
    this.#pools = new Map(
      entries.map(([label, policy]) => {
        const { messagesPerMinute } = policy;
        const rate = messagesPerMinute === null ? undefined : new RateLimit(messagesPerMinute, clock);
        return [label, { policy, rate, lanes: 0 }];
      }),
    );
    this.sources = sourcesByPool(pools);
    this.assignments = poolOf.map(({ instance, campaign, pool }) => ({
      instance,
      campaignNumid: campaign ?? null,
      pool: labelOf(pool),
    }));
    for (const { instance, ...row } of this.assignments) {
      this.#rowsOf.set(instance, [...(this.#rowsOf.get(instance) ?? []), row]);
    }
    this.#random = random;
  }

  /** @returns '' for the default pool */
  poolOf(instance: string, campaignNumid: number): string {
    return poolFor(this.#rowsOf.get(instance) ?? [], campaignNumid);
  }

  /** A place for a lane with mail of a campaign; undefined while the pool is full, or has used up its minute. */
  enter(instance: string, campaignNumid: number): SourcePlace | undefined {
    const label = this.poolOf(instance, campaignNumid);
    const pool = this.#pools.get(label)!;
    const { connections, addresses } = pool.policy;
    if ((connections !== null && pool.lanes >= connections) || pool.rate?.hasToken() === false) return undefined;
    pool.lanes += 1;
    return {
      pool: label || DEFAULT_POOL,
      sources: this.sources.get(label)!,
      hasToken: () => pool.rate?.hasToken() ?? true,
      takeToken: () => pool.rate?.takeToken() ?? true,
      pick: (host, mayUse = () => true) => {
        if (addresses.length === 0) return undefined;
        const usable = addresses.filter(({ address }) => mayUse(address));
        return pickAddress(usable, host, this.#random());
      },
      leave: () => {
        pool.lanes -= 1;
      },
    };
  }
}

function labelOf(name: string): string {
  return name === DEFAULT_POOL ? "" : name;
}

/** The sources of each pool, '' for the default one. */
export function sourcesByPool(pools: DeliveryPolicy["pools"]): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(pools).map(([name, { addresses }]) => [
      labelOf(name),
      addresses.length === 0 ? [SYSTEM_SOURCE] : [...new Set(addresses.map(({ address }) => address))],
    ]),
  );
}

/** @param draw from 0 to below 1 */
function pickAddress(addresses: PoolPolicy["addresses"], host: string, draw: number): SourceAddress | null {
  // A smart host's name may have addresses of either family: the more usual one is taken.
  const family = isIP(host) || 4;
  const fitting = addresses.filter(({ address }) => isIP(address) === family);
  let left = draw * fitting.reduce((sum, { weight }) => sum + weight, 0);
  for (const { address, weight, hostname } of fitting) {
    left -= weight;
    if (left < 0) return { address, hostname };
  }
  return null;
}
