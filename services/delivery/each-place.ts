import { fewAtOnce } from "../platform/few-at-once.ts";
import type { Db } from "../platform/postgres/db.ts";
import { byPlace } from "../store/mail/by-instance.ts";

/** Statements at a time, of different places. */
const AT_ONCE = 4;

/**
 * Does a piece of work for the rows of each place (see `byPlace`) by itself: one that does not answer holds up no other.
 * @throws the first failure, at the end
 */
export async function eachPlace<Row extends { readonly instanceId: number }>(
  db: Db,
  rows: readonly Row[],
  work: (own: readonly Row[]) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  await fewAtOnce(await byPlace(db, rows), { pieces: AT_ONCE }, async (own) => {
    await work(own).catch((error: unknown) => failures.push(error));
  });
  if (failures.length > 0) throw failures[0];
}
