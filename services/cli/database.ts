import type { KeyRing } from "../core/key-ring.ts";
import type { Config } from "../platform/config/config.ts";
import { findKeys } from "../platform/config/secret.ts";
import { makeLogger } from "../platform/observability/logger.ts";
import { type Db, openDb } from "../platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../platform/postgres/embedded-postgres.ts";
import { hasCluster } from "../platform/postgres/embedded-postgres-cluster.ts";
import { isBehind, migrate } from "../platform/postgres/migrations.ts";
import { completeKeyRing } from "../store/deployment-keys.ts";
import { CommandRefused } from "./command-errors.ts";
import { requireDataFolder } from "./data-folder.ts";
import { undoneAfterwards } from "./ending.ts";

/** What a command that speaks to the database is given. */
export interface CommandDatabase {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly config: Config;
}

export type TakeKeys = (db: Db, keyRing: KeyRing) => Promise<KeyRing>;

/**
 * Opens the database of a command, starting the embedded one for the while when nobody else has, and closes it when
 * `use` has settled. Refuses (`CommandRefused`) a shared database that is not up to date.
 * @param takeKeys holds the keys against those that the database goes with
 */
export async function withDatabase<T>(
  { config, note }: { readonly config: Config; readonly note: (text: string) => void },
  use: (database: CommandDatabase) => Promise<T>,
  takeKeys: TakeKeys = completeKeyRing,
): Promise<T> {
  const server = config.databaseUrl === null ? await openEmbedded(config, note) : undefined;
  const pooled = config.listenDatabaseUrl !== null;
  const db = openDb(server?.url ?? (config.databaseUrl as string), { connections: 4, name: "command", pooled });
  const used = async () => {
    try {
      // The embedded database is ours alone; a shared one is brought up to date on purpose, by `migrate` or `start`.
      if (server) await migrate(db);
      else if (await isBehind(db)) throw new CommandRefused("the database is not up to date: run `palomar migrate`");
      return await use({ db, keyRing: await takeKeys(db, findKeys(config)), config });
    } finally {
      await db.destroy();
    }
  };
  return server ? undoneAfterwards(server.release, used) : used();
}

/** Commands work before the first start as well: a new database is named, as its folder may be a misspelt one. */
async function openEmbedded(config: Config, note: (text: string) => void) {
  requireDataFolder(config);
  const { dataDir } = config;
  const isNew = !(await hasCluster(dataDir));
  const server = await openEmbeddedPostgres({ dataDir, logger: makeLogger("command", "error") });
  if (isNew) note(`palomar: a new, empty database was made in ${dataDir} (PALOMAR_DATA_DIR)`);
  return server;
}
