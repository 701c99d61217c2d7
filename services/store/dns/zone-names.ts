import {
  ancestorOf,
  type DomainName,
  nameFromStoredWire,
  nameSortKey,
  ROOT,
  withAncestors,
} from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { AuditedZone } from "../../core/dns/zone-audit.ts";
import type {
  AskedZone,
  NameSurroundings,
  PlacedZone,
  RelatedZone,
  ZoneHolder,
  ZoneMaker,
} from "../../core/dns/zone-tenancy.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../platform/postgres/db.ts";
import { isInScope, ZONE_COLUMNS, type Zone, type ZoneRow, type ZoneScope, zoneName, zoneOf } from "./zones.ts";

/** So many zones below a new one are warned of by name. */
const MOST_WARNED = 20;

/** What the sort key of a wildcard has more than that of the name that it stands below. */
const WILDCARD_KEY = Buffer.from("*\0");

/**
 * Names of more labels are locked as their ancestor of so many is: locks are few, and of two names one of which lies
 * below the other both still want one of them.
 */
const MOST_LOCKED_LABELS = 10;

/**
 * Notes which zones other resellers have below a new one: it will not stand in the way of these names, nor of those
 * below them. What the operator let them have there does not count, nor what lies below that.
 */
export async function notePredecessors(
  transaction: Transaction,
  {
    zoneId,
    apex,
    resellerId,
  }: { readonly zoneId: number; readonly apex: DomainName; readonly resellerId: string | null },
): Promise<void> {
  const [first, end] = keysBelow(apex);
  const suffix = `.${zoneName(apex)}`;
  await queryRows(
    transaction,
    `insert into zone_predecessors (zone_id, reseller_id, name)
     select $1::bigint, z.reseller_id, z.name from zones z
      where z.name_key > $2 and z.name_key < $3 and z.kind = 'primary' and z.reseller_id is distinct from $4
        and not exists (
          select 1 from zone_permissions p
           where p.reseller_id = z.reseller_id and right(p.name, $5) = $6
             and (p.name = z.name or right(z.name, octet_length(p.name) + 1) = '.' || p.name))`,
    [zoneId, first, end, resellerId, suffix.length, suffix],
    { name: "note-predecessors" },
  );
}

/** What {@link placedZone} reads. */
interface PlacedRow {
  readonly id: number;
  readonly reseller_id: string | null;
  readonly company_id: number | null;
  readonly made_by: ZoneMaker | null;
}

function placedZone({ id, reseller_id, company_id, made_by }: PlacedRow): PlacedZone {
  return { id, resellerId: reseller_id, companyId: company_id, madeBy: made_by };
}

/**
 * Has one of two transactions wait that want names one of which lies above the other, and no others: each takes its own
 * name for itself and shares those above, from the root down, so that none waits in a circle.
 */
export async function lockName(transaction: Transaction, apex: DomainName): Promise<void> {
  const labels = Math.min(apex.labelCount, MOST_LOCKED_LABELS);
  const names = Array.from({ length: labels }, (_, above) => zoneName(ancestorOf(apex, above + 1)));
  const shared = names.slice(0, -1);
  await queryRows(
    transaction,
    "select pg_advisory_xact_lock_shared(hashtextextended('zone ' || name, 0)) from unnest($1::text[]) as above (name)",
    [shared],
  );
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('zone ' || $1, 0))", [names.at(-1)]);
}

/** A customer's zone that is hosted here, and whose it is. */
export interface HostedZone extends ZoneHolder {
  readonly id: number;
  readonly apex: DomainName;
  /** Whether it is signed here. */
  readonly signed: boolean;
}

/**
 * What lies above and below a name, as {@link judgeName} judges it.
 * @param isAllowed whether the operator allowed it
 * @returns also the closest zone above, where it is a customer's
 */
export async function surveyName(
  transaction: Transaction,
  apex: DomainName,
  { resellerId, companyId }: AskedZone,
  isAllowed: boolean,
): Promise<NameSurroundings & { readonly closest: HostedZone | undefined }> {
  const names = withAncestors(apex).map(zoneName);
  const zonesAbove = await queryRows<RelatedRow & HostedRow & { readonly is_behind: boolean; readonly kind: string }>(
    transaction,
    `select ${RELATED_COLUMNS}, z.apex, z.signed, z.kind, exists (
              select 1 from zone_predecessors p
               where p.zone_id = z.id and p.reseller_id = $1 and p.name = any($2::text[])) as is_behind
       from zones z left join companies c on c.id = z.company_id
      where z.name = any($3::text[]) order by octet_length(z.apex) desc`,
    [resellerId, names, names.slice(1)],
  );
  const below = await queryRows<RelatedRow>(
    transaction,
    `select ${RELATED_COLUMNS} from zones z left join companies c on c.id = z.company_id
      where z.name_key > $1 and z.name_key < $2 and z.kind = 'primary' and z.company_id is distinct from $3
      order by z.name_key limit $4`,
    [...keysBelow(apex), companyId, MOST_WARNED + 1],
  );
  const [closest] = zonesAbove;
  return {
    closest: closest?.kind === "primary" ? hostedZone(closest) : undefined,
    above: zonesAbove.map(relatedZone),
    below: below.slice(0, MOST_WARNED).map(relatedZone),
    isCut: below.length > MOST_WARNED,
    isAllowed,
    wasFirst: closest?.is_behind === true && !(await answersFor(transaction, closest.id, apex)),
  };
}

