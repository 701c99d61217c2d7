import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { packageFolder } from "../package-folder.ts";
import { type Db, isDatabaseAway, isForbidden, isRefused, type Transaction, wordsOfServer } from "./db.ts";
import { splitCommands } from "./sql-commands.ts";
import { requireUtf8 } from "./suitable-database.ts";
import { UnsuitableDatabase } from "./unsuitable-database.ts";

interface Migration {
  readonly name: string;
  readonly checksum: string;
  /** One, unless the file is cut by lines `-- step`. */
  readonly steps: readonly MigrationStep[];
}

/** A part of a migration that is applied by itself: what large tables need is too much for one transaction. */
interface MigrationStep {
  readonly sql: string;
  /** One statement that ends its transactions itself, or suffers none; interrupted, it is run again. */
  readonly isOutsideTransaction: boolean;
}

const MIGRATIONS = join(packageFolder, "migrations");

/** Any number, the same in every release: the lock that keeps two migrators apart. */
const MIGRATION_LOCK = 7_262_001;
/** The same for steps outside transactions. Nobody waits for it: `create index concurrently` would wait for the waiter. */
const STEP_LOCK = 7_262_005;

/**
 * How long a statement waits for a table before the migration steps back: whoever waits for a table's lock holds up all
 * who come behind, so a running stack must not feel it. Less than PostgreSQL's `deadlock_timeout` (1 s), so that of a
 * migration and a transaction that wait for each other's tables it is the migration that steps back.
 */
const LOCK_TIMEOUT_MS = 700;
const LOCK_RETRY_MS = 500;
const LOCK_PATIENCE_MS = 300_000;

/** Checksums of files as a database may have had them that was brought up to date before they were mended. */
const FORMER_CHECKSUMS: Readonly<Record<string, readonly string[]>> = {
  // Refused by a Citus whose tables are spread.
  "0394-what-is-told-of-who-is-gone.sql": ["077aa1816bafa062aa65c6d4f892103607ae716672b7edf3fdf9d232610b4715"],
};

/**
 * Brings the database up to date while it is in use: every file of `migrations/` that it has not seen, in order, each
 * in one transaction, or step by step where the file says so; an interrupted run leaves no step half done, and the next
 * goes on from there.
 * @param db past a pooler: a step may take long, and holds a lock of its session
 * @param folder of files such as `0010-accounts.sql`; all of ours unless said
 * @returns the names applied now
 * @throws UnsuitableDatabase when a file that was applied has been changed since, the database is newer than this
 *   release, when its encoding is another than UTF8, or when it refuses a migration; and when a table that a migration
 *   needs stayed locked for five minutes
 */
export async function migrate(db: Db, folder = MIGRATIONS): Promise<string[]> {
  await requireUtf8(db);
  const applied: string[] = [];
  let deadline = Date.now() + LOCK_PATIENCE_MS;
  for (;;) {
    try {
      const next = await applyNext(db, folder);
      if (next === undefined) return applied;
      if (next.isComplete) applied.push(next.name);
      deadline = Date.now() + LOCK_PATIENCE_MS;
    } catch (error) {
      if (!STEPS_BACK.includes((error as { code?: string }).code) || Date.now() > deadline) throw error;
      await sleep(LOCK_RETRY_MS);
    }
  }
}

/** SQLSTATE of a lock_timeout, and of a deadlock. */
const STEPS_BACK: readonly unknown[] = ["55P03", "40P01"];

/** @returns the migration of which a step was applied; undefined when there is none left */
async function applyNext(
  db: Db,
  folder: string,
): Promise<{ readonly name: string; readonly isComplete: boolean } | undefined> {
  const next = await db.transaction(async (transaction) => {
    await begin(transaction);
    const [migration] = await pendingMigrations(transaction, folder);
    if (migration === undefined) return undefined;
    const done = migration.steps.length > 1 ? await countSteps(transaction, migration) : 0;
    const { sql, isOutsideTransaction } = migration.steps[done]!;
    if (!isOutsideTransaction) {
      await keepToCoordinator(transaction);
      await transaction.raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await runCommands(transaction, migration, sql);
      await transaction.raw(composeNote(migration, done + 1));
    }
    return { migration, done, isApplied: !isOutsideTransaction };
  });
  if (next === undefined) return undefined;
  const { migration, done, isApplied } = next;
  if (!isApplied) await applyOutside(db, migration, done);
  return { name: migration.name, isComplete: done + 1 === migration.steps.length };
}

