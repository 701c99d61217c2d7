import { type Db, isTransient, queryRows, type Transaction } from "../platform/postgres/db.ts";

const MOST_TRIES = 5;

/** More often nobody is overtaken by others: it overtakes itself, which is a bug. */
const MOST_OVERTAKEN = 1_000;

/** What a transaction went by was changed by another before it could end: it is to run anew. */
export class Overtaken extends Error {}

/**
 * Runs a transaction, anew when PostgreSQL gave it up for a deadlock or a serialisation failure, or it threw {@link Overtaken}.
 * Rows are locked in one order everywhere: company, zone and then those above it, records; on the mail side address,
 * contact, delivery, partition, what is counted of an instance.
 */
export async function inTransaction<T>(db: Db, run: (transaction: Transaction) => Promise<T>): Promise<T> {
  for (let failures = 0, overtaken = 0; ; ) {
    try {
      return await db.transaction(run);
    } catch (error) {
      // As often as it happens somebody else has got through, of whom there are only so many.
      if (error instanceof Overtaken) overtaken += 1;
      else failures += 1;
      const mayRunAnew = error instanceof Overtaken || isTransient(error);
      if (!mayRunAnew || failures === MOST_TRIES || overtaken === MOST_OVERTAKEN) throw error;
    }
  }
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
