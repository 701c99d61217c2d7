import type { Db, Transaction } from "../../../platform/postgres/db.ts";

/** A place in a spool of the tracking service (services/tracking/spool.ts). */
interface StoredPosition {
  readonly segment: number;
  readonly offset: number;
}

/** How far a spool is stored; undefined for one that was never seen. */
export async function findSpoolPosition(db: Db, spool: string): Promise<StoredPosition | undefined> {
  return db("tracking_positions").where({ spool }).first("segment", "offset");
}

/** In the transaction that stores what lies before it: a crash then neither loses nor doubles anything. */
export async function saveSpoolPosition(
  transaction: Transaction,
  spool: string,
  { segment, offset }: StoredPosition,
): Promise<void> {
  await transaction("tracking_positions")
    .insert({ spool, segment, offset, updated_at: transaction.fn.now() })
    .onConflict("spool")
    .merge();
}
