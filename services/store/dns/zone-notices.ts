import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** The channel on which readers of zones are hastened; their polls make sure. */
export const ZONES_CHANNEL = "palomar_zones";

/** Zones of one notice, which may have 8,000 octets. */
const ZONES_A_NOTICE = 400;

/**
 * Tells the readers that these zones changed. Called after the change is committed and not within it: PostgreSQL
 * lets only one transaction at a time commit with a notice in it, and thereby its fsync too.
 */
export async function notifyZones(db: Db, zoneIds: readonly number[]): Promise<void> {
  const payloads: string[] = [];
  for (let first = 0; first < zoneIds.length; first += ZONES_A_NOTICE) {
    payloads.push(zoneIds.slice(first, first + ZONES_A_NOTICE).join(" "));
  }
  // A notice is no data: its commit need not wait for the disk, as that of the change did.
  await queryRows(
    db,
    `select set_config('synchronous_commit', 'off', true), pg_notify($1, payload) from unnest($2::text[]) payload`,
    [ZONES_CHANNEL, payloads],
    { name: "notify-zones" },
  );
}
