import { inTime } from "../platform/deadline.ts";
import { type Db, isDiskFull, isOutOfBounds, queryRows, type Transaction } from "../platform/postgres/db.ts";
import { inTransaction } from "../store/transactions.ts";
import { DATABASE_FULL, DATABASE_READ_ONLY, DATABASE_SILENT } from "./explain-error.ts";

/** How long whoever asks about the database is kept waiting: a pool may wait longer for a connection that does not come. */
export const PATIENCE_MS = 2_000;

/** What is wrong with the database, said in time; undefined: it answers, and takes changes. */
export function findDatabaseProblem(db: Db): Promise<string | undefined> {
  const asked = inTransaction(db, async (transaction) => {
    const [row] = await queryRows<{ limit: string }>(
      transaction,
      "select current_setting('transaction_read_only') as limit",
    );
    if (row!.limit === "on") return DATABASE_READ_ONLY;
    await takeRoom(transaction);
    return undefined;
  }).catch((error) => {
    if (isDiskFull(error)) return DATABASE_FULL;
    return isOutOfBounds(error) ? undefined : DATABASE_SILENT;
  });
  return inTime(asked, PATIENCE_MS, () => DATABASE_SILENT);
}

/**
 * Has the database keep a mebioctet in a file, which it removes again: on a full disk a change of a row would find room in
 * its page, and a table of its own would leave its traces in the catalogue.
 */
async function takeRoom(transaction: Transaction): Promise<void> {
  await queryRows(transaction, "set local work_mem = '64kB'");
  // 14 octets each, which do not fit into its memory.
  await queryRows(transaction, "select count(*) from generate_series(1, 75000)");
}
