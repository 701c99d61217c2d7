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

/**
 * About how many octets each of some zones takes in the memory of a server, a little more rather than less. Reads all
 * of their records.
 */
export async function measureZones(client: pg.Client, zoneIds: readonly number[]): Promise<Map<number, number>> {
  const { rows } = await client.query<{ id: number; octets: number }>(
    `select zone_id as id, (count(*) * $2::int + sum(octet_length(owner) + octet_length(rdata)))::float8 as octets
       from (select zone_id, owner, rdata from records where zone_id = any ($1::bigint[])
             union all
             select zone_id, owner, rdata from derived_records where zone_id = any ($1::bigint[])) published
      group by zone_id`,
    [zoneIds, OCTETS_BESIDE_DATA],
  );
  const measured = new Map(rows.map(({ id, octets }) => [id, octets]));
  return new Map(zoneIds.map((id) => [id, measured.get(id) ?? 0]));
}

/** Of a record that is alone at its name: its fixed fields, its RRset's and its name's, and its place in the tables. */
const OCTETS_BESIDE_DATA = 72;
