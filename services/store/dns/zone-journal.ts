import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";

/** What of the journal stays: all that is young enough, and the latest versions of each zone however old they are. */
export interface JournalRetention {
  readonly before: Date;
  readonly versions: number;
}

/** Zones that are looked at in one step, and rows that one statement deletes: neither may hold up changes for long. */
const ZONES_A_STEP = 1_000;
const ROWS_A_STEP = 5_000;

/** What the journal of one zone may take, in octets: a large zone that is replaced again and again has a short history. */
const MOST_JOURNAL_OCTETS = 256 * 2 ** 20;

/** A zone has at least so many versions before small changes come to much. */
const MANY_VERSIONS = 10_000;

/** Of all journal pruning that is under way on this database, one does it. */
const PRUNING_LOCK = 0x6a6f7572;

/**
 * Removes what of the zones' journals need not stay, in small transactions. Histories end where it begins; servers and
 * secondaries that are further behind take the whole zone.
 * @param isStopping asked between two steps, with the milliseconds that the last one took; it may take its time
 * @returns rows removed; what another node removes at the same time is its affair
 */
export async function pruneJournals(
  db: Db,
  keep: JournalRetention,
  isStopping: (tookMs: number) => boolean | Promise<boolean>,
): Promise<number> {
  let removed = 0;
  let afterZone = 0;
  for (let tookMs = 0; !(await isStopping(tookMs)); ) {
    const from = performance.now();
    const step = await inTransaction(db, (transaction) => pruneStep(transaction, keep, afterZone));
    if (!step) break;
    removed += step.removed;
    for (const zoneId of step.manyVersions) removed += await boundJournal(db, zoneId);
    if (step.removed < ROWS_A_STEP) afterZone = step.lastZone;
    tookMs = performance.now() - from;
  }
  return removed;
}

/**
 * Removes the oldest versions of a zone's journal that are more than it may take; the newest stays in any case.
 * @returns rows removed
 */
export async function boundJournal(db: Db, zoneId: number, mostOctets = MOST_JOURNAL_OCTETS): Promise<number> {
  const [row] = await queryRows<{ removed: number }>(
    db,
    `with sized as (
       select version, row_number() over newest as place,
              sum(octet_length(deleted) + octet_length(added) + coalesce(octet_length(derived_deleted), 0)
                  + coalesce(octet_length(derived_added), 0)) over newest as octets
         from zone_journal where zone_id = $1 window newest as (order by version desc)
     ), gone as (
       delete from zone_journal j using sized
        where j.zone_id = $2 and j.version = sized.version and sized.octets > $3 and sized.place > 1 returning 1)
     select count(*) as removed from gone`,
    [zoneId, zoneId, mostOctets],
  );
  return Number(row?.removed ?? 0);
}

/** Forgets deletions of zones that every server has heard of by now, and from which no secondary answers any more. */
export async function pruneZoneDeletions(db: Db, before: Date): Promise<void> {
  await queryRows(db, "delete from zone_deletions where deleted_at < $1", [before]);
}

interface PruneStep {
  readonly lastZone: number;
  readonly removed: number;
  /** Zones of the step whose journal may be large by the number of its rows. */
  readonly manyVersions: readonly number[];
}

/** @returns undefined when no zone is left, or another is at it */
async function pruneStep(transaction: Db, keep: JournalRetention, afterZone: number): Promise<PruneStep | undefined> {
  const [lock] = await queryRows<{ mine: boolean }>(transaction, "select pg_try_advisory_xact_lock($1) as mine", [
    PRUNING_LOCK,
  ]);
  if (!lock?.mine) return undefined;
  const [step] = await queryRows<{ last_zone: number | null; removed: number; many_versions: string[] | null }>(
    transaction,
    `with step as (select id, version from zones where id > $1 order by id limit $2),
          grown as (select id, version from step where version > greatest($3, 1)),
          gone as (
            delete from zone_journal where (zone_id, version) in (
              select j.zone_id, j.version
                from grown join zone_journal j on j.zone_id = grown.id
                                              and j.version <= grown.version - greatest($4, 1) and j.at < $5
               limit $6)
            returning 1)
     select (select max(id) from step) as last_zone, (select count(*) from gone) as removed,
            (select array_agg(id) from step where version > $7) as many_versions`,
    [afterZone, ZONES_A_STEP, keep.versions, keep.versions, keep.before, ROWS_A_STEP, MANY_VERSIONS],
  );
  if (step?.last_zone == null) return undefined;
  // An array of bigint arrives as texts.
  const manyVersions = (step.many_versions ?? []).map(Number);
  return { lastZone: step.last_zone, removed: step.removed, manyVersions };
}
