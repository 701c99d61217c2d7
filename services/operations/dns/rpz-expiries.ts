import { nameFromStoredWire } from "../../core/dns/name.ts";
import { ok } from "../../core/result.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { type RecordRow, recordOf } from "../../store/dns/records.ts";
import { removeFeedRecords, withLockedFeed } from "./rpz-feeds.ts";

/** Rules that one change removes. */
const RULES_A_CHANGE = 10_000;

/** Removes the rules whose time has come. @returns the feeds that changed, by id */
export async function removeExpiredRules(db: Db, now: Date, actor: string): Promise<number[]> {
  const feeds = await queryRows<{ id: number; apex: Buffer }>(
    db,
    `select z.id, z.apex from zones z
      where z.id in (select e.zone_id from rpz_expiries e where e.expires_at <= ?::timestamptz) order by z.id`,
    [now.toISOString()],
  );
  const changed: number[] = [];
  for (const { id, apex } of feeds) {
    await withLockedFeed(db, nameFromStoredWire(apex), async (transaction, feed) => {
      const rows = await queryRows<RecordRow>(
        transaction,
        `select r.id, r.owner, r.type, r.ttl, r.rdata from rpz_expiries e join records r on r.id = e.record_id
          where e.zone_id = ? and e.expires_at <= ?::timestamptz order by r.id limit ?`,
        [id, now.toISOString(), RULES_A_CHANGE],
        { rowMode: "array" },
      );
      // Another server may have been first.
      if (rows.length > 0) await removeFeedRecords(transaction, feed, rows.map(recordOf), actor);
      return ok(undefined);
    });
    changed.push(id);
  }
  return changed;
}
