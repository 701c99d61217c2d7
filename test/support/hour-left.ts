import { setTimeout as sleep } from "node:timers/promises";
import { windowAfter } from "../../services/core/mail/guard/sending-limits.ts";

/**
 * Waits for the next hour where less than the time is left of this one: what is counted by the hour, or by the day, is
 * counted within one then.
 */
export async function hourLeft(neededMs: number): Promise<void> {
  const leftMs = windowAfter("hour", new Date()).getTime() - Date.now();
  if (leftMs < neededMs) await sleep(leftMs + 1);
}
