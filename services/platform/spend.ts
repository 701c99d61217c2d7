import type { RateLimiterMemory } from "rate-limiter-flexible";

/** Takes one of what a limiter leaves a key. @returns false when nothing was left */
export function spend(limiter: RateLimiterMemory, key: string): Promise<boolean> {
  return limiter.consume(key).then(
    () => true,
    () => false,
  );
}
