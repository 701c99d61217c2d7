import ipaddr from "ipaddr.js";
import { RateLimiterMemory, type RateLimiterRes } from "rate-limiter-flexible";
import type { Refusal } from "../../core/refusal.ts";

/** What a caller may ask for in a second, and how often a stranger may fail. Undefined lets pass. */
export interface RateLimits {
  /** A source that keeps failing is turned away before its key is looked at. */
  beforeAuthentication(clientAddress: string): Promise<Refusal | undefined>;
  countFailure(clientAddress: string): Promise<void>;
  countRequest(callerKey: string, clientAddress: string): Promise<Refusal | undefined>;
}

export const noLimits: RateLimits = {
  beforeAuthentication: async () => undefined,
  countFailure: async () => {},
  countRequest: async () => undefined,
};

/** Wrong keys from one source within a minute before it has to wait. */
const FAILURES_PER_MINUTE = 30;

/**
 * Limits in the memory of this process. Loopback is exempt unless `limitLoopback`, but where people log in
 * (`limitLoopbackFailures`) their failures count from everywhere.
 */
export function makeRateLimits(
  requestsPerSecond: number,
  limitLoopback: boolean,
  limitLoopbackFailures = limitLoopback,
): RateLimits {
  const requests = new RateLimiterMemory({ points: requestsPerSecond, duration: 1 });
  const failures = new RateLimiterMemory({ points: FAILURES_PER_MINUTE, duration: 60 });
  const mayFail = (address: string) => !limitLoopbackFailures && isLoopback(address);
  return {
    async beforeAuthentication(address) {
      const seen = mayFail(address) ? null : await failures.get(address);
      return seen && seen.consumedPoints >= FAILURES_PER_MINUTE ? rateLimited(seen) : undefined;
    },
    async countFailure(address) {
      await failures.penalty(address);
    },
    countRequest(callerKey, address) {
      if (!limitLoopback && isLoopback(address)) return Promise.resolve(undefined);
      return requests.consume(callerKey).then(() => undefined, rateLimited);
    },
  };
}

/** IPv4 and IPv6 loopback, IPv4-mapped addresses included. */
export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === "loopback";
}

function rateLimited(state: RateLimiterRes): Refusal {
  return { kind: "rate-limited", retryAfterSeconds: Math.max(1, Math.ceil(state.msBeforeNext / 1000)) };
}
