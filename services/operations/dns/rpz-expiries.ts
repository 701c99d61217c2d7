import type { DomainName } from "../../core/dns/name.ts";
import { ok } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readExpired } from "../../store/dns/rpz-feeds.ts";
import { removeFeedRecords, withLockedFeed } from "./rpz-feeds.ts";

/** Rules that one change removes. */
const RULES_A_CHANGE = 10_000;

/** Removes the rules of a feed whose time has come. */
export async function removeExpiredRules(db: Db, apex: DomainName, now: Date, actor: string): Promise<void> {
  await withLockedFeed(db, apex, async (transaction, feed) => {
    const expired = await readExpired(transaction, feed, now, RULES_A_CHANGE);
    // Another server may have been first.
    if (expired.length > 0) await removeFeedRecords(transaction, feed, expired, actor);
    return ok(undefined);
  });
}
