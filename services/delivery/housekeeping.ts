import type { Clock } from "../platform/clock.ts";
import { sendingPolicy } from "../platform/config/sending-limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { repeatTasks } from "../platform/repeated-work.ts";
import { purgeSendingCounts } from "../store/mail/guard/sending-counts.ts";
import { purgePaces } from "../store/mail/pace/source-paces.ts";
import { purgeWarmUps } from "../store/mail/pace/warm-ups.ts";
import { purgeReportCounts } from "../store/mail/queue/delivery-reports.ts";
import { purgeBackOffs } from "../store/mail/queue/queue-backoffs.ts";
import { purgeCalls } from "../store/mail/sends/idempotency.ts";

const EVERY_MS = 600_000;
const DAY_MS = 86_400_000;
/** What was learnt of a provider that nobody sends to any more. */
const PACES_FOR_DAYS = 30;
/** Plans that are over. */
const WARM_UPS_FOR_DAYS = 90;

/** Removes what no longer matters, now and then. Several processes may do so side by side. */
export function startHousekeeping({ db, clock, observe }: { db: Db; clock: Clock; observe: Observe }): {
  stop(): Promise<void>;
} {
  const purges = {
    calls: () => purgeCalls(db),
    "back-offs": () => purgeBackOffs(db),
    "report-counts": () => purgeReportCounts(db),
    paces: () => purgePaces(db, PACES_FOR_DAYS),
    "warm-ups": () => purgeWarmUps(db, WARM_UPS_FOR_DAYS),
    "sending-counts": () => purgeSendingCounts(db, new Date(clock.nowMs() - sendingPolicy.keptDays * DAY_MS)),
  };
  const tasks = Object.entries(purges).map(([name, run]) => ({ name, everyMs: EVERY_MS, run }));
  return repeatTasks(tasks, (task, err) => observe({ kind: "maintenance-failed", level: "warn", task, err }));
}
