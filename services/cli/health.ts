import Koa from "koa";
import type { HostPort } from "../platform/config-values.ts";
import type { Db } from "../platform/db.ts";
import { type HttpListener, listenHttp } from "../platform/http/listen.ts";
import { aggregateMetrics, collectMetrics } from "../platform/metrics.ts";
import { databaseAnswers } from "./database-answers.ts";
import { DATABASE_SILENT } from "./explain-error.ts";
import type { Supervisor } from "./supervisor.ts";

/** What the monitoring listener asks. */
export interface Watched {
  readonly supervisor: Supervisor;
  readonly db: Db;
}

/**
 * `/healthz`: this process answers. `/readyz`: every service is ready and the database answers; 503 with the reasons
 * otherwise. `/metrics`: the metrics of all services, summed, in Prometheus' text form.
 */
export function listenForMonitoring(
  addresses: readonly HostPort[],
  watched: Watched,
): Promise<HttpListener | undefined> {
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    if (ctx.path === "/healthz") ctx.body = { status: "ok" };
    else if (ctx.path === "/readyz") {
      const problems = await findProblems(watched);
      ctx.status = problems.length === 0 ? 200 : 503;
      ctx.body = { status: problems.length === 0 ? "ok" : "not ready", problems };
    } else if (ctx.path === "/metrics") {
      ctx.type = "text/plain; version=0.0.4";
      const services = await watched.supervisor.collectMetrics();
      ctx.body = await aggregateMetrics([...services, await collectMetrics()]);
    }
  });
  return listenHttp(app, addresses);
}

async function findProblems({ supervisor, db }: Watched): Promise<string[]> {
  const problems = supervisor.notReady.map((name) => `${name} is not ready`);
  return (await databaseAnswers(db)) ? problems : [...problems, DATABASE_SILENT];
}
