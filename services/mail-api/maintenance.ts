import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import type { Observe } from "../platform/observation.ts";
import { foldEventCounts } from "../store/event-counts.ts";
import { prepareEventMonths } from "../store/event-partitions.ts";
import { applyRetention } from "../store/event-retention.ts";

const FOLD_EVERY_MS = 1_000;
const TIDY_EVERY_MS = 3_600_000;

/**
 * What the event tables need from time to time: counts folded, months ahead made, expired events removed. Any number
 * of processes may do it at once; the store sees to it that they do not get in each other's way.
 */
export function startMaintenance(db: Db, clock: Clock, observe: Observe): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const tasks = [
    repeat("event-counts", FOLD_EVERY_MS, () => foldEventCounts(db)),
    repeat("event-tables", TIDY_EVERY_MS, async () => {
      const now = new Date(clock.nowMs());
      await prepareEventMonths(db, now);
      await applyRetention(db, now);
    }),
  ];

  async function repeat(task: string, everyMs: number, run: () => Promise<void>): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await run();
      } catch (error) {
        observe({ kind: "maintenance-failed", level: "warn", task, err: error });
      }
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  return {
    stop: async () => {
      stopping.abort();
      await Promise.all(tasks);
    },
  };
}
