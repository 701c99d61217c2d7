import { nameFromStoredWire } from "../../core/dns/name.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { type RecordRow, recordOf } from "./records.ts";
import { findAnyZone, type Zone } from "./zones.ts";

/** A catalog zone (RFC 9432) as lists show it. */
export interface CatalogSummary {
  readonly zone: string;
  readonly serial: number;
  /** How many zones it lists. */
  readonly members: number;
}

/** A zone that a catalog does not list yet. */
export interface UnlistedZone {
  readonly id: number;
  /** Wire form, lower case. */
  readonly apex: Buffer;
}

/** A reseller's catalogs, in canonical order. */
export function listCatalogs(db: Db, resellerId: string): Promise<CatalogSummary[]> {
  return queryRows(
    db,
    `select name as zone, serial, (select count(*) from catalog_members where catalog_id = zones.id) as members
       from zones where reseller_id = $1 and kind = 'catalog' order by name_key`,
    [resellerId],
  );
}

/** The catalogs of the deployment, by id. */
export async function listCatalogIds(db: Db): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(db, "select id from zones where kind = 'catalog' order by id", [], {
    name: "list-catalogs",
  });
  return rows.map(({ id }) => id);
}

/** A catalog, its row locked; undefined when it has gone. */
export async function lockCatalog(transaction: Transaction, catalogId: number): Promise<Zone | undefined> {
  const [row] = await queryRows<{ apex: Buffer }>(
    transaction,
    "select apex from zones where id = $1 and kind = 'catalog' for update",
    [catalogId],
  );
  return row && findAnyZone(transaction, nameFromStoredWire(row.apex));
}

/**
 * The active zones of the catalog's reseller that it does not list.
 * @param sinceXid only those that have changed since a look (`lookForZoneChanges`); null: all
 */
export function listUnlistedZones(
  transaction: Transaction,
  catalogId: number,
  sinceXid: string | null,
): Promise<UnlistedZone[]> {
  return queryRows(
    transaction,
    `select z.id, z.apex from zones z
      where z.reseller_id = (select reseller_id from zones where id = $1) and z.kind = 'primary'
        and not z.suspended and not z.company_suspended ${sinceXid === null ? "" : "and z.changed_xid >= $3::xid8"}
        and not exists (select 1 from catalog_members m where m.catalog_id = $2 and m.zone_id = z.id)
      order by z.id`,
    [catalogId, catalogId, ...(sinceXid === null ? [] : [sinceXid])],
  );
}

/** The catalogs of a reseller, none of which is made until the transaction ends. */
export async function countCatalogs(transaction: Transaction, resellerId: string): Promise<number> {
  await queryRows(transaction, "select from resellers where id = $1 for no key update", [resellerId]);
  const [row] = await queryRows<{ count: number }>(
    transaction,
    "select count(*)::int as count from zones where reseller_id = $1 and kind = 'catalog'",
    [resellerId],
  );
  return row!.count;
}

/**
 * The catalog's records of zones that are gone or suspended.
 * @param sinceXid only of those that have gone or changed since a look (`lookForZoneChanges`); null: of all
 */
export async function readFormerMembers(
  transaction: Transaction,
  catalogId: number,
  sinceXid: string | null,
): Promise<StoredRecord[]> {
  const members =
    sinceXid === null
      ? "catalog_members m"
      : `(select zone_id from zone_deletions where changed_xid >= $2::xid8
          union select id from zones where changed_xid >= $3::xid8) recent
         join catalog_members m on m.zone_id = recent.zone_id`;
  const rows = await queryRows<RecordRow>(
    transaction,
    `select r.id, r.owner, r.type, r.ttl, r.rdata
       from ${members} join records r on r.id = m.record_id left join zones z on z.id = m.zone_id
      where m.catalog_id = $1 and (z.id is null or z.suspended or z.company_suspended) order by r.id`,
    [catalogId, ...(sinceXid === null ? [] : [sinceXid, sinceXid])],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}

/** Notes which record of a catalog stands for which zone; both lists in one order. */
export async function insertMembers(
  transaction: Transaction,
  catalogId: number,
  zoneIds: readonly number[],
  recordIds: readonly number[],
): Promise<void> {
  await queryRows(
    transaction,
    `insert into catalog_members (catalog_id, zone_id, record_id)
     select $1, zone_id, record_id from unnest($2::bigint[], $3::bigint[]) as member (zone_id, record_id)`,
    [catalogId, zoneIds, recordIds],
  );
}

/**
 * Which catalogs do not list what they should since an earlier look, and where the next look begins. What it costs depends on
 * how many zones have changed, not on how many there are.
 * @param sinceXid what the last look gave
 */
export async function lookForZoneChanges(
  db: Db,
  sinceXid: string,
): Promise<{ readonly sinceXid: string; readonly catalogIds: readonly number[] }> {
  const [row] = await queryRows<{ xmin: string; ids: string[] }>(
    db,
    `select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, array(
       select c.id
         from zones z join zones c on c.reseller_id = z.reseller_id and c.kind = 'catalog'
        where z.changed_xid >= $1::xid8 and z.kind = 'primary'
          and (z.suspended or z.company_suspended)
            = exists (select 1 from catalog_members m where m.catalog_id = c.id and m.zone_id = z.id)
       union
       select m.catalog_id
         from zone_deletions d join catalog_members m on m.zone_id = d.zone_id
        where d.changed_xid >= $2::xid8) as ids`,
    [sinceXid, sinceXid],
    { name: "look-for-zone-changes" },
  );
  // An array of bigint arrives as texts.
  return { sinceXid: row!.xmin, catalogIds: row!.ids.map(Number) };
}

/** Where a look for changed zones begins that is to find what changes from now on. */
export async function startOfLooks(db: Db): Promise<string> {
  const [row] = await queryRows<{ xmin: string }>(db, "select pg_snapshot_xmin(pg_current_snapshot())::text as xmin");
  return row!.xmin;
}
