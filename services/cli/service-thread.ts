import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import type { KeyRing } from "../core/key-ring.ts";
import { systemClock } from "../platform/clock.ts";
import { serveLargeRequests } from "../platform/http/large-requests.ts";
import { startTracing } from "../platform/observability/tracing.ts";
import type { ServiceName, StartLargeRequests } from "../platform/service.ts";
import { configWith, type ServiceSecrets } from "./service-config.ts";
import { openServiceDatabase } from "./service-database.ts";

/** What such a thread is begun with. */
export interface ThreadData {
  readonly name: ServiceName;
  /** As the supervisor gave them. */
  readonly secrets: ServiceSecrets;
}

/** The services that have a thread for large requests; imported only there. */
const THREADS: { readonly [name in ServiceName]?: () => Promise<{ start: StartLargeRequests }> } = {
  "mail-api": () => import("../mail-api/large-requests.ts"),
  "dns-api": () => import("../dns-api/large-requests.ts"),
};

/** On Linux a priority is a thread's: what is large lets what is small go first. */
const NICENESS = 10;
/** Connections of such a thread, beside those of its service. */
const CONNECTIONS = 4;
/** Work that takes long waits for work that takes long. */
const PATIENCE_MS = 120_000;

const { name, secrets } = workerData as ThreadData;
if (process.platform === "linux") setPriority(NICENESS);
const config = configWith(secrets);
void run();

async function run(): Promise<void> {
  await serveLargeRequests(parentPort!, async (observe) => {
    const stopTracing = await startTracing(config, name, observe);
    const options = { name: `${name} large`, connections: CONNECTIONS, patienceMs: PATIENCE_MS, observe };
    const database = openServiceDatabase(config, name, options);
    const { db } = database;
    const { start } = await THREADS[name]!();
    const service = await start({ config, keyRing: config.keys as KeyRing, db, clock: systemClock, observe });
    const stop = async () => {
      await database.leaveEmptyPooler();
      await service.stop();
      await stopTracing?.();
      await database.stop();
    };
    return { ...service, stop };
  });
  process.exit();
}
