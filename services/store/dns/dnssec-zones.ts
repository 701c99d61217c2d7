import { type DomainName, nameFromStoredWire, parseDomainName } from "../../core/dns/name.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";

const LOCK_KEY = "palomar dnssec upkeep";

/**
 * Keeps all others in the deployment from the upkeep of signed zones until the transaction ends.
 * @returns false when somebody has the lock
 */
export async function takeUpkeepLock(transaction: Transaction): Promise<boolean> {
  const [row] = await queryRows<{ locked: boolean }>(
    transaction,
    "select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as locked",
    [LOCK_KEY],
  );
  return row!.locked;
}

/**
 * The signed zones that somebody has to look at, the longest overdue first.
 * @param limit so many at most
 * @param except ids of zones that are left out
 */
export async function listDueZones(
  db: Db,
  now: Date,
  { limit, except }: { readonly limit: number; readonly except: readonly number[] },
): Promise<{ readonly id: number; readonly apex: DomainName; readonly companyId: number | null }[]> {
  const rows = await queryRows<NamedZoneRow & { id: number; company_id: number | null }>(
    db,
    `select z.id, z.name, z.apex, z.company_id from zone_signing s join zones z on z.id = s.zone_id
      where s.due_at <= $1 and s.zone_id <> all($3::bigint[]) order by s.due_at limit $2`,
    [now, limit, except],
    { name: "list-due-zones" },
  );
  return rows.map((row) => ({ id: row.id, apex: apexOf(row), companyId: row.company_id }));
}

/** Notes when somebody has to look at a signed zone next. */
export async function writeDue(db: Db, zoneId: number, dueAt: Date): Promise<void> {
  await queryRows(db, "update zone_signing set due_at = $1 where zone_id = $2", [dueAt, zoneId]);
}

/** Notes that a zone's parent was asked, and nothing learnt. */
export async function writeParentChecked(db: Db, zoneId: number, now: Date): Promise<void> {
  await queryRows(db, "update zone_signing set parent_checked_at = $1 where zone_id = $2", [now, zoneId]);
}

/** Notes whether a zone's data is signed here. */
export async function writeSigned(transaction: Transaction, zoneId: number, signed: boolean): Promise<void> {
  await queryRows(transaction, "update zones set signed = $1 where id = $2", [signed, zoneId]);
}

/** How long caches may keep what a zone has and had: the largest TTL of its records, and until when they have what is gone. */
export async function readCaching(
  db: Db,
  zoneId: number,
): Promise<{ readonly largestTtlSeconds: number | null; readonly until: Date | null } | undefined> {
  const [row] = await queryRows<{ largest: number | null; cached_until: Date | null }>(
    db,
    "select (select max(ttl) from records where zone_id = zones.id) as largest, cached_until from zones where id = $1",
    [zoneId],
  );
  return row && { largestTtlSeconds: row.largest, until: row.cached_until };
}

/**
 * The signed zones that were not compared with what they should be since a time, those first that never were.
 * @param limit so many at most
 */
export async function listUncheckedZones(
  db: Db,
  since: Date,
  limit: number,
): Promise<{ readonly id: number; readonly apex: DomainName }[]> {
  const rows = await queryRows<NamedZoneRow & { id: number }>(
    db,
    `select z.id, z.name, z.apex
       from (select zone_id, checked_at from zone_signing
              where checked_at is null or checked_at < $1 order by checked_at nulls first, zone_id limit $2) s
       join zones z on z.id = s.zone_id order by s.checked_at nulls first, s.zone_id`,
    [since, limit],
    { name: "list-unchecked-zones" },
  );
  return rows.map((row) => ({ id: row.id, apex: apexOf(row) }));
}

/** Notes when zones were compared with what they should be. */
export async function noteChecked(db: Db, zoneIds: readonly number[], now: Date): Promise<void> {
  if (zoneIds.length === 0) return;
  await queryRows(db, "update zone_signing set checked_at = $1 where zone_id = any($2::bigint[])", [now, zoneIds]);
}

interface NamedZoneRow {
  readonly name: string;
  readonly apex: Buffer;
}

/** By its name, by which each zone is looked up: one whose apex is no name fails by itself, and no list of zones with it. */
function apexOf({ name, apex }: NamedZoneRow): DomainName {
  const parsed = parseDomainName(name === "" ? "." : name);
  return parsed.ok ? parsed.value : nameFromStoredWire(apex);
}
