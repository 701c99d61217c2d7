import type { Db } from "../../platform/postgres/db.ts";

/** A response policy zone that a reseller has active. */
export interface ActiveFeed {
  readonly zone: string;
  readonly serial: number;
  /** Distinct triggers. */
  readonly rules: number;
}

/** In canonical order of names. */
export function listActiveFeeds(db: Db, resellerId: string): Promise<ActiveFeed[]> {
  return db("rpz_activations")
    .join("rpz_feeds", "rpz_feeds.zone_id", "rpz_activations.zone_id")
    .join("zones", "zones.id", "rpz_feeds.zone_id")
    .where("rpz_activations.reseller_id", resellerId)
    .select("zones.name as zone", "zones.serial", "rpz_feeds.rules")
    .orderBy("zones.name_key");
}
