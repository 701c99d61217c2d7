import type { FollowPolicy } from "../../platform/config/follow-policy.ts";
import type { OwnedProbe } from "../../store/dns/pool-probes.ts";

type Policy = Pick<
  FollowPolicy["checks"],
  "aTenantASecond" | "aResellerASecond" | "anAddressASecond" | "newOfATenantMs" | "newOfAnAddressMs"
>;

/** Below so many there is nothing to gain by forgetting any. */
const LEAST_REMEMBERED = 1_000;

/** What one company, and all of one reseller, may have checked, and how often one address is. */
export class CheckBounds {
  readonly #policy: Policy;
  #second = 0;
  readonly #counts = new Map<string, number>();
  /** When the next first check may begin, of a company and of an address; ms since the epoch. */
  readonly #firstAtMs = new Map<string, number>();
  #forgetAt = LEAST_REMEMBERED;

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** Whether one more check may begin in the second that passes. */
  take({ tenant, reseller, address }: Pick<OwnedProbe, "tenant" | "reseller" | "address">, nowMs: number): boolean {
    const second = Math.floor(nowMs / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#counts.clear();
    }
    const counted = [
      [tenant, this.#policy.aTenantASecond],
      [`/${reseller}`, this.#policy.aResellerASecond],
      [`@${address}`, this.#policy.anAddressASecond],
    ] as const;
    if (counted.some(([key, most]) => (this.#counts.get(key) ?? 0) >= most)) return false;
    for (const [key] of counted) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    return true;
  }

  /** When a place may be looked at for the first time: it is somebody's guess until then. @returns ms since the epoch */
  firstCheckAt(tenant: string, address: string, nowMs: number): number {
    this.#forget(nowMs);
    const atMs = Math.max(nowMs, this.#firstAtMs.get(tenant) ?? 0, this.#firstAtMs.get(`@${address}`) ?? 0);
    this.#firstAtMs.set(tenant, Math.max(this.#firstAtMs.get(tenant) ?? 0, nowMs) + this.#policy.newOfATenantMs);
    this.#firstAtMs.set(`@${address}`, atMs + this.#policy.newOfAnAddressMs);
    return atMs;
  }

  #forget(nowMs: number): void {
    if (this.#firstAtMs.size < this.#forgetAt) return;
    for (const [key, at] of this.#firstAtMs) if (at <= nowMs) this.#firstAtMs.delete(key);
    this.#forgetAt = Math.max(LEAST_REMEMBERED, 2 * this.#firstAtMs.size);
  }
}
