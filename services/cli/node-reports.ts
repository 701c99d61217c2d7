import { inTime } from "../platform/deadline.ts";
import type { Logger } from "../platform/observability/logger.ts";
import { gaugeValue, type MetricFamilies } from "../platform/observability/metrics.ts";
import { packageVersion } from "../platform/package-folder.ts";
import type { Db } from "../platform/postgres/db.ts";
import { removeNode, reportNode } from "../store/dns/nodes.ts";
import type { Supervisor } from "./supervisor.ts";

const PERIOD_MS = 10_000;
/** The services stop after the goodbye: a database that hangs is not to take their time. */
const GOODBYE_MS = 1_000;

/** Tells the deployment every few seconds that this node is there; says goodbye when it stops. */
export function startNodeReports(
  node: string,
  { db, supervisor, logger }: { readonly db: Db; readonly supervisor: Supervisor; readonly logger: Logger },
): { stop(): Promise<void> } {
  let working = Promise.resolve();
  const report = async () => {
    try {
      const families = (await supervisor.collectMetrics()).flat() as MetricFamilies;
      const behindSeconds = gaugeValue(families, "palomar_dns_behind_seconds");
      const lagMs = behindSeconds === undefined ? null : Math.round(behindSeconds * 1_000);
      await reportNode(db, { node, services: supervisor.states, version: packageVersion, lagMs });
    } catch (err) {
      // With the database away the others see that this node has fallen silent.
      logger.debug({ err }, "the node could not report");
    }
  };
  const tick = () => {
    working = working.then(report);
  };
  const timer = setInterval(tick, PERIOD_MS);
  tick();
  return {
    stop: async () => {
      clearInterval(timer);
      const goodbye = working.then(() => removeNode(db, node)).catch(() => {});
      await inTime(goodbye, GOODBYE_MS, () => {});
    },
  };
}
