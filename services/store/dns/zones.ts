import { type DomainName, formatDomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import type { SerialType } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Binding, type Db, queryRows, StatementValues, type Transaction } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";

/** A zone without its records. */
export interface Zone {
  readonly id: number;
  /** Text form: A-labels, lower case, without the final dot. */
  readonly name: string;
  readonly apex: DomainName;
  /** The company it belongs to; empty for the operator's feeds and for catalogs. */
  readonly crmId: string;
  readonly suspended: boolean;
  readonly serialType: SerialType;
  readonly soa: SoaRdata;
  /** TTL of the SOA, and of records that are given none; seconds. */
  readonly ttl: number;
  /** Counts every change of the zone, suspensions included. */
  readonly version: number;
  /** Whether its data is signed here (RFC 4033). */
  readonly signed: boolean;
  /** Whether names of it follow others: their addresses are derived. */
  readonly hasFollowers: boolean;
}

/** Whose zones a caller sees: a reseller's, those of one of its companies, or those of all companies. */
export interface ZoneScope {
  readonly resellerId?: string;
  readonly companyId?: number;
}

/**
 * Whether a zone `z` is one of a scope. It names a column that an index begins with, so that others' zones are not passed
 * over one by one, as with `coalesce`.
 */
export function isInScope({ resellerId, companyId }: ZoneScope, values: StatementValues): string {
  if (companyId !== undefined) return `z.company_id = ${values.add(companyId)}`;
  return resellerId === undefined ? "true" : `z.reseller_id = ${values.add(resellerId)}`;
}

/** What a statement with {@link isInScope} has in the name under which it is prepared: its text depends on it. */
export function shapeOfScope({ resellerId, companyId }: ZoneScope): string {
  if (companyId !== undefined) return "company";
  return resellerId === undefined ? "all" : "reseller";
}

/** One line of the domain list. */
export interface ListedZone {
  readonly name: string;
  readonly crmId: string;
  readonly reverse: boolean;
}

/** A place in the domain list, to go on from. */
export type ListPosition = Buffer | undefined;

/** The name under which a zone is stored and shown: lower case, without the final dot. */
export function zoneName(apex: DomainName): string {
  return formatDomainName(apex).toLowerCase().slice(0, -1);
}

/** What is said of a zone that is not there, and of one that the caller may not see: the same. */
export function zoneDoesNotExist(domain: string): Refusal {
  return unacceptable("zone-unknown", { domain });
}

/** What is said of a company that is not the zone's. */
export function doesNotOwn(crmId: string, domain: string): Refusal {
  return unacceptable("zone-of-another-company", { company: crmId, domain });
}

/** The columns that {@link zoneOf} reads; for a query of `zones z` joined with `companies c`. */
export const ZONE_COLUMNS = `z.id, z.name, z.apex, c.crm_id, z.suspended, z.serial_type, z.serial, z.mname, z.rname,
  z.refresh, z.retry, z.expire, z.minimum, z.ttl, z.version, z.signed,
  exists (select from followers f where f.zone_id = z.id) as has_followers`;

/** What the columns of a zone tell of its SOA. */
export interface SoaRow {
  readonly serial: number;
  readonly mname: Buffer;
  readonly rname: Buffer;
  readonly refresh: number;
  readonly retry: number;
  readonly expire: number;
  readonly minimum: number;
}

export interface ZoneRow extends SoaRow {
  readonly id: number;
  readonly name: string;
  readonly apex: Buffer;
  readonly crm_id: string | null;
  readonly suspended: boolean;
  readonly serial_type: SerialType;
  readonly ttl: number;
  readonly version: number;
  readonly signed: boolean;
  readonly has_followers: boolean;
}

export function soaOf({ serial, mname, rname, refresh, retry, expire, minimum }: SoaRow): SoaRdata {
  return {
    mname: nameFromStoredWire(mname),
    rname: nameFromStoredWire(rname),
    serial,
    refresh,
    retry,
    expire,
    minimum,
  };
}

export function zoneOf(row: ZoneRow): Zone {
  return {
    id: row.id,
    name: row.name,
    apex: nameFromStoredWire(row.apex),
    crmId: row.crm_id ?? "",
    suspended: row.suspended,
    serialType: row.serial_type,
    soa: soaOf(row),
    ttl: row.ttl,
    version: row.version,
    signed: row.signed,
    hasFollowers: row.has_followers,
  };
}

/** The zone of this name, when the scope has it; never a feed or a catalog, which have no company. */
export async function findZone(db: Db, scope: ZoneScope, apex: DomainName): Promise<Zone | undefined> {
  const values = new StatementValues(zoneName(apex));
  const [row] = await queryRows<ZoneRow>(
    db,
    `select ${ZONE_COLUMNS} from zones z join companies c on c.id = z.company_id
      where z.name = $1 and ${isInScope(scope, values)}`,
    values.all,
    { name: `find-zone ${shapeOfScope(scope)}` },
  );
  return row && zoneOf(row);
}

