import { type Db, queryRows, type Transaction } from "../../services/platform/postgres/db.ts";
import { isSpread } from "../../services/store/mail/by-instance.ts";

/**
 * What tests ask of the mail tables themselves, so that a Citus that spreads them by instance answers as one PostgreSQL does:
 * it joins and locks rows of one instance only.
 */

/**
 * A join within instances: `.join("partitions", sameInstance("partitions.id", "deliveries.partition_id"))`.
 * @param key a column of the table that is joined @param other a column of one before
 */
export function sameInstance(key: string, other: string): Record<string, string> {
  return { [key]: other, [instanceOf(key)]: instanceOf(other) };
}

const instanceOf = (column: string) => `${column.slice(0, column.indexOf("."))}.instance_id`;

/** Deliveries, each with its partition. */
export const queuedDeliveries = (db: Db) =>
  db("deliveries").join("partitions", sameInstance("partitions.id", "deliveries.partition_id"));

/** A moment of a row, some hours before: to take off an interval as such depends on the session's time zone, which Citus refuses. */
export const hoursBefore = (column: string, hours: number) =>
  `(${column} at time zone 'UTC' - interval '${hours} hours') at time zone 'UTC'`;

/** Statements that wait for what others have locked, on whichever machine, oldest first. */
export async function listWaiting(db: Db): Promise<readonly { query: string; wait_event: string }[]> {
  const activity = (await isSpread(db)) ? "citus_stat_activity" : "pg_stat_activity";
  return queryRows(
    db,
    `select query, wait_event from ${activity}
     where datname = current_database() and wait_event_type = 'Lock' order by query_start`,
  );
}

/** Runs statements that make or drop triggers, which a Citus takes where it is told that they look at one machine's rows only. */
export async function changeTriggers(db: Db, ...statements: readonly string[]): Promise<void> {
  const spread = await isSpread(db);
  await db.transaction(async (transaction: Transaction) => {
    if (spread) await transaction.raw("set local citus.enable_unsafe_triggers to on");
    for (const statement of statements) await transaction.raw(statement);
  });
}

/** Asks each machine that has rows for one number, which the database that is asked of it alone knows. */
export async function onEachMachine(db: Db, statement: string): Promise<readonly number[]> {
  if (!(await isSpread(db)))
    return (await queryRows<Record<string, number>>(db, statement)).map((row) => Object.values(row)[0]!);
  const rows = await queryRows<{ result: string }>(db, "select result from run_command_on_all_nodes($1)", [statement]);
  return rows.map(({ result }) => Number(result));
}
