import { ancestorOf, type DomainName, nameSortKey } from "../../core/dns/name.ts";
import { isPublicSuffix } from "../../core/dns/public-suffix.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import {
  type AskedZone,
  areInOneHand,
  judgeName,
  judgeSuffix,
  type NameSurroundings,
  type PlacedZone,
  type RelatedZone,
  type ZoneMaker,
} from "../../core/dns/zone-tenancy.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { isZoneAllowed } from "../../store/dns/zone-allowances.ts";
import { zoneName } from "../../store/dns/zones.ts";

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
 * Whether a zone of this name may be made ({@link judgeName}); until the transaction ends no zone comes above or below.
 * @returns the warnings
 */
export async function claimName(
  transaction: Transaction,
  apex: DomainName,
  asked: AskedZone,
): Promise<Result<string[], Refusal>> {
  const isAllowed = asked.resellerId !== null && (await isZoneAllowed(transaction, apex, asked.resellerId));
  if (isPublicSuffix(apex)) {
    // Before any lock: a suffix is what many names wait for.
    const suffix = judgeSuffix(asked, isAllowed);
    if (!suffix.ok) return suffix;
  }
  await lockName(transaction, apex);
  return judgeName(asked, await surveyName(transaction, apex, asked, isAllowed));
}

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
     select ?::bigint, z.reseller_id, z.name from zones z
      where z.name_key > ? and z.name_key < ? and z.kind = 'primary' and z.reseller_id is distinct from ?
        and not exists (
          select 1 from zone_permissions p
           where p.reseller_id = z.reseller_id and right(p.name, ?) = ?
             and (p.name = z.name or right(z.name, octet_length(p.name) + 1) = '.' || p.name))`,
    [zoneId, first, end, resellerId, suffix.length, suffix],
    { name: "note-predecessors" },
  );
}

/** Whether what follows from one zone may be written into another one ({@link areInOneHand}). */
export async function zonesAreInOneHand(db: Db, ids: readonly [number, number]): Promise<boolean> {
  if (ids[0] === ids[1]) return true;
  const [one, other] = await queryRows<PlacedRow>(
    db,
    "select id, reseller_id, company_id, made_by from zones where id = any(?::bigint[])",
    [ids],
  );
  return one !== undefined && other !== undefined && areInOneHand(placedZone(one), placedZone(other));
}

/** What {@link placedZone} reads. */
export interface PlacedRow {
  readonly id: number;
  readonly reseller_id: string | null;
  readonly company_id: number | null;
  readonly made_by: ZoneMaker | null;
}

export function placedZone({ id, reseller_id, company_id, made_by }: PlacedRow): PlacedZone {
  return { id, resellerId: reseller_id, companyId: company_id, madeBy: made_by };
}

/** The names of all zones that could lie above one, the closest first. */
export function namesAbove(apex: DomainName): string[] {
  return Array.from({ length: apex.labelCount - 1 }, (_, labels) =>
    zoneName(ancestorOf(apex, apex.labelCount - 1 - labels)),
  );
}

/**
 * Has one of two transactions wait that want names one of which lies above the other, and no others: each takes its own
 * name for itself and shares those above, from the root down, so that none waits in a circle.
 */
async function lockName(transaction: Transaction, apex: DomainName): Promise<void> {
  const labels = Math.min(apex.labelCount, MOST_LOCKED_LABELS);
  const names = Array.from({ length: labels }, (_, above) => zoneName(ancestorOf(apex, above + 1)));
  const shared = names.slice(0, -1);
  await queryRows(
    transaction,
    "select pg_advisory_xact_lock_shared(hashtextextended('zone ' || name, 0)) from unnest(?::text[]) as above (name)",
    [shared],
  );
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('zone ' || ?, 0))", [names.at(-1)]);
}

async function surveyName(
  transaction: Transaction,
  apex: DomainName,
  { resellerId, companyId }: AskedZone,
  isAllowed: boolean,
): Promise<NameSurroundings> {
  const above = namesAbove(apex);
  const zonesAbove = await queryRows<RelatedRow & { readonly is_behind: boolean }>(
    transaction,
    `select ${RELATED_COLUMNS}, exists (
              select 1 from zone_predecessors p
               where p.zone_id = z.id and p.reseller_id = ? and p.name = any(?::text[])) as is_behind
       from zones z left join companies c on c.id = z.company_id
      where z.name = any(?::text[]) order by octet_length(z.apex) desc`,
    [resellerId, [zoneName(apex), ...above], above],
  );
  const below = await queryRows<RelatedRow>(
    transaction,
    `select ${RELATED_COLUMNS} from zones z left join companies c on c.id = z.company_id
      where z.name_key > ? and z.name_key < ? and z.kind = 'primary' and z.company_id is distinct from ?
      order by z.name_key limit ?`,
    [...keysBelow(apex), companyId, MOST_WARNED + 1],
  );
  const [closest] = zonesAbove;
  return {
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
  const above = Array.from({ length: name.labelCount }, (_, labels) => nameSortKey(ancestorOf(name, labels).wire)).map(
    (key) => Buffer.from(key),
  );
  const wildcards = above.map((key) => Buffer.concat([key, WILDCARD_KEY]));
  const [row] = await queryRows<{ holds: boolean }>(
    transaction,
    `select (exists (select 1 from records where zone_id = ? and owner_key >= ? and owner_key < ?)
             or exists (select 1 from records where zone_id = ? and owner_key = any(?::bytea[]))
             or exists (select 1 from records where zone_id = ? and owner_key = any(?::bytea[]) and type = ?))
            and not exists (select 1 from records where zone_id = ? and owner_key = ? and type = ?) as holds`,
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
