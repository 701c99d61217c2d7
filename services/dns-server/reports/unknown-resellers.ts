import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { repeatTasks } from "../../platform/repeated-work.ts";
import { listUnknownResellers } from "../../store/dns/resellers.ts";

const EVERY_MS = 60_000;

/** Warns of ids in PALOMAR_DNS_RESELLERS that no reseller has, each time that they are others: they may be misspelt, or come later. */
export function startUnknownResellerReports(options: {
  readonly db: Db;
  readonly observe: Observe;
  readonly resellers: readonly string[];
}): { stop(): Promise<void> } {
  const { db, observe, resellers } = options;
  let told = "";
  const tasks = [{ name: "unknown resellers", everyMs: EVERY_MS, run: report }];
  return repeatTasks(tasks, (task, err) => observe({ kind: "upkeep-failed", level: "warn", task, err }));

  async function report(): Promise<void> {
    const unknown = await listUnknownResellers(db, resellers);
    if (unknown.length > 0 && unknown.join() !== told) {
      observe({ kind: "resellers-unknown", level: "warn", resellers: unknown });
    }
    told = unknown.join();
  }
}