/** One after another: several at once Citus refuses where one is about a table that it spreads. */
async function runCommands(transaction: Transaction, migration: Migration, step: string): Promise<void> {
  let before = "";
  for (const command of splitCommands(step)) {
    await transaction
      .raw(withoutPlaceholders(command))
      .catch((error) => explainFailure(error, migration, command, before));
    before += command;
  }
}

/**
 * What the server does not understand or allow of a migration, by its file: errors that others act on stay what they are.
 * @param before what stands before the command in its step
 */
function explainFailure(error: Error, { name }: Migration, command: string, before = ""): never {
  const { code, position } = error as pg.DatabaseError;
  const isActedOn = isForbidden(error) || isDatabaseAway(error) || STEPS_BACK.includes(code);
  if (!isRefused(error) || isActedOn) throw error;
  const line =
    position === undefined
      ? ""
      : `, at line ${(before + command.slice(0, Number(position))).split("\n").length} of its step`;
  throw new UnsuitableDatabase(`migration ${name} is refused: ${wordsOfServer(error)}${line}`);
}

/** Runs a step that is no transaction, unless another migrator has done it by the time that it lets us. */
async function applyOutside(db: Db, migration: Migration, done: number): Promise<void> {
  const { sql } = migration.steps[done]!;
  const connection: pg.Client = await db.client.acquireConnection();
  const ask = async (statement: string) => (await connection.query(statement)).rows;
  try {
    await ask("set statement_timeout = 0");
    while (!(await ask(`select pg_try_advisory_lock(${STEP_LOCK}) as got`))[0].got) await sleep(LOCK_RETRY_MS);
    const [noted] = await ask(composeProgress(migration));
    if (Number(noted?.value ?? 0) !== done) return;
    const index = /^create (?:unique )?index concurrently if not exists (\w+)/m.exec(sql)?.[1];
    // What an interrupted attempt leaves is of no use, and in the way.
    const remains = `select 1 from pg_index where indexrelid = to_regclass('${index}') and not indisvalid`;
    if (index !== undefined && (await ask(remains)).length > 0) await ask(`drop index concurrently ${index}`);
    // An index that is made concurrently holds nobody up while it waits for those before it.
    await ask(`set lock_timeout = ${index === undefined ? LOCK_TIMEOUT_MS : 0}`);
    await ask(sql).catch((error) => explainFailure(error, migration, sql));
    await ask(composeNote(migration, done + 1));
  } finally {
    // Where it fails the session is over, and with it the lock.
    await ask("reset lock_timeout; reset statement_timeout").catch(() => {});
    await ask("select pg_advisory_unlock_all()").catch(() => {});
    await db.client.releaseConnection(connection);
  }
}

/**
 * Gives an empty database the schema of an earlier moment: exactly these migrations, in their order.
 * @returns those of them that this release does not know; nothing has been done then
 */
export async function migrateTo(transaction: Transaction, names: readonly string[]): Promise<string[]> {
  const known = new Map(readMigrations(MIGRATIONS).map((migration) => [migration.name, migration]));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) return unknown;
  await begin(transaction);
  for (const name of names) {
    const migration = known.get(name)!;
    // Nobody else is here, and nothing: what would be done bit by bit is done at once.
    for (const { sql } of migration.steps) {
      await transaction.raw(withoutPlaceholders(sql.replaceAll(" concurrently ", " ")));
    }
    await transaction.raw(composeNote(migration, migration.steps.length));
  }
  return [];
}

