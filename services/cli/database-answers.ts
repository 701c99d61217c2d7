import { setTimeout as sleep } from "node:timers/promises";
import { type Db, queryRows } from "../platform/postgres/db.ts";

/** How long whoever asks about the database is kept waiting: a pool may wait longer for a connection that does not come. */
const PATIENCE_MS = 2_000;

/** Whether the database answers, said in time. */
export function databaseAnswers(db: Db): Promise<boolean> {
  const asked = queryRows(db, "select").then(
    () => true,
    () => false,
  );
  return inTime(asked, false);
}

/** What was asked of the database, or something else where it takes too long. */
export function inTime<T>(asked: Promise<T>, otherwise: T): Promise<T> {
  return Promise.race([asked, sleep(PATIENCE_MS, otherwise, { ref: false })]);
}
