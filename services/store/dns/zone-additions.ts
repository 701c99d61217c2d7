import type { SoaRdata } from "../../core/dns/soa.ts";
import type { ZoneChange } from "../../core/dns/zone-edit.ts";
import { type Binding, type Db, queryRows, rowsTable, StatementValues } from "../../platform/postgres/db.ts";
import { RECORD_TYPES, recordColumns } from "./zone-change-sql.ts";
import { differenceOf, type Growth, type WrittenChange } from "./zone-changes.ts";
import type { Zone } from "./zones.ts";

/** A change that only adds records. */
export interface Addition {
  readonly zone: Zone;
  readonly change: ZoneChange;
  readonly actor: string;
  readonly growth: Growth;
}

/** Larger additions are written by themselves, so that others do not wait for them. */
const MOST_RECORDS = 8;
const MOST_OCTETS = 8_192;

/** All but the serial: the compiler misses none. */
const SOA_FIELDS = Object.keys({ mname: 1, rname: 1, refresh: 1, retry: 1, expire: 1, minimum: 1 } satisfies Record<
  Exclude<keyof SoaRdata, "serial">,
  1
>) as Exclude<keyof SoaRdata, "serial">[];

/** Whether a change only adds a few records, and alters nothing of the SOA but its serial. */
export function isAddition(zone: Zone, change: ZoneChange, growth: Growth): boolean {
  const { rows, difference, soa, ttl, derived, followers, cachedUntil } = change;
  const { created } = rows;
  return (
    created.length > 0 &&
    created.length <= MOST_RECORDS &&
    rows.deletedIds.length + rows.updated.length + difference.deleted.length === 0 &&
    !derived &&
    !followers &&
    cachedUntil === undefined &&
    ttl === zone.ttl &&
    SOA_FIELDS.every((field) => zone.soa[field] === soa[field]) &&
    growth.octets >= 0 &&
    growth.octets <= MOST_OCTETS
  );
}

/**
 * Writes additions, at most one of each zone, by one statement, which is one transaction: of each records, serial and journal,
 * or nothing where the zone has changed since it was read, does not hold what it grows by (quotas.ts), or is locked by
 * somebody. It waits for nobody's lock, so nobody waits in a circle with it.
 * @returns in the order of the additions; undefined for those that were not written
 */
export async function writeAdditions(db: Db, additions: readonly Addition[]): Promise<(WrittenChange | undefined)[]> {
  const values = new StatementValues();
  const wanted = rowsTable(ADDITION_TYPES, additions.map(additionColumns), values);
  const records = additions.flatMap(({ change }, index) =>
    change.rows.created.map((record) => [index + 1, ...recordColumns(record)]),
  );
  const created = rowsTable(["bigint", ...RECORD_TYPES], records, values);
  const rows = await queryRows<{ addition: number; id: number }>(
    db,
    writeAdditionsSql(wanted.sql, created.sql),
    values.all,
    { name: `write-additions ${wanted.shape} ${created.shape}` },
  );
  const written: (number[] | undefined)[] = additions.map(() => undefined);
  for (const { addition, id } of rows) {
    written[addition - 1] ??= [];
    written[addition - 1]!.push(id);
  }
  return written.map((createdIds) => createdIds && { createdIds: createdIds.sort((a, b) => a - b), followerIds: [] });
}

/** zone_id, version, serial, records, octets, serial_before, actor, deleted, added */
const ADDITION_TYPES = [...Array.from({ length: 6 }, () => "bigint"), "text", "bytea", "bytea"];

function additionColumns({ zone, change, actor, growth }: Addition): readonly Binding[] {
  const numbers = [zone.id, zone.version, change.soa.serial, growth.records, growth.octets, zone.soa.serial];
  // An addition is small, so the journal has room for it.
  return [...numbers, actor, ...differenceOf(zone, change)];
}

function writeAdditionsSql(additions: string, records: string): string {
  return `
  with wanted as (
    select * from ${additions}
      as w (zone_id, version, serial, records, octets, serial_before, actor, deleted, added, addition)
  ), free as (
    select w.* from wanted w cross join lateral (
      select 1 from zones z
       where z.id = w.zone_id and z.version = w.version
         and (z.company_id is null or z.records + w.records <= z.records_held and z.octets + w.octets <= z.octets_held)
         offset 0 for no key update skip locked
    ) held
  ), zone as (
    update zones
       set serial = free.serial, records = zones.records + free.records, octets = zones.octets + free.octets,
           version = zones.version + 1
      from free where zones.id = free.zone_id and zones.version = free.version
    returning zones.id, zones.version, free.addition
  ), created as (
    insert into records (zone_id, owner, owner_key, type, ttl, rdata)
    select zone.id, r.owner, r.owner_key, r.type, r.ttl, r.rdata
      from ${records} as r (addition, owner, owner_key, type, ttl, rdata, place)
      join zone on zone.addition = r.addition
     order by r.place returning id, zone_id
  ), journal as (
    insert into zone_journal (zone_id, version, serial, serial_before, actor, deleted, added)
    select zone.id, zone.version, w.serial, w.serial_before, w.actor, w.deleted, w.added
      from zone join wanted w on w.addition = zone.addition
  )
  select zone.addition::int, created.id from zone join created on created.zone_id = zone.id`;
}
