import { inTime } from "../platform/deadline.ts";
import { type Db, queryRows } from "../platform/postgres/db.ts";
import { DATABASE_READ_ONLY, DATABASE_SILENT } from "./explain-error.ts";

/** How long whoever asks about the database is kept waiting: a pool may wait longer for a connection that does not come. */
export const PATIENCE_MS = 2_000;

/** What is wrong with the database, said in time; undefined: it answers, and takes changes. */
export function findDatabaseProblem(db: Db): Promise<string | undefined> {
  const asked = queryRows<{ limit: string }>(db, "select current_setting('transaction_read_only') as limit").then(
    ([row]) => (row!.limit === "on" ? DATABASE_READ_ONLY : undefined),
    () => DATABASE_SILENT,
  );
  return inTime(asked, PATIENCE_MS, () => DATABASE_SILENT);
}
