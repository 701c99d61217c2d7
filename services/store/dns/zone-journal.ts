import { type Db, queryRows } from "../../platform/db.ts";
import { inTransaction } from "../transactions.ts";

/** What of the journal stays: all that is young enough, and the latest versions of each zone however old they are. */
export interface JournalRetention {
  readonly before: Date;
  readonly versions: number;
}

/** Zones that are looked at in one step, and rows that one statement deletes: neither may hold up changes for long. */
const ZONES_A_STEP = 1_000;
const ROWS_A_STEP = 5_000;

/** Of all journal pruning that is under way on this database, one does it. */
const PRUNING_LOCK = 0x6a6f7572;

/**
 * Removes what of the zones' journals need not stay, in small transactions. Histories end where it begins; servers and
 * secondaries that are further behind take the whole zone.
 * @param isStopping asked between two steps
 * @returns rows removed; what another node removes at the same time is its affair
 */
export async function pruneJournals(db: Db, keep: JournalRetention, isStopping: () => boolean): Promise<number> {
  let removed = 0;
  let afterZone = 0;
  while (!isStopping()) {
    const step = await inTransaction(db, (transaction) => pruneStep(transaction, keep, afterZone));
    if (!step) break;
    removed += step.removed;
    if (step.removed < ROWS_A_STEP) afterZone = step.lastZone;
  }
  return removed;
}

/** Forgets deletions of zones that every server has heard of by now. */
export async function pruneZoneDeletions(db: Db, before: Date): Promise<void> {
  await queryRows(db, "delete from zone_deletions where deleted_at < ?", [before]);
}

/** @returns undefined when no zone is left, or another is at it */
async function pruneStep(
  transaction: Db,
  keep: JournalRetention,
  afterZone: number,
): Promise<{ readonly lastZone: number; readonly removed: number } | undefined> {
  const [lock] = await queryRows<{ mine: boolean }>(transaction, "select pg_try_advisory_xact_lock(?) as mine", [
    PRUNING_LOCK,
  ]);
  if (!lock?.mine) return undefined;
  const [step] = await queryRows<{ last_zone: number | null; removed: number }>(
    transaction,
    `with step as (select id, version from zones where id > ? order by id limit ?),
          gone as (
            delete from zone_journal where (zone_id, version) in (
              select j.zone_id, j.version
                from step join zone_journal j on j.zone_id = step.id and j.version <= step.version - ? and j.at < ?
               limit ?)
            returning 1)
     select (select max(id) from step) as last_zone, (select count(*) from gone) as removed`,
    [afterZone, ZONES_A_STEP, keep.versions, keep.before, ROWS_A_STEP],
  );
  return step?.last_zone == null ? undefined : { lastZone: step.last_zone, removed: step.removed };
}
