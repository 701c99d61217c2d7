import type { Db } from "../platform/db.ts";

/** A response policy zone that a reseller has active. */
export interface ActiveFeed {
  readonly zone: string;
  readonly serial: number;
  /** Distinct triggers. */
  readonly rules: number;
}

/** In canonical order of names. */
export function listActiveFeeds(db: Db, resellerId: string): Promise<ActiveFeed[]> {
  return db("rpz_feeds")
    .join("rpz_activations", "rpz_activations.feed_id", "rpz_feeds.id")
    .where({ reseller_id: resellerId })
    .select("name as zone", "serial", "rules")
    .orderBy("name_key");
}
