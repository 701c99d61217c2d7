import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "./db.ts";
import { packageFolder } from "./package-folder.ts";

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

/** Any number, the same in every release: the lock that keeps two migrators apart. */
const MIGRATION_LOCK = 7_262_001;

/**
 * Brings the database up to date: every file of `migrations/` that it has not seen, in order, in one transaction,
 * so that an interrupted run leaves nothing behind.
 * @returns the names applied now
 * @throws when a file that was applied has been changed since, or the database is newer than this release
 */
export async function migrate(db: Db): Promise<string[]> {
  return db.transaction(async (transaction) => {
    await transaction.raw("select pg_advisory_xact_lock(?)", [MIGRATION_LOCK]);
    const pending = await pendingMigrations(transaction);
    for (const { name, sql, checksum } of pending) {
      await transaction.raw(sql.replaceAll("?", "\\?"));
      await transaction("schema_migrations").insert({ name, checksum });
    }
    return pending.map(({ name }) => name);
  });
}

/** True when `migrate` would have something to do. */
export async function isBehind(db: Db): Promise<boolean> {
  const table = await db.raw("select to_regclass('schema_migrations') as name");
  if (table.rows[0].name === null) return true;
  return (await pendingMigrations(db)).length > 0;
}

async function pendingMigrations(db: Db): Promise<Migration[]> {
  await db.raw(
    "create table if not exists schema_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())",
  );
  const applied = new Map<string, string>(
    (await db("schema_migrations").select("name", "checksum")).map((row) => [row.name, row.checksum]),
  );
  const known = readMigrations();
  for (const { name, checksum } of known) {
    const seen = applied.get(name);
    if (seen !== undefined && seen !== checksum) throw new Error(`migration ${name} was changed after it was applied`);
    applied.delete(name);
  }
  if (applied.size > 0) throw new Error(`the database is newer than this release: ${[...applied.keys()].join(", ")}`);
  const seen = new Set((await db("schema_migrations").select("name")).map((row) => row.name));
  return known.filter(({ name }) => !seen.has(name));
}

function readMigrations(): Migration[] {
  const folder = join(packageFolder, "migrations");
  return readdirSync(folder)
    .filter((file) => /^\d{4}-[a-z0-9-]+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const sql = readFileSync(join(folder, file), "utf8");
      return { name: file, sql, checksum: createHash("sha256").update(sql).digest("hex") };
    });
}