/**
 * Whether a zone answers for a name other than by delegating it: it holds something there or below, or a wildcard or a
 * DNAME above. A wildcard counts also where another name above stands in its way (RFC 4592 §3.3.1).
 */
async function answersFor(transaction: Transaction, zoneId: number, name: DomainName): Promise<boolean> {
  const [first, end] = keysBelow(name);
  const above = [...withAncestors(name).slice(1), ROOT].map(({ wire }) => Buffer.from(nameSortKey(wire)));
  const wildcards = above.map((key) => Buffer.concat([key, WILDCARD_KEY]));
  const [row] = await queryRows<{ holds: boolean }>(
    transaction,
    `select (exists (select 1 from records where zone_id = $1 and owner_key >= $2 and owner_key < $3)
             or exists (select 1 from records where zone_id = $4 and owner_key = any($5::bytea[]))
             or exists (select 1 from records where zone_id = $6 and owner_key = any($7::bytea[]) and type = $8))
            and not exists (select 1 from records where zone_id = $9 and owner_key = $10 and type = $11) as holds`,
    [zoneId, first, end, zoneId, wildcards, zoneId, above, TYPE.DNAME, zoneId, first, TYPE.NS],
  );
  return row!.holds;
}

/** The sort key of a name, and the first one after those of all names below it: the last octet of a key is a 0. */
function keysBelow(name: DomainName): [first: Uint8Array, end: Uint8Array] {
  const first = nameSortKey(name.wire);
  const end = Uint8Array.from(first);
  end[end.length - 1] = 1;
  return [first, end];
}

const RELATED_COLUMNS = "z.id, z.name, z.reseller_id, z.company_id, c.crm_id";

interface RelatedRow {
  readonly id: number;
  readonly name: string;
  readonly reseller_id: string | null;
  readonly company_id: number | null;
  readonly crm_id: string | null;
}

function relatedZone({ name, reseller_id, company_id, crm_id }: RelatedRow): RelatedZone {
  return { domain: name, resellerId: reseller_id, companyId: company_id, crmId: crm_id };
}

interface HostedRow {
  readonly id: number;
  readonly apex: Buffer;
  readonly signed: boolean;
  readonly reseller_id: string | null;
  readonly company_id: number | null;
}

function hostedZone({ id, apex, signed, reseller_id, company_id }: HostedRow): HostedZone {
  return { id, apex: nameFromStoredWire(apex), signed, resellerId: reseller_id, companyId: company_id };
}

/** The first customers' zones below a name, in canonical order, `limit` at most. */
export async function listZonesBelow(db: Db, name: DomainName, limit: number): Promise<HostedZone[]> {
  const rows = await queryRows<HostedRow>(
    db,
    `select id, apex, signed, reseller_id, company_id from zones
      where name_key > $1 and name_key < $2 and kind = 'primary' order by name_key limit $3`,
    [...keysBelow(name), limit],
  );
  return rows.map(hostedZone);
}

/** Whose zones are, and who made them. */
export async function readPlaces(db: Db, ids: readonly number[]): Promise<PlacedZone[]> {
  const rows = await queryRows<PlacedRow>(
    db,
    "select id, reseller_id, company_id, made_by from zones where id = any($1::bigint[])",
    [ids],
  );
  return rows.map(placedZone);
}

/** A zone, and the closest one above it. */
export interface ZonePair {
  readonly place: PlacedZone;
  readonly above: PlacedZone & { readonly kind: string; readonly zone: Zone; readonly isServed: boolean };
}

