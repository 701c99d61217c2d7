import type { EachByItself } from "../../../platform/each-by-itself.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { removeMessages } from "../sends/message-retention.ts";
import { holdFolding } from "./event-counts.ts";
import { dropEmptyEventMonths } from "./event-partitions.ts";

const DAY_MS = 86_400_000;

/**
 * Removes what instances no longer keep, by whole days (UTC): events with their counts, archived messages, and then
 * messages of which no archive is left; at last the months that hold no events any more.
 * @param each by the instance's id
 * @param signal ends it early; the next time goes on from there
 */
export async function applyRetention(
  db: Db,
  now: Date,
  each: EachByItself<number>,
  signal?: AbortSignal,
): Promise<void> {
  const instances = await queryRows<{
    id: number;
    event_days: number | null;
    archive_days: number | null;
    message_days: number | null;
  }>(
    db,
    `select id, event_retention_days as event_days, archive_retention_days as archive_days,
       message_retention_days as message_days
     from instances where coalesce(event_retention_days, archive_retention_days, message_retention_days) is not null`,
  );
  for (const { id, event_days, archive_days, message_days } of instances) {
    if (signal?.aborted) return;
    await each.attempt(id, async () => {
      if (event_days !== null) await removeEventsBefore(db, id, startOfDay(now, event_days), signal);
      if (archive_days !== null) await removeArchivesBefore(db, id, startOfDay(now, archive_days));
      if (message_days !== null)
        await removeMessages(db, { instanceId: id, before: startOfDay(now, message_days) }, signal);
    });
  }
  await dropEmptyEventMonths(db, now);
}

/** Day by day: counting events waits meanwhile. */
async function removeEventsBefore(db: Db, instanceId: number, cutoff: Date, signal?: AbortSignal): Promise<void> {
  for (let until = new Date(0); until < cutoff && !signal?.aborted; ) {
    until = await endOfOldestDay(db, instanceId, cutoff);
    await db.transaction(async (transaction) => {
      await holdFolding(transaction);
      await transaction("events").where({ instance_id: instanceId }).where("at", "<", until).delete();
      await transaction("event_counts").where({ instance_id: instanceId }).where("bucket", "<", until).delete();
      await transaction("event_count_deltas").where({ instance_id: instanceId }).where("minute", "<", until).delete();
    });
  }
}

/** The cutoff when no day before it has events. */
async function endOfOldestDay(db: Db, instanceId: number, cutoff: Date): Promise<Date> {
  const [oldest] = await queryRows<{ at: Date | null }>(
    db,
    "select min(at) as at from events where instance_id = $1 and at < $2",
    [instanceId, cutoff],
  );
  return oldest?.at ? startOfDay(oldest.at, -1) : cutoff;
}

async function removeArchivesBefore(db: Db, instanceId: number, cutoff: Date): Promise<void> {
  await queryRows(db, "delete from archived_messages where instance_id = $1 and sent_at < $2", [instanceId, cutoff]);
}

/** Midnight (UTC) some days ago. */
function startOfDay(now: Date, daysAgo: number): Date {
  return new Date(Math.floor(now.getTime() / DAY_MS - daysAgo) * DAY_MS);
}
