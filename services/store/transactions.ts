import { type Db, isTransient, queryRows, type Transaction } from "../platform/postgres/db.ts";

const MOST_TRIES = 5;

/** For so long, in ms, from the first time on, a transaction that others overtake is run anew: once at least. */
const OVERTAKEN_MS = 10_000;

/** What a transaction went by was changed by another before it could end: it is to run anew. */
export class Overtaken extends Error {}

/**
 * Runs a transaction, anew when PostgreSQL gave it up for a deadlock or a serialisation failure, or it threw {@link Overtaken}:
 * what `run` counts, tells or uses up outside of the transaction, it would more than once. Whoever waits for it does that.
 * Rows are locked in one order everywhere: company, zone and then those above it, records; on the mail side erasure, address,
 * contact, delivery, partition, what is counted of an instance.
 */
export async function inTransaction<T>(db: Db, run: (transaction: Transaction) => Promise<T>): Promise<T> {
  let overtakenMs: number | undefined;
  for (let failures = 0; ; ) {
    try {
      return await db.transaction(run);
    } catch (error) {
      // Each time another transaction has committed: of many that run beside each other each has its turn.
      if (error instanceof Overtaken) {
        overtakenMs ??= performance.now();
        if (performance.now() - overtakenMs < OVERTAKEN_MS) continue;
      }
      failures += 1;
      if (!isTransient(error) || failures === MOST_TRIES) throw error;
    }
  }
}

/** What statements of tens of thousands of rows may sort and keep in memory: with the 4 MB of PostgreSQL's own they write files. */
const MEMORY_OF_MANY_ROWS = "32MB";

/** Gives the statements of a transaction memory for many rows, where they have less. */
export async function allowManyRows(transaction: Transaction): Promise<void> {
  await queryRows(
    transaction,
    `select set_config('work_mem', $1, true) where pg_size_bytes(current_setting('work_mem')) < pg_size_bytes($1)`,
    [MEMORY_OF_MANY_ROWS],
  );
}

/** Reads that all see the same state of the database. */
export function inSnapshot<T>(db: Db, read: (snapshot: Transaction) => Promise<T>): Promise<T> {
  return db.transaction(read, { isolationLevel: "repeatable read", readOnly: true });
}

/** As {@link inSnapshot}, for what is read bit by bit: the snapshot ends when whoever reads has all or has had enough. */
export async function* streamInSnapshot<T>(
  db: Db,
  read: (snapshot: Transaction) => AsyncGenerator<T>,
): AsyncGenerator<T> {
  const snapshot = await db.transaction({ isolationLevel: "repeatable read", readOnly: true });
  try {
    yield* read(snapshot);
  } finally {
    await snapshot.commit();
  }
}

/**
 * Deletes the rows of a table for which a condition holds, but for those that somebody has locked: what is in use waits
 * for the next time, and of several processes that do so at once each takes what no other has.
 * @param key what a row is told by @param condition SQL of our own making
 */
export async function deleteUnlocked(
  db: Db,
  { table, key }: { readonly table: string; readonly key: string },
  condition: string,
  values: readonly unknown[],
): Promise<void> {
  await queryRows(
    db,
    `delete from ${table} where ${key} in (select ${key} from ${table} where ${condition} for update skip locked)`,
    values,
  );
}
