import Koa from "koa";
import type { HostPort } from "../platform/config/config-values.ts";
import { type HttpListener, listenHttp } from "../platform/http/listen.ts";
import {
  aggregateMetrics,
  collectMetrics,
  gaugeValue,
  labelsOf,
  type MetricFamilies,
} from "../platform/observability/metrics.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { WITHOUT_DATABASE } from "../platform/service.ts";
import { findDatabaseProblem } from "./database-answers.ts";
import type { Supervisor } from "./supervisor.ts";

/** What the monitoring listener asks. */
export interface Watched {
  readonly supervisor: Supervisor;
  readonly db: Db;
  readonly observe: Observe;
}

/** What is served of the zones that ought to be, where a name server runs. */
interface ServedZones {
  readonly served: number;
  readonly expected: number;
  /** Names of zones that are not answered, or not as they are, for want of memory: 20 at most. */
  readonly left_out: readonly string[];
}

/**
 * `/healthz`: this process answers. `/readyz`: every service is ready and answers its supervisor, the zones are loaded, and
 * the database answers and takes changes; 503 with the reasons otherwise. Where a few zones do not fit into memory, an ACL or a
 * key cannot be read, or the database is away from name servers alone, it is 200, and its status `degraded`: to take the server
 * away would be worse for all that it answers. `/metrics`: the metrics of all services, summed, in Prometheus' text form.
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
      const { status, ...body } = await readReadiness(watched);
      ctx.status = status === "not ready" ? 503 : 200;
      ctx.body = { status, ...body };
    } else if (ctx.path === "/metrics") {
      ctx.type = "text/plain; version=0.0.4";
      const services = await watched.supervisor.collectMetrics();
      ctx.body = await aggregateMetrics([...services, await collectMetrics()]);
    }
  });
  return listenHttp(app, addresses, { observe: watched.observe });
}

async function readReadiness({ supervisor, db }: Watched) {
  const families = (await supervisor.collectMetrics()).flat() as MetricFamilies;
  const zones = readServedZones(families);
  const unreadable = readUnreadable(families);
  const ofServices = supervisor.problems;
  const ofDatabase = [await findDatabaseProblem(db)].filter((problem) => problem !== undefined);
  const needsDatabase = supervisor.states.some(({ name }) => !WITHOUT_DATABASE.includes(name));
  const isUnfit = ofServices.length + zones.problems.length > 0 || (needsDatabase && ofDatabase.length > 0);
  const isDegraded = ofDatabase.length + unreadable.length + (zones.served?.left_out.length ?? 0) > 0;
  return {
    status: isUnfit ? "not ready" : isDegraded ? "degraded" : "ok",
    problems: [...ofServices, ...ofDatabase, ...zones.problems, ...unreadable],
    ...zones.served,
  };
}

/** What the name server of this stack cannot read, and so does not answer or let anybody transfer: 20 of each at most. */
export function readUnreadable(families: MetricFamilies): string[] {
  const zones = labelsOf(families, { metric: "palomar_dns_zone_unreadable", label: "zone" });
  const access = labelsOf(families, { metric: "palomar_dns_transfer_access_unreadable", label: "what" });
  return [
    ...zones.map((zone) => `zone ${zone} cannot be read: zone-corrupt in the log says why`),
    ...access.map((line) => `transfers: ${line}`),
  ];
}

/** What the name server of this stack says of its zones; nothing where there is none. */
export function readServedZones(families: MetricFamilies): {
  readonly problems: readonly string[];
  readonly served?: ServedZones;
} {
  const served = gaugeValue(families, "palomar_dns_zones");
  const expected = gaugeValue(families, "palomar_dns_zones_expected");
  if (served === undefined || expected === undefined) return { problems: [] };
  const isLoaded = gaugeValue(families, "palomar_dns_zones_loaded") === 1;
  const isEmpty = served === 0 && expected > 0;
  const problems = [
    ...(isLoaded ? [] : ["dns-server has not loaded its zones"]),
    ...(isLoaded && isEmpty ? [`dns-server answers for none of the zones that it should: ${expected}`] : []),
  ];
  const leftOut = labelsOf(families, { metric: "palomar_dns_zone_left_out_octets", label: "zone" });
  return { problems, served: { served, expected, left_out: leftOut } };
}
