import { isIP } from "node:net";
import type { Clock } from "../../platform/clock.ts";
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
  /** Whether one more message may leave now. */
  hasToken(): boolean;
  /** Takes leave to send one message. @returns false when this minute's are used up */
  takeToken(): boolean;
  /**
   * An address of the pool to speak to a host from, by the weights; undefined: as the system chooses.
   * @returns null when the pool has addresses, but none of the host's family
   */
  pick(host: string): SourceAddress | undefined | null;
  leave(): void;
}

interface Pool {
  readonly policy: PoolPolicy;
  readonly rate: RateLimit | undefined;
  lanes: number;
}

/** The addresses that mail leaves from, as config/delivery.json divides them among instances and campaigns. */
export class SourcePools {
  readonly #pools: ReadonlyMap<string, Pool>;
  readonly #poolOf: DeliveryPolicy["poolOf"];
  readonly #random: () => number;

  constructor({ pools, poolOf }: Pick<DeliveryPolicy, "pools" | "poolOf">, clock: Clock, random: () => number) {
    this.#pools = new Map(
      Object.entries(pools).map(([name, policy]) => {
        const { messagesPerMinute } = policy;
        const rate = messagesPerMinute === null ? undefined : new RateLimit(messagesPerMinute, clock);
        return [name, { policy, rate, lanes: 0 }];
      }),
    );
    this.#poolOf = poolOf;
    this.#random = random;
  }

  /** A place for a lane with mail of a campaign; undefined while the pool is full, or has used up its minute. */
  enter(instance: string, campaignNumid: number): SourcePlace | undefined {
    const row = this.#poolOf.find(
      (row) => row.instance === instance && (row.campaign === undefined || row.campaign === campaignNumid),
    );
    const name = row?.pool ?? "default";
    const pool = this.#pools.get(name)!;
    const { connections, addresses } = pool.policy;
    if ((connections !== null && pool.lanes >= connections) || pool.rate?.hasToken() === false) return undefined;
    pool.lanes += 1;
    return {
      pool: name,
      hasToken: () => pool.rate?.hasToken() ?? true,
      takeToken: () => pool.rate?.takeToken() ?? true,
      pick: (host) => (addresses.length === 0 ? undefined : pickAddress(addresses, host, this.#random())),
      leave: () => {
        pool.lanes -= 1;
      },
    };
  }
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
