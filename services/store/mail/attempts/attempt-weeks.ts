import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { dropPart, ensureParts, listParts, type TimePartitions } from "../../time-partitions.ts";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;

/** The attempts, a part a week from Monday on (migrations/0230-delivery-attempts.sql). */
const ATTEMPT_WEEKS: TimePartitions = {
  table: "delivery_attempts",
  lock: 7_262_006,
  make: "make_attempts_week",
  drop: "drop_attempts_week",
  firstDayOf: (moment) => {
    const sinceMonday = (moment.getUTCDay() + 6) % 7;
    return new Date(moment.getTime() - sinceMonday * DAY_MS).toISOString().slice(0, 10);
  },
  suffixOf: (firstDay) => firstDay.replaceAll("-", "_"),
  firstDayOfSuffix: (suffix) => suffix.replaceAll("_", "-"),
};

/** Makes the weeks that these moments fall into, where they are missing. */
export async function ensureAttemptWeeks(db: Db, moments: Iterable<Date>): Promise<void> {
  await ensureParts(db, ATTEMPT_WEEKS, moments);
}

/** First days of the weeks that there are, such as `2026-01-05`. */
export async function listAttemptWeeks(db: Db): Promise<string[]> {
  return (await listParts(db, ATTEMPT_WEEKS)).map(({ firstDay }) => firstDay);
}

/**
 * Makes the weeks ahead, so that no writer ever has to make its own, and drops those of which every attempt is older
 * than so many days: what is kept is at most six days older. Ways and results that nothing stands for any more go too.
 */
export async function tidyAttempts(db: Db, now: Date, retentionDays: number): Promise<void> {
  if (retentionDays > 0) await ensureAttemptWeeks(db, [now, new Date(now.getTime() + WEEK_MS)]);
  const cutoff = new Date(now.getTime() - retentionDays * DAY_MS);
  for (const firstDay of await listAttemptWeeks(db)) {
    const isOver = new Date(firstDay).getTime() + WEEK_MS <= cutoff.getTime();
    if (isOver) await dropPart(db, ATTEMPT_WEEKS, firstDay);
  }
  await removeUnseen(db, new Date(cutoff.getTime() - WEEK_MS - 2 * DAY_MS));
}

/** Nothing was stored of them since the week before the oldest that is kept; `seen_at` is exact to a day. */
async function removeUnseen(db: Db, before: Date): Promise<void> {
  await queryRows(db, "delete from attempt_paths where seen_at < $1", [before]);
  await queryRows(db, "delete from attempt_results where seen_at < $1", [before]);
}
