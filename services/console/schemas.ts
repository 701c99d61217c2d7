import { z } from "zod";
import type { Clock } from "../platform/clock.ts";

/** Entries in a page, and at most. */
export const pageLimit = z.int("whole-number").min(1, "at-least").max(1_000, "at-most").default(100);

/** A text to look for. */
export const searchText = z.string().max(255, "not-longer-than-characters").default("");

/** The reply of a request that began a job: see `GET /jobs/{id}`. */
export const jobReply = z.object({ job: z.string() });

/** For how many hours a key that is replaced stays good; none: it ends at once. */
export const graceHours = z
  .number()
  .min(0, "not-negative")
  .max(365 * 24, "at-most-a-year")
  .default(0);

/** The moment at which a grace ends; null when there is none. */
export function graceUntil(clock: Clock, hours: number): Date | null {
  return hours === 0 ? null : new Date(clock.nowMs() + hours * 3_600_000);
}
