import { inTime } from "../platform/deadline.ts";
import type { Logger } from "../platform/observability/logger.ts";
import { gaugeValue, type MetricFamilies } from "../platform/observability/metrics.ts";
import { packageVersion } from "../platform/package-folder.ts";
import type { Db } from "../platform/postgres/db.ts";
import { repeatTasks } from "../platform/repeated-work.ts";
import { removeNode, reportNode } from "../store/dns/nodes.ts";
import type { Supervisor } from "./supervisor.ts";

const PERIOD_MS = 10_000;
/** The services stop after the goodbye: a database that hangs is not to take their time. */
const GOODBYE_MS = 1_000;

/** What is reported of the services. */
type Reported = Pick<Supervisor, "collectMetrics" | "states">;

/** Tells the deployment every few seconds that this node is there; says goodbye when it stops. */
export function startNodeReports(
  node: string,
  { db, supervisor, logger }: { readonly db: Db; readonly supervisor: Reported; readonly logger: Logger },
): { stop(): Promise<void> } {
  const report = async () => {
    const families = (await supervisor.collectMetrics()).flat() as MetricFamilies;
    const behindSeconds = gaugeValue(families, "palomar_dns_behind_seconds");
    const lagMs = behindSeconds === undefined ? null : Math.round(behindSeconds * 1_000);
    await reportNode(db, { node, services: supervisor.states, version: packageVersion, lagMs });
  };
  const reports = repeatTasks([{ name: "report of this node", everyMs: PERIOD_MS, run: report }], (_, err) => {
    // With the database away the others see that this node has fallen silent.
    logger.debug({ err }, "the node could not report");
  });
  return {
    stop: async () => {
      const goodbye = reports
        .stop()
        .then(() => removeNode(db, node))
        .catch(() => {});
      await inTime(goodbye, GOODBYE_MS, () => {});
    },
  };
}