/**
 * On Citus the schema stays on the coordinator until `deploy/citus.sql` spreads its tables, and then takes along what they
 * need: of functions that keep the search path of the moment, Citus sends none to other machines as they are made.
 */
async function keepToCoordinator(transaction: Transaction): Promise<void> {
  const { rows } = await transaction.raw("select from pg_extension where extname = 'citus'");
  if (rows.length === 0) return;
  await transaction.raw(
    "select set_config('citus.enable_ddl_propagation', 'off', true) where not exists (select from pg_dist_partition)",
  );
}

async function begin(transaction: Transaction): Promise<void> {
  await transaction.raw("set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0");
  await transaction.raw("select pg_advisory_xact_lock(?)", [MIGRATION_LOCK]);
  await transaction.raw(
    "create table if not exists schema_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())",
  );
}

/** To knex a question mark is a placeholder. */
function withoutPlaceholders(sql: string): string {
  return sql.replaceAll("?", "\\?");
}

/** How many steps of a migration are done, where it has several and is under way. */
async function countSteps(transaction: Transaction, migration: Migration): Promise<number> {
  const { rows } = await transaction.raw(composeProgress(migration));
  return Number(rows[0]?.value ?? 0);
}

function composeProgress({ name }: Migration): string {
  return `select value from deployment_facts where name = 'steps of ${name}'`;
}

/** Whether a migration of several steps is under way, or was interrupted. */
export async function isMigrating(db: Db): Promise<boolean> {
  const { rows } = await db.raw("select from deployment_facts where name like 'steps of %' limit 1");
  return rows.length > 0;
}

/** The statement that notes how many steps are done; with the last one the migration is. */
function composeNote({ name, checksum, steps }: Migration, done: number): string {
  if (done < steps.length) {
    return `insert into deployment_facts (name, value) values ('steps of ${name}', '${done}')
      on conflict (name) do update set value = excluded.value`;
  }
  return `with progress as (delete from deployment_facts where name = 'steps of ${name}')
    insert into schema_migrations (name, checksum) values ('${name}', '${checksum}')`;
}

/** True when `migrate` would have something to do; reads only, so that any role may ask. */
export async function isBehind(db: Db): Promise<boolean> {
  const table = await db.raw("select to_regclass('schema_migrations') as name");
  if (table.rows[0].name === null) return true;
  return (await pendingMigrations(db, MIGRATIONS)).length > 0;
}

async function pendingMigrations(db: Db, folder: string): Promise<Migration[]> {
  const applied = new Map<string, string>(
    (await db("schema_migrations").select("name", "checksum")).map((row) => [row.name, row.checksum]),
  );
  const known = readMigrations(folder);
  const changed = known.find(({ name, checksum }) => {
    const noted = applied.get(name);
    return noted !== undefined && noted !== checksum && !FORMER_CHECKSUMS[name]?.includes(noted);
  });
  if (changed) throw new UnsuitableDatabase(`migration ${changed.name} was changed after it was applied`);
  const names = new Set(known.map(({ name }) => name));
  const newer = [...applied.keys()].filter((name) => !names.has(name));
  if (newer.length > 0) {
    throw new UnsuitableDatabase(`the database is newer than this release: it has ${newer.join(", ")}`);
  }
  return known.filter(({ name }) => !applied.has(name));
}

function readMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}-[a-z0-9-]+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const sql = readFileSync(join(folder, file), "utf8");
      return { name: file, checksum: createHash("sha256").update(sql).digest("hex"), steps: cutSteps(sql) };
    });
}

/** A file is one step, or several: what stands before the first line `-- step` is about all of them. */
function cutSteps(sql: string): MigrationStep[] {
  const [whole, ...parts] = sql.split(/^-- step(, outside a transaction)?\n/m);
  if (parts.length === 0) return [{ sql: whole!, isOutsideTransaction: false }];
  return Array.from({ length: parts.length / 2 }, (_, index) => ({
    sql: parts[2 * index + 1]!,
    isOutsideTransaction: parts[2 * index] !== undefined,
  }));
}
