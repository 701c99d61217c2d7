import { sendingPolicy } from "../platform/config/sending-limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { purgeSendingCounts } from "../store/mail/guard/sending-counts.ts";
import { purgePaces } from "../store/mail/pace/source-paces.ts";
import { purgeWarmUps } from "../store/mail/pace/warm-ups.ts";
import { purgeReportCounts } from "../store/mail/queue/delivery-reports.ts";
import { purgeBackOffs } from "../store/mail/queue/queue-backoffs.ts";
import { purgeCalls } from "../store/mail/sends/idempotency.ts";

const PERIOD_MS = 600_000;
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);
/** What was learnt of a provider that nobody sends to any more. */
const PACES_FOR_DAYS = 30;
/** Plans that are over. */
const WARM_UPS_FOR_DAYS = 90;

/** Removes what no longer matters, now and then. Several processes may do so side by side. */
export function startHousekeeping(db: Db, observe: Observe): { stop(): Promise<void> } {
  let working = Promise.resolve();
  const work = () => {
    working = Promise.all([
      purgeCalls(db),
      purgeBackOffs(db),
      purgeReportCounts(db),
      purgePaces(db, PACES_FOR_DAYS),
      purgeWarmUps(db, WARM_UPS_FOR_DAYS),
      purgeSendingCounts(db, daysAgo(sendingPolicy.keptDays)),
    ]).then(
      () => {},
      (error: unknown) => observe({ kind: "housekeeping-failed", level: "warn", err: error }),
    );
  };
  const timer = setInterval(work, PERIOD_MS);
  work();
  return {
    stop: async () => {
      clearInterval(timer);
      await working;
    },
  };
}
