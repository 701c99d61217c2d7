import { type ReportPolicy, type ReportSent, sendDueReport } from "../operations/mail/send-reports.ts";
import type { Clock } from "../platform/clock.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { endWatches } from "../store/mail/queue/delivery-reports.ts";
import { announceMail } from "../store/mail/queue/queue.ts";

export interface ReporterOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  /** What reports say that they come from. */
  readonly hostname: string;
  readonly giveUpHours: number;
  readonly policy: ReportPolicy & { readonly delayHours: number };
}

const POLL_MS = 1_000;
const AFTER_FAILURE_MS = 5_000;
const WATCH_MS = 30_000;

/**
 * Tells senders what became of their messages. What is to be told was stored with the outcome; any number of processes
 * tell it, each report in a transaction of its own.
 */
export function startReporter(options: ReporterOptions): RepeatedWork {
  const { db, clock, observe, hostname, giveUpHours, policy } = options;
  let watchedAtMs = Number.NEGATIVE_INFINITY;
  return new RepeatedWork({
    take: async (signal) => {
      if (performance.now() - watchedAtMs > WATCH_MS) {
        watchedAtMs = performance.now();
        await endWatches(db, policy.delayHours);
      }
      let isTold = false;
      for (let report: ReportSent | undefined; !signal.aborted; ) {
        report = await sendDueReport(db, policy, { hostname, giveUpHours, now: new Date(clock.nowMs()) });
        if (report === undefined) break;
        const level = report.outcome === "sent" ? "debug" : "info";
        observe({
          kind: "delivery-report",
          level,
          of: report.kind,
          outcome: report.outcome,
          recipients: report.recipients,
        });
        isTold ||= report.outcome === "sent";
      }
      // It only hastens: workers look by themselves.
      if (isTold) await announceMail(db).catch(() => {});
      return POLL_MS;
    },
    failed: (err) => {
      observe({ kind: "reports-not-sent", level: "error", err });
      return AFTER_FAILURE_MS;
    },
  });
}
