import type { EventEmitter } from "node:events";
import { Worker } from "node:worker_threads";
import type { KeyRing } from "../core/key-ring.ts";
import { systemClock } from "../platform/clock.ts";
import type { Config } from "../platform/config/config.ts";
import { giveBackMemorySoon } from "../platform/give-back-memory.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import { type Logger, makeLogger } from "../platform/observability/logger.ts";
import { collectMetrics } from "../platform/observability/metrics.ts";
import { makeObserve } from "../platform/observability/observe.ts";
import { startTracing } from "../platform/observability/tracing.ts";
import { programFile, programRunner } from "../platform/package-folder.ts";
import type { Addresses, ServiceName, StartService } from "../platform/service.ts";
import { AddressBook, explainUnopened } from "./address-book.ts";
import { configWith, type ServiceSecrets } from "./service-config.ts";
import { openServiceDatabase } from "./service-database.ts";
import type { FromService, ToService } from "./service-messages.ts";
import type { ThreadData } from "./service-thread.ts";

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
void runService(process.argv[2] as ServiceName);

async function runService(name: ServiceName): Promise<void> {
  let lifecycle: Lifecycle | undefined;
  // Until the configuration says how much is logged.
  let logger = makeLogger(name, "info");
  const end = async (status: number): Promise<never> => {
    await lifecycle?.stop(STOP_DEADLINE_MS);
    process.exit(status);
  };
  const failToStart = (error: Error, config?: Config): Promise<never> => {
    const unopened = config && explainUnopened(error, config.listen);
    logger.error(unopened === undefined ? { err: error } : { reason: unopened }, "failed to start");
    tell({ kind: "failed", text: unopened ?? error.message });
    return end(1);
  };
  const begun = secretsOfSupervisor()
    .then((secrets) => {
      const config = configWith(secrets);
      logger = makeLogger(name, config.logLevel);
      lifecycle = new Lifecycle(logger);
      return { config, secrets, logger, lifecycle, addressBook: new AddressBook(config) };
    })
    .catch((error: Error) => failToStart(error));

  process.on("message", async (message: ToService) => {
    if (message.kind === "stop") return end(0);
    if (message.kind === "ask") return tell({ kind: "answer" });
    const { addressBook } = await begun;
    if (message.kind === "addresses") addressBook.learn(message.addresses, message.expected);
    else if (message.kind === "collect-metrics") tell({ kind: "metrics", families: await collectMetrics() });
  });
  // The supervisor is gone, however it went: nobody would ever stop this process.
  process.on("disconnect", () => end(0));
  if (!process.connected) process.exit(0);
  process.on("SIGTERM", () => end(0));
  // Ctrl-C, and a terminal that is closed, reach the whole process group; the supervisor stops its services in order.
  for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  process.on("uncaughtException", async (error) => {
    logger.fatal({ err: error }, "uncaught exception");
    tell({ kind: "failed", text: error.message });
    await end(1);
  });

  // It is loaded while the supervisor sees to the database.
  const main = SERVICES[name]();
  main.catch(() => {});
  const surroundings = await begun;
  try {
    tell({ kind: "ready", addresses: await startService(name, main, surroundings) });
  } catch (error) {
    return failToStart(error as Error, surroundings.config);
  }
  // To `bin/run.cjs`.
  const events: EventEmitter = process;
  events.emit("started");
  giveBackMemorySoon();
}

/** What a service stands on, in its own process. */
interface Surroundings {
  readonly config: Config;
  readonly secrets: ServiceSecrets;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly addressBook: AddressBook;
}

async function startService(
  name: ServiceName,
  main: Promise<{ start: StartService }>,
  { config, secrets, logger, lifecycle, addressBook }: Surroundings,
): Promise<Addresses> {
  const observe = makeObserve(logger, name);
  const stopTracing = await startTracing(config, name, observe);
  if (stopTracing) lifecycle.onStop("traces", stopTracing);
  const options = { name, connections: config.databaseConnections, observe };
  const { db, openConnection, leaveEmptyPooler, stop } = openServiceDatabase(config, name, options);
  lifecycle.onStop("database", stop);
  const { start } = await main;
  const service = await start({
    config,
    keyRing: config.keys as KeyRing,
    db,
    clock: systemClock,
    logger,
    observe,
    openLargeRequests: () => openThread({ name, secrets }),
    openListenConnection: openConnection,
    addressOf: (address) => addressBook.addressOf(address),
  });
  lifecycle.onStop(name, () => service.stop());
  lifecycle.onStop("way to the database", leaveEmptyPooler);
  return service.addresses;
}

/** What this service is to have, as soon as the supervisor says it. */
function secretsOfSupervisor(): Promise<ServiceSecrets> {
  return new Promise((resolve) => {
    process.on("message", (message: ToService) => {
      if (message.kind === "secrets") resolve(message);
    });
  });
}

/** The heap of a thread, in MiB: with it the process stays within the memory of its container. */
const THREAD_HEAP_MB = 512;

function openThread(workerData: ThreadData): Worker {
  const resourceLimits = { maxOldGenerationSizeMb: THREAD_HEAP_MB };
  return new Worker(programRunner, {
    argv: [programFile("cli/service-thread")],
    workerData,
    name: `${workerData.name}-large`,
    resourceLimits,
  });
}

function tell(message: FromService): void {
  if (process.connected) process.send?.(message, () => {});
}
