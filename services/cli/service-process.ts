import { systemClock } from "../platform/clock.ts";
import { type Config, loadConfig } from "../platform/config.ts";
import { openDb, openListenConnection } from "../platform/db.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import { makeLogger } from "../platform/logger.ts";
import { collectMetrics } from "../platform/metrics.ts";
import { makeObserve } from "../platform/observe.ts";
import type { Addresses, ServiceName, StartService } from "../platform/service.ts";
import { startTracing } from "../platform/tracing.ts";
import { AddressBook } from "./address-book.ts";
import type { FromService, ToService } from "./service-messages.ts";

/** Where each service starts; imported only in its own process. */
const SERVICES: { readonly [name in ServiceName]: () => Promise<{ start: StartService }> } = {
  "mail-api": () => import("../mail-api/main.ts"),
  "dns-api": () => import("../dns-api/main.ts"),
  "dns-server": () => import("../dns-server/main.ts"),
  submission: () => import("../submission/main.ts"),
  delivery: () => import("../delivery/main.ts"),
  bounce: () => import("../bounce/main.ts"),
  tracking: () => import("../tracking/main.ts"),
  console: () => import("../console/main.ts"),
  sandbox: () => import("../sandbox/main.ts"),
};

const STOP_DEADLINE_MS = 8_000;

/** The whole of a service's process: the supervisor forks it with the service's name and talks to it by messages. */
await runService(process.argv[2] as ServiceName);

async function runService(name: ServiceName): Promise<void> {
  const config = configOfParent();
  const logger = makeLogger(name, config.logLevel);
  const lifecycle = new Lifecycle(logger);
  const addressBook = new AddressBook(config);
  const end = async (status: number) => {
    await lifecycle.stop(STOP_DEADLINE_MS);
    process.exit(status);
  };

  process.on("message", async (message: ToService) => {
    if (message.kind === "addresses") addressBook.learn(message.addresses, message.expected);
    else if (message.kind === "collect-metrics") tell({ kind: "metrics", families: await collectMetrics() });
    else await end(0);
  });
  // The supervisor is gone, however it went: nobody would ever stop this process.
  process.on("disconnect", () => end(0));
  if (!process.connected) process.exit(0);
  process.on("SIGTERM", () => end(0));
  // Ctrl-C reaches the whole process group; the supervisor stops its services in order.
  process.on("SIGINT", () => {});
  process.on("uncaughtException", async (error) => {
    logger.fatal({ err: error }, "uncaught exception");
    tell({ kind: "failed", text: error.message });
    await end(1);
  });

  try {
    tell({ kind: "ready", addresses: await start() });
  } catch (error) {
    logger.error({ err: error }, "failed to start");
    tell({ kind: "failed", text: (error as Error).message });
    await end(1);
  }

  async function start(): Promise<Addresses> {
    const databaseUrl = config.databaseUrl as string;
    const pooled = config.listenDatabaseUrl !== null;
    const observe = makeObserve(logger, name);
    const stopTracing = await startTracing(config, name, observe);
    if (stopTracing) lifecycle.onStop("traces", stopTracing);
    const db = openDb(databaseUrl, { connections: config.databaseConnections, name, pooled });
    lifecycle.onStop("database", () => db.destroy());
    const { start: startService } = await SERVICES[name]();
    const service = await startService({
      config,
      secret: config.secret as string,
      db,
      clock: systemClock,
      logger,
      observe,
      openListenConnection: () => openListenConnection(config.listenDatabaseUrl ?? databaseUrl, name),
      addressOf: (address) => addressBook.addressOf(address),
    });
    lifecycle.onStop(name, () => service.stop());
    return service.addresses;
  }
}

/** The supervisor checked the configuration and put the database and the secret into it. */
function configOfParent(): Config {
  const loaded = loadConfig();
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}

function tell(message: FromService): void {
  if (process.connected) process.send?.(message, () => {});
}
