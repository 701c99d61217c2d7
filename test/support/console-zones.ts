import { type Db, queryRows } from "../../services/platform/postgres/db.ts";

/**
 * Gives a zone that is there `host-000000 A 192.0.2.1`, `host-000001 A 192.0.2.1` and so on, faster than any API takes
 * them: the servers take the zone anew, as after any change that the journal does not hold.
 */
export async function fillZone(db: Db, domain: string, records: number): Promise<void> {
  await queryRows(
    db,
    `with zone as (
       update zones set version = version + 1, serial = serial + 1, changed_xid = pg_current_xact_id()
        where name = $1 returning id, apex, name_key)
     insert into records (zone_id, owner, owner_key, type, ttl, rdata)
     select id, '\\x0b'::bytea || label || apex, name_key || label || '\\x00'::bytea, 1, 3600, '\\xc0000201'
       from zone, generate_series(0, $2 - 1) number,
            lateral (select convert_to('host-' || lpad(number::text, 6, '0'), 'UTF8') as label) named`,
    [domain, records],
  );
  await queryRows(db, "analyze records", []);
}
