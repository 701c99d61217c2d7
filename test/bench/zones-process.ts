import { KeyRing } from "../../services/core/key-ring.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { makeObserve } from "../../services/platform/observability/observe.ts";
import { openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import type { StartService } from "../../services/platform/service.ts";

/**
 * A service alone in its process, for the benchmark of many zones: configured by the environment, as under the supervisor. It says
 * where it listens, and what it observes of its zones.
 */
const SERVICES: Readonly<Record<string, () => Promise<{ start: StartService }>>> = {
  "dns-server": () => import("../../services/dns-server/main.ts"),
  "dns-api": () => import("../../services/dns-api/main.ts"),
  console: () => import("../../services/console/main.ts"),
};
const TOLD = ["zones-published", "zones-from-snapshot", "snapshot-written"];

const name = process.argv[2] as string;
const config = loadConfig(process.env);
if (!config.ok) throw new Error(config.error.join("\n"));
const url = config.value.databaseUrl as string;
const logger = makeLogger(name, "warn");
const observe = makeObserve(logger);
const { start } = await SERVICES[name]!();
const service = await start({
  config: config.value,
  keyRing: KeyRing.ofSecret(process.env.PALOMAR_SECRET as string),
  db: openDb(url, { connections: config.value.databaseConnections, name }),
  clock: systemClock,
  logger,
  observe: (observation) => {
    observe(observation);
    if (TOLD.includes(observation.kind)) process.send?.({ observation });
  },
  openListenConnection: () => openListenConnection(url, name),
  addressOf: () => Promise.reject(new Error("no sibling runs beside it")),
});
process.send?.({ addresses: service.addresses });
const end = async () => {
  await service.stop();
  process.exit(0);
};
process.on("SIGTERM", end);
// The benchmark is gone, however it went.
process.on("disconnect", end);
