import { type Db, queryRows } from "../platform/db.ts";
import { holdFolding } from "./event-counts.ts";
import { dropEmptyEventMonths } from "./event-partitions.ts";

const DAY_MS = 86_400_000;

/**
 * Removes the events that an instance no longer keeps, by whole days (UTC), with their counts; then the months that
 * hold nothing any more, and archived messages past their time.
 */
export async function applyRetention(db: Db, now: Date): Promise<void> {
  const instances = await queryRows<{ id: number; event_days: number | null; archive_days: number | null }>(
    db,
    `select id, event_retention_days as event_days, archive_retention_days as archive_days from instances
     where event_retention_days is not null or archive_retention_days is not null`,
  );
  for (const { id, event_days, archive_days } of instances) {
    if (event_days !== null) await removeEventsBefore(db, id, startOfDay(now, event_days));
    if (archive_days !== null) await removeArchivesBefore(db, id, startOfDay(now, archive_days));
  }
  await dropEmptyEventMonths(db, now);
}

async function removeEventsBefore(db: Db, instanceId: number, cutoff: Date): Promise<void> {
  await db.transaction(async (transaction) => {
    await holdFolding(transaction);
    await transaction("events").where({ instance_id: instanceId }).where("at", "<", cutoff).delete();
    await transaction("event_counts").where({ instance_id: instanceId }).where("bucket", "<", cutoff).delete();
    await transaction("event_count_deltas").where({ instance_id: instanceId }).where("minute", "<", cutoff).delete();
  });
}

async function removeArchivesBefore(db: Db, instanceId: number, cutoff: Date): Promise<void> {
  await queryRows(
    db,
    `delete from archived_messages using batches
     where batches.eeid = archived_messages.eeid and batches.instance_id = ? and sent_at < ?`,
    [instanceId, cutoff],
  );
}

/** Midnight (UTC) some days ago. */
function startOfDay(now: Date, daysAgo: number): Date {
  return new Date(Math.floor(now.getTime() / DAY_MS - daysAgo) * DAY_MS);
}
