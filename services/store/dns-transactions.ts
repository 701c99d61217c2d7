import { type Db, isTransient, type Transaction } from "../platform/db.ts";

const MOST_TRIES = 5;

/**
 * Runs a transaction, anew when PostgreSQL gave it up for a deadlock or a serialisation failure.
 * Rows are locked in one order everywhere: company, zone, records.
 */
export async function inTransaction<T>(db: Db, run: (transaction: Transaction) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await db.transaction(run);
    } catch (error) {
      if (!isTransient(error) || attempt === MOST_TRIES) throw error;
    }
  }
}

/** Reads that all see the same state of the database. */
export function inSnapshot<T>(db: Db, read: (snapshot: Transaction) => Promise<T>): Promise<T> {
  return db.transaction(read, { isolationLevel: "repeatable read", readOnly: true });
}
