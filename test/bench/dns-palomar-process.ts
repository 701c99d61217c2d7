import { start } from "../../services/dns-server/main.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { findKeys } from "../../services/platform/config/secret.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { makeObserve } from "../../services/platform/observability/observe.ts";
import { openDb, openListenConnection } from "../../services/platform/postgres/db.ts";

/** The DNS server alone, for the benchmark: configured by the environment, as under the supervisor. */
const config = loadConfig(process.env);
if (!config.ok) throw new Error(config.error.join("\n"));
const url = config.value.databaseUrl as string;
const logger = makeLogger("dns-server", "info");
const service = await start({
  config: config.value,
  keyRing: findKeys(config.value),
  db: openDb(url, { connections: 5, name: "bench" }),
  clock: systemClock,
  logger,
  observe: makeObserve(logger),
  openListenConnection: () => openListenConnection(url, "dns-server"),
  addressOf: () => Promise.reject(new Error("the DNS server asks for no sibling")),
});
const end = async () => {
  await service.stop();
  process.exit(0);
};
process.on("SIGTERM", end);
// The benchmark is gone, however it went.
process.on("disconnect", end);
