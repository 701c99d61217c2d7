import { ok } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listFeedsWithExpired, readExpired } from "../../store/dns/rpz-feeds.ts";
import { removeFeedRecords, withLockedFeed } from "./rpz-feeds.ts";

/** Rules that one change removes. */
const RULES_A_CHANGE = 10_000;

/** Removes the rules whose time has come. @returns the feeds that changed, by id */
export async function removeExpiredRules(db: Db, now: Date, actor: string): Promise<number[]> {
  const feeds = await listFeedsWithExpired(db, now);
  const changed: number[] = [];
  for (const { id, apex } of feeds) {
    await withLockedFeed(db, apex, async (transaction, feed) => {
      const expired = await readExpired(transaction, feed, now, RULES_A_CHANGE);
      // Another server may have been first.
      if (expired.length > 0) await removeFeedRecords(transaction, feed, expired, actor);
      return ok(undefined);
    });
    changed.push(id);
  }
  return changed;
}