/** The zone of this name of whatever kind, feeds and catalogs included: for the operator alone. */
export async function findAnyZone(db: Db, apex: DomainName): Promise<Zone | undefined> {
  const [row] = await queryRows<ZoneRow>(
    db,
    `select ${ZONE_COLUMNS} from zones z left join companies c on c.id = z.company_id where z.name = $1`,
    [zoneName(apex)],
  );
  return row && zoneOf(row);
}

/**
 * The scope's zones that are published, in canonical order (RFC 4034 §6.1), up to `limit` of them after a position.
 * @returns the zones, and the position to go on from; undefined after the last
 */
export async function listPublishedZones(
  db: Db,
  scope: { readonly resellerId: string; readonly companyId?: number },
  limit: number,
  after: ListPosition,
): Promise<{ zones: ListedZone[]; next: ListPosition }> {
  const mine = scope.companyId === undefined ? "z.reseller_id = $1" : "z.company_id = $1";
  const rows = await queryRows<[name: string, crmId: string, nameKey: Buffer]>(
    db,
    `select z.name, c.crm_id, z.name_key from zones z join companies c on c.id = z.company_id
      where ${mine} and not z.suspended and not z.company_suspended and z.name_key > $2
      order by z.name_key limit $3`,
    [scope.companyId ?? scope.resellerId, after ?? Buffer.alloc(0), limit],
    { rowMode: "array" },
  );
  const zones = rows.map(([name, crmId, nameKey]) => ({ name, crmId, reverse: isReverseKey(nameKey) }));
  return { zones, next: rows.length < limit ? undefined : rows.at(-1)?.[2] };
}

/** Sets the zone's own flag; one that has the value already stays as it is. */
export async function setZoneSuspended(
  db: Db,
  which: { readonly scope: ZoneScope; readonly apex: DomainName; readonly domain: string; readonly crmId: string },
  suspended: boolean,
): Promise<Result<{ readonly zone: Zone; readonly changed: boolean }, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const zone = await findZone(transaction, which.scope, which.apex);
    if (zone === undefined) return refuse(zoneDoesNotExist(which.domain));
    if (zone.crmId !== which.crmId.toLowerCase()) return refuse(doesNotOwn(which.crmId, which.domain));
    const changed = await transaction("zones")
      .where({ id: zone.id })
      .whereNot({ suspended })
      .update({ suspended, version: db.raw("version + 1"), changed_xid: db.raw("pg_current_xact_id()") });
    return ok({ zone: { ...zone, suspended }, changed: changed > 0 });
  });
}

/**
 * Locks zones, for whoever needs several of them or changes a row more than once: first their companies, which a second
 * change of a row looks up once more, then each zone before those above it. In one order, none waits in a circle.
 */
export async function lockZones(
  transaction: Transaction,
  condition: string,
  bindings: readonly Binding[],
): Promise<void> {
  const companies = `select company_id from zones where ${condition}`;
  await queryRows(
    transaction,
    `select 1 from companies where id in (${companies}) order by id for key share`,
    bindings,
  );
  await queryRows(transaction, `select 1 from zones where ${condition} order by name_key desc for update`, bindings);
}

/** Zones by a condition on their columns, and whether they are signed. */
export async function listZonesWhere(
  db: Db,
  condition: string,
  bindings: readonly Binding[],
): Promise<{ readonly id: number; readonly apex: DomainName; readonly signed: boolean }[]> {
  const rows = await queryRows<{ id: number; apex: Buffer; signed: boolean }>(
    db,
    `select id, apex, signed from zones where ${condition}`,
    bindings,
  );
  return rows.map((row) => ({ ...row, apex: nameFromStoredWire(row.apex) }));
}

/** Deletes zones and notes for the readers what they must forget. */
export async function deleteZonesWhere(db: Db, condition: string, bindings: readonly Binding[]): Promise<number[]> {
  const gone = await queryRows<{ zone_id: number }>(
    db,
    `with gone as (delete from zones where ${condition} returning id, apex, serial)
     insert into zone_deletions (zone_id, apex, serial) select id, apex, serial from gone returning zone_id`,
    bindings,
  );
  return gone.map((row) => row.zone_id);
}

/** How the sort keys of names below in-addr.arpa and ip6.arpa begin. */
const REVERSE_PREFIXES = ["arpa\0in-addr\0", "arpa\0ip6\0"].map((prefix) => Buffer.from(prefix, "latin1"));

function isReverseKey(nameKey: Buffer): boolean {
  return REVERSE_PREFIXES.some((prefix) => nameKey.subarray(0, prefix.length).equals(prefix));
}
