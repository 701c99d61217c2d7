import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";

/** Uses the database of a stack that runs on this data folder: for what no API makes, or not so much of it in time. */
export async function withStackDatabase<T>(dataDir: string, use: (db: Db) => Promise<T>): Promise<T> {
  const server = await openEmbeddedPostgres({ dataDir, logger: makeLogger("test", "silent") });
  const db = openDb(server.url, { connections: 2, name: "test" });
  try {
    return await use(db);
  } finally {
    await db.destroy();
    await server.release();
  }
}
