import type pg from "pg";

/**
 * Those of some zones that have at least so many records, of customers' or of those that signing makes. No more of
 * them are counted, along the index.
 * @param records 1 or more
 */
export async function findLargeZones(
  client: pg.Client,
  zoneIds: readonly number[],
  records: number,
): Promise<number[]> {
  const { rows } = await client.query<{ id: number }>(
    `select zone_id as id from unnest($1::bigint[]) as wanted (zone_id)
      where exists (select from records r where r.zone_id = wanted.zone_id order by r.zone_id, r.owner_key, r.type offset $2)
         or exists (select from derived_records r where r.zone_id = wanted.zone_id order by r.zone_id, r.owner_key, r.type offset $2)`,
    [zoneIds, records - 1],
  );
  return rows.map(({ id }) => id);
}
