import type { KeyRing } from "../core/key-ring.ts";
import type { Config } from "../platform/config/config.ts";
import { findKeys } from "../platform/config/secret.ts";
import { makeLogger } from "../platform/observability/logger.ts";
import { type Db, openDb } from "../platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../platform/postgres/embedded-postgres.ts";
import { isBehind, migrate } from "../platform/postgres/migrations.ts";
import { completeKeyRing } from "../store/deployment-keys.ts";
import { CommandRefused } from "./command-errors.ts";
import { requireDataFolder } from "./data-folder.ts";

/** What a command that speaks to the database is given. */
export interface CommandDatabase {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly config: Config;
}

/**
 * Opens the database of a command, starting the embedded one for the while when nobody else has, and closes it when
 * `use` has settled. Refuses (`CommandRefused`) a shared database that is not up to date.
 */
export async function withDatabase<T>(config: Config, use: (database: CommandDatabase) => Promise<T>): Promise<T> {
  const server = config.databaseUrl === null ? await openEmbedded(config) : undefined;
  const pooled = config.listenDatabaseUrl !== null;
  const db = openDb(server?.url ?? (config.databaseUrl as string), { connections: 4, name: "command", pooled });
  try {
    // The embedded database is ours alone; a shared one is brought up to date on purpose, by `migrate` or `start`.
    if (server) await migrate(db);
    else if (await isBehind(db)) throw new CommandRefused("the database is not up to date: run `palomar migrate`");
    return await use({ db, keyRing: await completeKeyRing(db, findKeys(config)), config });
  } finally {
    await db.destroy();
    await server?.release();
  }
}

function openEmbedded(config: Config) {
  requireDataFolder(config);
  return openEmbeddedPostgres({ dataDir: config.dataDir, logger: makeLogger("command", "error") });
}
