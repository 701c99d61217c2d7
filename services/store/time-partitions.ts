import { type Db, queryRows, type Transaction } from "../platform/postgres/db.ts";

/** A table in parts by time (UTC), each of which begins at midnight of its first day. Parts are named after that. */
export interface TimePartitions {
  readonly table: string;
  /** Any number, the same in every release: keeps two processes from making the same part. */
  readonly lock: number;
  /** Functions of the database, as only the owner of a table may make and drop its parts: they take the first day. */
  readonly make: string;
  readonly drop: string;
  /** The first day, such as `2026-11-01`, of the part that a moment falls into. */
  firstDayOf(moment: Date): string;
  /** What a part's name ends with, of a first day: `2026_11`. */
  suffixOf(firstDay: string): string;
  /** The other way round. */
  firstDayOfSuffix(suffix: string): string;
}

/** A part that there is. */
export interface TimePart {
  readonly name: string;
  readonly firstDay: string;
}

/** Makes the parts that these moments fall into, where they are missing. */
export async function ensureParts(db: Db, partitions: TimePartitions, moments: Iterable<Date>): Promise<void> {
  const days = new Set<string>();
  for (const moment of moments) days.add(partitions.firstDayOf(moment));
  const seen = partsSeen(db, partitions);
  const unknown = [...days].filter((day) => (seen.get(day) ?? 0) < performance.now());
  if (unknown.length === 0) return;
  const missing = await findMissing(db, partitions, unknown);
  for (const day of unknown) if (!missing.includes(day)) seen.set(day, performance.now() + SEEN_MS);
  if (missing.length === 0) return;
  await db.transaction(async (transaction) => {
    await oneShardAfterTheOther(transaction);
    await transaction.raw("select pg_advisory_xact_lock(?)", [partitions.lock]);
    for (const day of await findMissing(transaction, partitions, missing)) {
      await transaction.raw(`select ${partitions.make}(?::date)`, [day]);
    }
  });
}

/** The parts that there are, the oldest first. */
export async function listParts(db: Db, { table, firstDayOfSuffix }: TimePartitions): Promise<TimePart[]> {
  const rows = await queryRows<{ name: string }>(
    db,
    `select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
     where inhparent = $1::regclass order by 1`,
    [table],
  );
  return rows.map(({ name }) => ({ name, firstDay: firstDayOfSuffix(name.slice(table.length + 1)) }));
}

/** Dropping a part locks out everybody for a moment: where that moment does not come soon, there is always later. */
export async function dropPart(db: Db, partitions: TimePartitions, firstDay: string): Promise<void> {
  try {
    await db.transaction(async (transaction) => {
      await oneShardAfterTheOther(transaction);
      await transaction.raw("set local lock_timeout = '1s'");
      await transaction.raw(`select ${partitions.drop}(?::date)`, [firstDay]);
    });
    partsSeen(db, partitions).delete(firstDay);
  } catch (error) {
    if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
  }
}

const LOCK_NOT_AVAILABLE = "55P03";

/**
 * For the tables' parts on Citus: it changes all shards of a table at the same time unless told otherwise, and then the
 * connections of the one transaction lock each other out, until it is cancelled as a deadlock. One PostgreSQL knows no
 * such setting, and keeps it without heeding it.
 */
async function oneShardAfterTheOther(transaction: Transaction): Promise<void> {
  await transaction.raw("select set_config('citus.multi_shard_modify_mode', 'sequential', true)");
}

/**
 * How long a part that was there is not looked for again: every writer asks, and only parts of the past are ever
 * dropped. Should one be written to just then, the writer fails, and finds it missing the next time.
 */
const SEEN_MS = 10_000;

/** First days of parts that were there, by pool (transactions share its configuration), and until when that is believed. */
const SEEN = new WeakMap<object, Map<string, Map<string, number>>>();

function partsSeen(db: Db, { table }: TimePartitions): Map<string, number> {
  const ofPool = SEEN.get(db.client.config) ?? new Map<string, Map<string, number>>();
  SEEN.set(db.client.config, ofPool);
  const seen = ofPool.get(table) ?? new Map<string, number>();
  ofPool.set(table, seen);
  return seen;
}

/** By a query of the catalogue: `to_regclass` may answer from a cache that has not heard of a neighbour's commit yet. */
async function findMissing(db: Db, { table, suffixOf }: TimePartitions, days: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ day: string }>(
    db,
    `select day from unnest($1::text[], $2::text[]) as wanted (day, name) where not exists
       (select 1 from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = $3::regclass and relname = name)`,
    [days, days.map((day) => `${table}_${suffixOf(day)}`), table],
  );
  return rows.map((row) => row.day);
}
