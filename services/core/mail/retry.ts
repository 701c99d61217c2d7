/** When a deferred delivery is tried again, and when it is given up (RFC 5321 §4.5.4.1). */
import { ok, type Result, refuse } from "../result.ts";

/** What goes for all deliveries of a deployment. */
export interface RetrySchedule {
  /** Waits after the first, second, … attempt; the last one repeats. At least one. */
  readonly waitSeconds: readonly number[];
  readonly giveUpHours: number;
  /** Largest deviation from a wait, as a fraction of it, so that deferred mail does not come back all at once. */
  readonly jitter: number;
}

/** The data of config/retry.json. */
export interface RetryDefaults extends RetrySchedule {
  /** The waits of a deployment whose mail stays in its sandbox. */
  readonly sandboxWaitSeconds: readonly number[];
}

/** What a deployment says of its retries; null where it goes by the defaults. */
export interface RetrySettings {
  readonly isSandbox: boolean;
  readonly waitSeconds: readonly number[] | null;
  readonly giveUpHours: number | null;
}

/** What becomes of a delivery that was deferred once more. */
type RetryDecision = { readonly kind: "retry"; readonly afterMs: number } | { readonly kind: "give-up" };

/** Where a delivery stands. */
export interface DeliveryProgress {
  /** Completed attempts. */
  readonly attemptsMade: number;
  /** For how long it has been tried. */
  readonly ageMs: number;
}

const MILLISECONDS_PER_SECOND = 1_000;
const MILLISECONDS_PER_HOUR = 3_600_000;

/**
 * Wait before the next delivery attempt.
 * @param attemptsMade completed attempts, ≥ 1
 * @param random a number from 0 to below 1
 * @returns milliseconds, jittered by the schedule's fraction
 */
export function nextAttempt(attemptsMade: number, schedule: RetrySchedule, random: () => number): number {
  const { waitSeconds, jitter } = schedule;
  const wait = waitSeconds[Math.min(attemptsMade, waitSeconds.length) - 1];
  if (wait === undefined) throw new RangeError(`no wait after ${attemptsMade} attempts`);
  return Math.round(wait * MILLISECONDS_PER_SECOND * (1 + jitter * (2 * random() - 1)));
}

/** Try again, or give up once the delivery has been tried for the schedule's hours. */
export function decideRetry(progress: DeliveryProgress, schedule: RetrySchedule, random: () => number): RetryDecision {
  const leftMs = timeLeft(progress.ageMs, schedule);
  if (leftMs <= 0) return { kind: "give-up" };
  const afterMs = nextAttempt(progress.attemptsMade, schedule, random);
  return { kind: "retry", afterMs: Math.min(afterMs, leftMs) }; // the last attempt falls on the deadline
}

/** Milliseconds until a delivery that has been tried for so long is given up; none are left at 0 and below. */
export function timeLeft(ageMs: number, { giveUpHours }: RetrySchedule): number {
  return giveUpHours * MILLISECONDS_PER_HOUR - ageMs;
}

/** The schedule of a deployment: what it says itself goes before the defaults. */
export function chooseSchedule(
  { sandboxWaitSeconds, ...defaults }: RetryDefaults,
  { isSandbox, waitSeconds, giveUpHours }: RetrySettings,
): RetrySchedule {
  return {
    waitSeconds: waitSeconds ?? (isSandbox ? sandboxWaitSeconds : defaults.waitSeconds),
    giveUpHours: giveUpHours ?? defaults.giveUpHours,
    jitter: defaults.jitter,
  };
}

/** Check the content of config/retry.json. @returns refused with a sentence */
export function readRetryDefaults(data: unknown): Result<RetryDefaults, string> {
  const { waitSeconds, sandboxWaitSeconds, giveUpHours, jitter } = (data ?? {}) as Partial<
    Record<keyof RetryDefaults, unknown>
  >;
  if (!isWaits(waitSeconds)) return refuse("waitSeconds must be a list of positive numbers");
  if (!isWaits(sandboxWaitSeconds)) return refuse("sandboxWaitSeconds must be a list of positive numbers");
  if (!isPositive(giveUpHours)) return refuse("giveUpHours must be a positive number");
  if (typeof jitter !== "number" || !(jitter >= 0 && jitter < 1)) return refuse("jitter must be from 0 to below 1");
  return ok({ waitSeconds, sandboxWaitSeconds, giveUpHours, jitter });
}

function isWaits(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every(isPositive);
}

function isPositive(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value > 0;
}
