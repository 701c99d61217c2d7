import { repeatTasks } from "../platform/repeated-work.ts";
import { purgeAudit } from "../store/console/audit.ts";
import { purgeLockouts } from "../store/console/console-lockouts.ts";
import { purgeSessions } from "../store/console/sessions.ts";
import { purgeJobs } from "../store/jobs.ts";
import type { ConsoleContext } from "./context.ts";
import { sessionLifetime } from "./dialect.ts";

const SWEEP_EVERY_MS = 5_000;
const PURGE_EVERY_MS = 3_600_000;
const DAY_MS = 86_400_000;
const JOB_DAYS = 30;
/** As many as a list of them shows. */
const MOST_JOBS_OF_SCOPE = 1_000;
const LOCKOUT_DAYS = 1;

/** What the console's tables need from time to time. Any number of processes may do it at once. */
export function startMaintenance(context: ConsoleContext): { stop(): Promise<void> } {
  const { db, clock, observe, config, jobs } = context;
  const tasks = [
    { name: "silent-jobs", everyMs: SWEEP_EVERY_MS, run: () => jobs.sweep() },
    { name: "console-retention", everyMs: PURGE_EVERY_MS, run: purge },
  ];
  return repeatTasks(tasks, (task, err) => observe({ kind: "maintenance-failed", level: "warn", task, err }));

  async function purge(): Promise<void> {
    const now = new Date(clock.nowMs());
    const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS);
    await purgeSessions(db, sessionLifetime(context), now);
    await purgeLockouts(db, daysAgo(LOCKOUT_DAYS));
    await purgeJobs(db, { before: daysAgo(JOB_DAYS), mostOfScope: MOST_JOBS_OF_SCOPE });
    await purgeAudit(db, daysAgo(config.console.auditDays));
  }
}
