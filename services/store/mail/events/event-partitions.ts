import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { dropPart, ensureParts, listParts, type TimePartitions } from "../../time-partitions.ts";

/** The events, a part a month (migrations/0150-events.sql). */
const EVENT_MONTHS: TimePartitions = {
  table: "events",
  lock: 7_262_003,
  make: "make_events_month",
  drop: "drop_events_month",
  firstDayOf: (moment) => `${moment.toISOString().slice(0, 7)}-01`,
  suffixOf: (firstDay) => firstDay.slice(0, 7).replace("-", "_"),
  firstDayOfSuffix: (suffix) => `${suffix.replace("_", "-")}-01`,
};

/** Makes the monthly partitions that these moments fall into, where they are missing. */
export async function ensureEventMonths(db: Db, moments: Iterable<Date>): Promise<void> {
  await ensureParts(db, EVENT_MONTHS, moments);
}

/** The months ahead, so that no writer ever has to make its own. */
export async function prepareEventMonths(db: Db, now: Date, monthsAhead = 2): Promise<void> {
  const months = Array.from({ length: monthsAhead + 1 }, (_, ahead) => {
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1));
  });
  await ensureEventMonths(db, months);
}

/** First days of the months that there are, such as `2026-01-01`. */
export async function listEventMonths(db: Db): Promise<string[]> {
  return (await listParts(db, EVENT_MONTHS)).map(({ firstDay }) => firstDay);
}

/** Removes the months that hold nothing any more and end before a moment. */
export async function dropEmptyEventMonths(db: Db, before: Date): Promise<void> {
  const current = EVENT_MONTHS.firstDayOf(before);
  for (const firstDay of await listEventMonths(db)) {
    // The database looks again: somebody may have written to it while we waited.
    if (firstDay < current && (await isEmpty(db, firstDay))) await dropPart(db, EVENT_MONTHS, firstDay);
  }
}

/** Asked of the whole table, as a role may have no rights in its parts. */
async function isEmpty(db: Db, firstDay: string): Promise<boolean> {
  const [found] = await queryRows<{ empty: boolean }>(
    db,
    `select not exists (select 1 from events where at >= $1::timestamp at time zone 'UTC'
       and at < ($2::timestamp + interval '1 month') at time zone 'UTC') as empty`,
    [firstDay, firstDay],
  );
  return found!.empty;
}
