import { NO_USAGE } from "../../core/dns/quotas.ts";
import { type Db, isLockedLong, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";
import { type ChargedOwner, charge, QuotaExceeded } from "./quotas.ts";
import type { Growth } from "./zone-changes.ts";

/** A zone that is about to grow. */
export interface GrowingZone {
  readonly zoneId: number;
  readonly growth: Growth;
}

/**
 * Has zones hold what they are about to take, and a little more, as a change by itself does (quotas.ts): those of a company
 * in one transaction. Of a company that has not the room for all of them none does. Zones that somebody has locked are
 * passed over, and so are all of a company or reseller whose quotas somebody has locked for longer than a commit takes.
 * @param growing a zone may occur several times; its growths are added up
 * @returns the ids of zones that hold now what they did not before
 */
export async function holdGrowthTogether(db: Db, growing: readonly GrowingZone[]): Promise<ReadonlySet<number>> {
  const held = new Set<number>();
  const locked = new Set<string>();
  for (const owner of await ownersOf(db, growing)) {
    if (locked.has(owner.resellerId)) continue;
    try {
      const ids = await inTransaction(db, (transaction) => holdOfOwner(transaction, owner, growing));
      for (const id of ids) held.add(id);
    } catch (error) {
      if (isLockedLong(error)) locked.add(owner.resellerId);
      else if (!(error instanceof QuotaExceeded)) throw error;
    }
  }
  return held;
}

async function holdOfOwner(
  transaction: Transaction,
  owner: ChargedOwner,
  growing: readonly GrowingZone[],
): Promise<readonly number[]> {
  const needs = await lockNeeds(transaction, owner, growing);
  if (needs.length === 0) return [];
  const ids: number[] = [];
  const sums = { records: 0, octets: 0 };
  for (const { id, records, octets } of needs) {
    ids.push(id);
    sums.records += records;
    sums.octets += octets;
  }
  const reserve = await charge(transaction, owner, { ...NO_USAGE, ...sums }, { reserve: ids.length });
  await queryRows(
    transaction,
    `update zones set records_held = records_held + need.records, octets_held = octets_held + need.octets
       from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as need (id, records, octets) where zones.id = need.id`,
    [ids, needs.map(({ records }) => records + reserve.records), needs.map(({ octets }) => octets + reserve.octets)],
    { name: "hold-zones-usage" },
  );
  return ids;
}

/** A zone's records and octets beyond what it holds. */
interface Need {
  readonly id: number;
  readonly records: number;
  readonly octets: number;
}

/** Others wait behind these zones. */
const MOST_WAIT_MS = 20;

/** The commit need not wait for the disk: that of the change, which comes after it, does. */
function lockNeeds(
  transaction: Transaction,
  { companyId }: ChargedOwner,
  growing: readonly GrowingZone[],
): Promise<Need[]> {
  return queryRows<Need & { readonly set_config: string; readonly lock_timeout: string }>(
    transaction,
    `select z.id, greatest(0, z.records + g.records - z.records_held)::bigint as records,
            greatest(0, z.octets + g.octets - z.octets_held)::bigint as octets, set_config('synchronous_commit', 'off', true),
            set_config('lock_timeout', '${MOST_WAIT_MS}', true) as lock_timeout
       from (select id, sum(records) as records, sum(octets) as octets
               from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as each (id, records, octets) group by id) g
       join zones z on z.id = g.id
      where z.company_id = $4 and (z.records + g.records > z.records_held or z.octets + g.octets > z.octets_held)
        for no key update of z skip locked`,
    [...columnsOf(growing), companyId],
    { name: "lock-growing-zones" },
  );
}

function ownersOf(db: Db, growing: readonly GrowingZone[]): Promise<ChargedOwner[]> {
  return queryRows<ChargedOwner>(
    db,
    `select distinct reseller_id as "resellerId", company_id as "companyId" from zones
      where id = any($1::bigint[]) and company_id is not null order by company_id`,
    [growing.map(({ zoneId }) => zoneId)],
    { name: "owners-of-growing-zones" },
  );
}

function columnsOf(growing: readonly GrowingZone[]): readonly (readonly number[])[] {
  return [
    growing.map(({ zoneId }) => zoneId),
    growing.map(({ growth }) => growth.records),
    growing.map(({ growth }) => growth.octets),
  ];
}
