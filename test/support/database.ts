import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { dropDatabase, makeDatabase, withDatabase } from "./named-server.ts";

export { withDatabase };

export interface TestDatabase {
  readonly url: string;
  readonly db: Db;
  /** Closes the pool and drops the database. */
  drop(): Promise<void>;
}

/** A migrated, empty, real database of its own: a clone of the run's template, made in tens of milliseconds. */
export function createTestDatabase(connections = 10): Promise<TestDatabase> {
  return createDatabase(inject("template"), connections);
}

/** A database with nothing in it, not even tables. */
export function createEmptyDatabase(connections = 10): Promise<TestDatabase> {
  return createDatabase("template0", connections);
}

/** As `createTestDatabase`, and all on the machine that is asked: what backups are made of. */
export async function createLocalDatabase(connections = 10): Promise<TestDatabase> {
  if (inject("citusWorkers").length === 0) return createTestDatabase(connections);
  const database = await createEmptyDatabase(connections);
  await migrate(database.db);
  return database;
}

async function createDatabase(template: string, connections: number): Promise<TestDatabase> {
  const server = { url: inject("postgresUrl"), workers: inject("citusWorkers"), inMemory: inject("inMemory") };
  const name = `test_${randomBytes(6).toString("hex")}`;
  await makeDatabase(server, name, template);
  const url = withDatabase(server.url, name);
  const db = openDb(url, { connections, name: "test" });
  return {
    url,
    db,
    drop: async () => {
      await db.destroy();
      await dropDatabase(server, name);
    },
  };
}
