import { EachByItself } from "../platform/each-by-itself.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { repeatTasks } from "../platform/repeated-work.ts";
import type { ServiceContext } from "../platform/service.ts";
import { tidyAttempts } from "../store/mail/attempts/attempt-weeks.ts";
import { foldEventCounts } from "../store/mail/events/event-counts.ts";
import { prepareEventMonths } from "../store/mail/events/event-partitions.ts";
import { applyRetention } from "../store/mail/events/event-retention.ts";

const FOLD_EVERY_MS = 1_000;
const TIDY_EVERY_MS = 3_600_000;

/**
 * What the tables of events and attempts need from time to time: counts folded, months and weeks ahead made, and what is
 * no longer kept removed. Any number of processes may do it at once; the store sees to it that they do not get in each other's way.
 */
export function startMaintenance(
  { db, clock, config }: Pick<ServiceContext, "db" | "clock" | "config">,
  observe: Observe,
): { stop(): Promise<void> } {
  const retention = new EachByItself<number>((instanceId, err) =>
    observe({ kind: "maintenance-failed", level: "warn", task: "event-tables", err, instanceId }),
  );
  const tidy = async (signal: AbortSignal) => {
    const now = new Date(clock.nowMs());
    await prepareEventMonths(db, now);
    await applyRetention(db, now, retention, signal);
  };
  const tasks = [
    { name: "event-counts", everyMs: FOLD_EVERY_MS, run: () => foldEventCounts(db) },
    { name: "event-tables", everyMs: TIDY_EVERY_MS, run: tidy },
    {
      name: "attempts",
      everyMs: TIDY_EVERY_MS,
      run: () => tidyAttempts(db, new Date(clock.nowMs()), config.attemptRetentionDays),
    },
  ];
  return repeatTasks(tasks, (task, err) => observe({ kind: "maintenance-failed", level: "warn", task, err }));
}
