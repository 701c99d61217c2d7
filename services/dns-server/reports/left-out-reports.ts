import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { repeatTasks } from "../../platform/repeated-work.ts";
import { removeLeftOut, reportLeftOut } from "../../store/dns/zones-left-out.ts";
import type { LeftOutZone } from "../feed/left-out-zones.ts";

const EVERY_MS = 1_000;
/** An unchanged report is made again after this long, so that everybody sees that the server still stands by it. */
const REFRESH_MS = 30_000;

export interface LeftOutReportsOptions {
  readonly db: Db;
  readonly observe: Observe;
  /** What this machine is called among the nodes. */
  readonly node: string;
  readonly leftOut: () => readonly LeftOutZone[];
}

/** Tells the database which zones this server has no memory for: their owners and the operator see it there. */
export function startLeftOutReports({ db, observe, node, leftOut }: LeftOutReportsOptions): { stop(): Promise<void> } {
  // What another life of this node has said.
  let told = "none yet";
  let toldAtMs = 0;
  const tasks = [{ name: "zones left out", everyMs: EVERY_MS, run: report }];
  const reports = repeatTasks(tasks, (task, err) => observe({ kind: "upkeep-failed", level: "warn", task, err }));
  return {
    stop: async () => {
      await reports.stop();
      await removeLeftOut(db, node).catch(() => {});
    },
  };

  async function report(): Promise<void> {
    const zones = leftOut().map(({ zone, servedVersion, since, takenOctets }) => ({
      zoneId: zone.id,
      servedVersion: servedVersion ?? null,
      since,
      takenOctets,
    }));
    const now = JSON.stringify(zones);
    if (now === told && (zones.length === 0 || performance.now() - toldAtMs < REFRESH_MS)) return;
    await reportLeftOut(db, node, zones);
    told = now;
    toldAtMs = performance.now();
  }
}