/** The zone of this name with the closest zone above it, when both are hosted here. */
export async function findWithParent(db: Db, apex: DomainName): Promise<ZonePair | undefined> {
  const [zone, closest] = await queryRows<ZoneRow & PlacedRow & { readonly kind: string; readonly is_served: boolean }>(
    db,
    `select ${ZONE_COLUMNS}, z.reseller_id, z.company_id, z.made_by, z.kind,
            not z.suspended and not z.company_suspended as is_served
       from zones z left join companies c on c.id = z.company_id
      where z.name = any($1::text[]) order by octet_length(z.apex) desc limit 2`,
    [withAncestors(apex).map(zoneName)],
  );
  if (zone?.name !== zoneName(apex) || !closest) return undefined;
  const { kind, is_served: isServed } = closest;
  return { place: placedZone(zone), above: { ...placedZone(closest), kind, zone: zoneOf(closest), isServed } };
}

/** The zone that a name lies in, the longest of those that the scope has; no feed and no catalog. */
export async function findZoneOf(db: Db, scope: ZoneScope, name: DomainName): Promise<Zone | undefined> {
  const values = new StatementValues();
  const [row] = await queryRows<ZoneRow>(
    db,
    `select ${ZONE_COLUMNS} from zones z join companies c on c.id = z.company_id
      where z.name = any(${values.add(withAncestors(name).map(zoneName))}::text[]) and ${isInScope(scope, values)}
      order by octet_length(z.apex) desc limit 1`,
    values.all,
  );
  return row && zoneOf(row);
}

/** The closest zone at or above a name. */
export interface EnclosingZone {
  readonly id: number;
  readonly apex: DomainName;
  readonly companyId: number | null;
  /** Not served: by its own flag, or by its company's. */
  readonly suspended: boolean;
  /** Seconds for which it holds that something is not there. */
  readonly negativeTtl: number;
}

export async function findEnclosingZone(db: Db, name: DomainName): Promise<EnclosingZone | undefined> {
  const [row] = await queryRows<{
    id: number;
    apex: Buffer;
    company_id: number | null;
    suspended: boolean;
    negative_ttl: number;
  }>(
    db,
    `select id, apex, company_id, suspended or company_suspended as suspended, least(minimum, ttl) as negative_ttl
       from zones where name = any($1::text[]) order by octet_length(apex) desc limit 1`,
    [withAncestors(name).map(zoneName)],
  );
  if (!row) return undefined;
  const { id, apex, company_id: companyId, suspended, negative_ttl: negativeTtl } = row;
  return { id, apex: nameFromStoredWire(apex), companyId, suspended, negativeTtl };
}

/** A zone, and whom to ask about it. */
export interface AccountedZone extends AuditedZone {
  readonly domain: string;
  readonly crmId: string;
  readonly createdAt: Date;
}

interface AuditRow extends PlacedRow {
  readonly name: string;
  readonly name_key: Buffer;
  readonly apex: Buffer;
  readonly crm_id: string;
  readonly created_at: Date;
  readonly is_allowed: boolean;
  readonly predecessors: readonly string[] | null;
}

/** Customers' zones in canonical order, `limit` of them behind a sort key. @returns them, and where to go on from */
export async function readAuditPage(
  snapshot: Db,
  after: Buffer,
  limit: number,
): Promise<{ zones: AccountedZone[]; next: Buffer | undefined }> {
  const rows = await queryRows<AuditRow>(
    snapshot,
    `select z.id, z.name, z.name_key, z.apex, z.reseller_id, z.company_id, c.crm_id, z.made_by, z.created_at,
            allowed.name is not null as is_allowed, first.names as predecessors
       from (select * from zones where kind = 'primary' and name_key > $1 order by name_key limit $2) z
       join companies c on c.id = z.company_id
       left join zone_permissions allowed on allowed.name = z.name and allowed.reseller_id = z.reseller_id
       left join (select zone_id, array_agg(reseller_id || ' ' || name || '.') as names
                    from zone_predecessors group by zone_id) first
              on first.zone_id = z.id
      order by z.name_key`,
    [after, limit],
  );
  return { zones: rows.map(accountedZone), next: rows.length < limit ? undefined : rows.at(-1)!.name_key };
}

function accountedZone(row: AuditRow): AccountedZone {
  return {
    ...placedZone(row),
    apex: nameFromStoredWire(row.apex),
    isAllowed: row.is_allowed,
    predecessors: new Set(row.predecessors),
    domain: row.name,
    crmId: row.crm_id,
    createdAt: row.created_at,
  };
}

/** Who made zones, by their id, as far as the history reaches back. */
export async function readMakers(db: Db, zoneIds: readonly number[]): Promise<ReadonlyMap<number, string>> {
  if (zoneIds.length === 0) return new Map();
  const rows = await queryRows<{ zone_id: number; actor: string }>(
    db,
    "select zone_id, actor from zone_journal where zone_id = any($1::bigint[]) and version = 1 and serial_before is null",
    [zoneIds],
  );
  return new Map(rows.map(({ zone_id, actor }) => [zone_id, actor]));
}
