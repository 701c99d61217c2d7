import { type Db, queryRows } from "../platform/db.ts";

/** Any number, the same in every release: keeps two processes from making the same partition. */
const PARTITION_LOCK = 7_262_003;

/**
 * Makes the monthly partitions (UTC) that these moments fall into, where they are missing.
 * Attaching a finished table does not block readers or writers of the others, unlike `create … partition of`.
 */
export async function ensureEventMonths(db: Db, moments: Iterable<Date>): Promise<void> {
  const months = new Set<string>();
  for (const moment of moments) months.add(moment.toISOString().slice(0, 7));
  const missing = await findMissing(db, [...months]);
  if (missing.length === 0) return;
  await db.transaction(async (transaction) => {
    await transaction.raw("select pg_advisory_xact_lock(?)", [PARTITION_LOCK]);
    for (const month of await findMissing(transaction, missing)) await makePartition(transaction, month);
  });
}

/** The months ahead, so that no writer ever has to make its own. */
export async function prepareEventMonths(db: Db, now: Date, monthsAhead = 2): Promise<void> {
  const months = Array.from({ length: monthsAhead + 1 }, (_, ahead) => {
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1));
  });
  await ensureEventMonths(db, months);
}

/** Removes the partitions that hold nothing any more and end before a moment. */
export async function dropEmptyEventMonths(db: Db, before: Date): Promise<void> {
  const tables = await queryRows<{ name: string }>(
    db,
    "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass",
  );
  const current = partitionName(before.toISOString().slice(0, 7));
  for (const { name } of tables) if (name < current && (await isEmpty(db, name))) await dropEventMonth(db, name);
}

/** Dropping a partition locks out everybody for a moment: where that moment does not come soon, there is always later. */
async function dropEventMonth(db: Db, name: string): Promise<void> {
  try {
    await db.transaction(async (transaction) => {
      await transaction.raw("set local lock_timeout = '1s'");
      await transaction.raw("lock table only events in access exclusive mode");
      await transaction.raw("lock table ?? in access exclusive mode", [name]);
      // Somebody may have written to it while we waited.
      if (await isEmpty(transaction, name)) await transaction.raw("drop table ??", [name]);
    });
  } catch (error) {
    if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
  }
}

const LOCK_NOT_AVAILABLE = "55P03";

async function isEmpty(db: Db, name: string): Promise<boolean> {
  const [found] = await queryRows<{ empty: boolean }>(db, "select not exists (select 1 from ??) as empty", [name]);
  return found!.empty;
}

/** By a query of the catalogue: `to_regclass` may answer from a cache that has not heard of a neighbour's commit yet. */
async function findMissing(db: Db, months: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ month: string }>(
    db,
    `select month from unnest(?::text[]) as month where not exists
       (select 1 from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = 'events'::regclass and relname = 'events_' || replace(month, '-', '_'))`,
    [months],
  );
  return rows.map((row) => row.month);
}

async function makePartition(db: Db, month: string): Promise<void> {
  const name = partitionName(month);
  const [year, monthNumber] = month.split("-").map(Number) as [number, number];
  const from = new Date(Date.UTC(year, monthNumber - 1, 1)).toISOString();
  const until = new Date(Date.UTC(year, monthNumber, 1)).toISOString();
  await db.raw("create table ?? (like events including defaults including constraints)", [name]);
  // Identifiers and literals only of our own making: DDL takes no parameters.
  await db.raw(`alter table events attach partition ${name} for values from ('${from}') to ('${until}')`);
}

function partitionName(month: string): string {
  return `events_${month.replace("-", "_")}`;
}
