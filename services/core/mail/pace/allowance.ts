/** What a source may send to a provider at this moment: leave for single messages, handed out in small portions. */
import type { PaceMemory } from "./controller.ts";

/** What an operator fixed; null: goes by what is learnt. */
export interface PacePins {
  readonly ratePerHour: number | null;
  readonly connections: number | null;
  readonly messagesPerConnection: number | null;
}

export const UNPINNED: PacePins = { ratePerHour: null, connections: null, messagesPerConnection: null };

/** Messages that may be sent, of which no worker has taken any yet, as of a moment. */
export interface Bucket {
  readonly tokens: number;
  readonly filledAtMs: number;
}

/** Leave for more than so long is not saved up: a worker that was held up for a moment catches up. */
const SAVED_MS = 4_000;
/** A clock that is behind by more was set back. */
const MOST_LATE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * The rate in force.
 * @param configuredPerHour null: as fast as it goes
 * @returns messages an hour; null: as fast as it goes
 */
export function rateInForce(memory: PaceMemory, pins: PacePins, configuredPerHour: number | null): number | null {
  if (pins.ratePerHour !== null) return pins.ratePerHour;
  if (memory.ratePerHour === null) return configuredPerHour;
  return Math.min(memory.ratePerHour, configuredPerHour ?? Number.POSITIVE_INFINITY);
}

/** What a source waits for at a refusal, where an operator pinned its rate. */
const PINNED_WAIT_MS = 15_000;

/** What is learnt does not stop a source whose rate is pinned: a refusal has it wait for a moment, whatever it says. */
export function holdToPins(memory: PaceMemory, { ratePerHour }: PacePins, nowMs: number): PaceMemory {
  if (ratePerHour === null) return memory;
  return { ...memory, waitsUntilMs: Math.min(memory.waitsUntilMs, nowMs + PINNED_WAIT_MS) };
}

/**
 * Takes leave out of a bucket.
 * @param change `returned`: what was taken before and not used; `wanted`: how much is asked for
 * @returns whole messages
 */
export function draw(
  bucket: Bucket,
  ratePerHour: number,
  { nowMs, returned, wanted }: { readonly nowMs: number; readonly returned: number; readonly wanted: number },
): { readonly bucket: Bucket; readonly granted: number } {
  const most = Math.max(1, (ratePerHour * SAVED_MS) / HOUR_MS);
  // A clock that was set back must not stop the mail until it has caught up.
  const gained = (Math.max(0, nowMs - bucket.filledAtMs) * ratePerHour) / HOUR_MS;
  const tokens = Math.min(most, bucket.tokens + gained + returned);
  const granted = Math.max(0, Math.min(Math.floor(tokens), wanted));
  // Who looked at the clock before another, and came after it, must not have the same time counted twice.
  const isLate = nowMs < bucket.filledAtMs && bucket.filledAtMs - nowMs < MOST_LATE_MS;
  return { bucket: { tokens: tokens - granted, filledAtMs: isLate ? bucket.filledAtMs : nowMs }, granted };
}
