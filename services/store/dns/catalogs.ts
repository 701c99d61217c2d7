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

/** The active zones of the catalog's reseller that it does not list. */
export function listUnlistedZones(transaction: Transaction, catalogId: number): Promise<UnlistedZone[]> {
  return queryRows(
    transaction,
    `select z.id, z.apex from zones z
      where z.reseller_id = (select reseller_id from zones where id = $1) and z.kind = 'primary'
        and not z.suspended and not z.company_suspended
        and not exists (select 1 from catalog_members m where m.catalog_id = $2 and m.zone_id = z.id)
      order by z.id`,
    [catalogId, catalogId],
  );
}

/** The catalog's records of zones that are gone or suspended. */
export async function readFormerMembers(transaction: Transaction, catalogId: number): Promise<StoredRecord[]> {
  const rows = await queryRows<RecordRow>(
    transaction,
    `select r.id, r.owner, r.type, r.ttl, r.rdata
       from catalog_members m join records r on r.id = m.record_id left join zones z on z.id = m.zone_id
      where m.catalog_id = $1 and (z.id is null or z.suspended or z.company_suspended) order by r.id`,
    [catalogId],
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
 * Where a look for changed zones begins next, and whether anything changed since the last one.
 * @param sinceXid what the last look gave; null for the first
 */
export async function lookForZoneChanges(
  db: Db,
  sinceXid: string | null,
): Promise<{ readonly sinceXid: string; readonly changed: boolean }> {
  const [row] = await queryRows<{ xmin: string; changed: boolean }>(
    db,
    `select pg_snapshot_xmin(pg_current_snapshot())::text as xmin,
            exists (select 1 from zones where changed_xid >= $1::xid8)
            or exists (select 1 from zone_journal where changed_xid >= $2::xid8)
            or exists (select 1 from zone_deletions where changed_xid >= $3::xid8) as changed`,
    [sinceXid ?? "0", sinceXid ?? "0", sinceXid ?? "0"],
    { name: "look-for-zone-changes" },
  );
  return { sinceXid: row!.xmin, changed: row!.changed };
}
