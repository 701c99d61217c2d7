import { RateLimiterMemory, type RateLimiterRes } from "rate-limiter-flexible";
import type { Refusal } from "../../core/refusal.ts";
import { isLoopback, sourceOf } from "../lookups/address-blocks.ts";

/** What a caller may ask for in a second, and how often a stranger may fail. Undefined lets pass. */
export interface RateLimits {
  /** For what has no right answer to let pass: a source that keeps failing is turned away before anything is looked at. */
  beforeAuthentication(clientAddress: string): Promise<Refusal | undefined>;
  /** Counts something wrong. Wrong keys are counted elsewhere: see {@link KeyGuesses}. */
  countFailure(clientAddress: string): Promise<void>;
  countRequest(callerKey: string, clientAddress: string): Promise<Refusal | undefined>;
}

export const noLimits: RateLimits = {
  beforeAuthentication: async () => undefined,
  countFailure: async () => undefined,
  countRequest: async () => undefined,
};

/** Failures of one source within a minute before it has to wait. */
const FAILURES_PER_MINUTE = 30;

/** Limits in the memory of this process. Loopback is exempt unless `limitLoopback`. */
export function makeRateLimits(requestsPerSecond: number, limitLoopback: boolean): RateLimits {
  const requests = new RateLimiterMemory({ points: requestsPerSecond, duration: 1 });
  const failures = new RateLimiterMemory({ points: FAILURES_PER_MINUTE, duration: 60 });
  const isExempt = (address: string) => !limitLoopback && isLoopback(address);
  return {
    async beforeAuthentication(address) {
      const seen = isExempt(address) ? null : await failures.get(sourceOf(address));
      return seen && seen.consumedPoints >= FAILURES_PER_MINUTE ? rateLimited(seen) : undefined;
    },
    async countFailure(address) {
      await failures.penalty(sourceOf(address));
    },
    countRequest(callerKey, address) {
      if (isExempt(address)) return Promise.resolve(undefined);
      return requests.consume(callerKey).then(() => undefined, rateLimited);
    },
  };
}

function rateLimited(state: RateLimiterRes): Refusal {
  return { kind: "rate-limited", retryAfterSeconds: Math.max(1, Math.ceil(state.msBeforeNext / 1000)) };
}
