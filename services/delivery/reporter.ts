import { type ReportPolicy, sendDueReport } from "../operations/mail/send-reports.ts";
import type { Clock } from "../platform/clock.ts";
import { EachByItself } from "../platform/each-by-itself.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { isSpread } from "../store/mail/by-instance.ts";
import { endWatches, listReportingInstances, listWatchesOver } from "../store/mail/queue/delivery-reports.ts";
import { announceMail } from "../store/mail/queue/queue.ts";

interface ReporterOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  /** What reports say that they come from. */
  readonly hostname: string;
  readonly giveUpHours: number;
  readonly policy: ReportPolicy & { readonly delayHours: number };
}

/** Then it is the next instance's turn: whoever has much to be told holds up nobody else. */
const REPORTS_PER_TURN = 10;
const POLL_MS = 1_000;
/** The same where such a look asks every machine, and found nothing the last time. */
const RARE_POLL_MS = 10_000;
const AFTER_FAILURE_MS = 5_000;
/** So often it is looked for what has been watched for long enough. */
const WATCH_MS = 30_000;

/**
 * Tells senders what became of their messages. What is to be told was stored with the outcome; any number of processes
 * tell it, each report in a transaction of its own. One that cannot be made is withheld, and an instance whose reports cannot be
 * told is left alone for a while: neither is anything to the others.
 */
export function startReporter(options: ReporterOptions): RepeatedWork {
  const { db, clock, observe, hostname, giveUpHours, policy } = options;
  let watchedAtMs = Number.NEGATIVE_INFINITY;
  const notTold = (instanceId: number, err: unknown) =>
    observe({ kind: "reports-not-sent", level: "error", err, instanceId });
  const watching = new EachByItself(notTold);
  const telling = new EachByItself(notTold);
  /** Instances of which it is not through with that. */
  let overdue: number[] = [];
  /** Of each instance a portion, so that reports are told meanwhile. */
  const endSomeWatches = async (signal: AbortSignal) => {
    if (performance.now() - watchedAtMs > WATCH_MS) {
      watchedAtMs = performance.now();
      overdue = await listWatchesOver(db, policy.delayHours);
    }
    const left: number[] = [];
    for (const instanceId of overdue) {
      const endSome = () => endWatches(db, instanceId, policy.delayHours);
      if (signal.aborted || (await watching.attempt(instanceId, endSome))) left.push(instanceId);
    }
    overdue = left;
  };
  /** Tells what is due of an instance, so much in one turn. @returns whether a report was sent, and whether more is due */
  const tellOf = async (instanceId: number, signal: AbortSignal) => {
    let isTold = false;
    for (let reports = 0; reports < REPORTS_PER_TURN; reports++) {
      if (signal.aborted) return { isTold, isOver: true };
      const host = { hostname, giveUpHours, now: new Date(clock.nowMs()) };
      const report = await sendDueReport(db, policy, host, instanceId);
      if (report === undefined) return { isTold, isOver: true };
      const { kind: of, outcome, recipients, unmade } = report;
      if (unmade !== undefined) observe({ kind: "report-not-made", level: "error", ...unmade });
      observe({ kind: "delivery-report", level: outcome === "sent" ? "debug" : "info", of, outcome, recipients });
      isTold ||= outcome === "sent";
    }
    return { isTold, isOver: false };
  };
  return new RepeatedWork({
    take: async (signal) => {
      await endSomeWatches(signal);
      const instances = await listReportingInstances(db, policy.gatherSeconds);
      const told = [];
      for (const instanceId of instances) {
        const ofInstance = await telling.attempt(instanceId, () => tellOf(instanceId, signal));
        if (ofInstance !== undefined) told.push(ofInstance);
      }
      // It only hastens: workers look by themselves.
      if (told.some(({ isTold }) => isTold)) await announceMail(db).catch(() => {});
      if (overdue.length > 0) return 0;
      if (instances.length === 0 && (await isSpread(db))) return RARE_POLL_MS;
      return told.every(({ isOver }) => isOver) ? POLL_MS : 0;
    },
    failed: (err) => {
      observe({ kind: "reports-not-sent", level: "error", err });
      return AFTER_FAILURE_MS;
    },
  });
}
