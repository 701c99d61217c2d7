import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** Any number, the same in every release: keeps two processes from making the same partition. */
const PARTITION_LOCK = 7_262_003;

/**
 * Makes the monthly partitions (UTC) that these moments fall into, where they are missing. Only the owner of the table
 * may, so functions of the database do it (migrations/0019-events.sql).
 */
export async function ensureEventMonths(db: Db, moments: Iterable<Date>): Promise<void> {
  const months = new Set<string>();
  for (const moment of moments) months.add(moment.toISOString().slice(0, 7));
  const seen = monthsSeen(db);
  const unknown = [...months].filter((month) => (seen.get(month) ?? 0) < performance.now());
  if (unknown.length === 0) return;
  const missing = await findMissing(db, unknown);
  for (const month of unknown) if (!missing.includes(month)) seen.set(month, performance.now() + SEEN_MS);
  if (missing.length === 0) return;
  await db.transaction(async (transaction) => {
    await transaction.raw("select pg_advisory_xact_lock(?)", [PARTITION_LOCK]);
    for (const month of await findMissing(transaction, missing)) {
      await transaction.raw("select make_events_month(?::date)", [`${month}-01`]);
    }
  });
}

/** The months ahead, so that no writer ever has to make its own. */
export async function prepareEventMonths(db: Db, now: Date, monthsAhead = 2): Promise<void> {
  const months = Array.from({ length: monthsAhead + 1 }, (_, ahead) => {
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1));
  });
  await ensureEventMonths(db, months);
}

/**
 * How long a month that was there is not looked for again: every send asks, and only empty months of the past are
 * ever dropped. Should one be written to just then, the writer fails, and finds it missing the next time.
 */
const SEEN_MS = 10_000;

/** Months that were there, by pool (transactions share its configuration), and until when that is believed. */
const SEEN = new WeakMap<object, Map<string, number>>();

function monthsSeen(db: Db): Map<string, number> {
  const seen = SEEN.get(db.client.config) ?? new Map<string, number>();
  SEEN.set(db.client.config, seen);
  return seen;
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
      // It looks again: somebody may have written to it while we waited.
      await transaction.raw("select drop_events_month(?::date)", [firstDayOf(name)]);
    });
    monthsSeen(db).delete(firstDayOf(name).slice(0, 7));
  } catch (error) {
    if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
  }
}

const LOCK_NOT_AVAILABLE = "55P03";

/** Asked of the whole table, as a role may have no rights in its parts. */
async function isEmpty(db: Db, name: string): Promise<boolean> {
  const first = firstDayOf(name);
  const [found] = await queryRows<{ empty: boolean }>(
    db,
    `select not exists (select 1 from events where at >= $1::timestamp at time zone 'UTC'
       and at < ($2::timestamp + interval '1 month') at time zone 'UTC') as empty`,
    [first, first],
  );
  return found!.empty;
}

/** By a query of the catalogue: `to_regclass` may answer from a cache that has not heard of a neighbour's commit yet. */
async function findMissing(db: Db, months: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ month: string }>(
    db,
    `select month from unnest($1::text[]) as month where not exists
       (select 1 from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = 'events'::regclass and relname = 'events_' || replace(month, '-', '_'))`,
    [months],
  );
  return rows.map((row) => row.month);
}

function partitionName(month: string): string {
  return `events_${month.replace("-", "_")}`;
}

/** `2026-11-01` of `events_2026_11`. */
function firstDayOf(partition: string): string {
  return `${partition.slice("events_".length).replace("_", "-")}-01`;
}
