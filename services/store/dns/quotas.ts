import {
  COUNTED_QUOTAS,
  findExceeded,
  limitsOf,
  NO_USAGE,
  type QuotaHolder,
  type QuotaLimits,
  type QuotaName,
  quotaExceeded,
  reserveOf,
  type Usage,
} from "../../core/dns/quotas.ts";
import type { ChangeBounds } from "../../core/dns/zone-file/size.ts";
import type { Refusal } from "../../core/refusal.ts";
import { type Result, refuse } from "../../core/result.ts";
import { type QuotaKind, quotaDefaults } from "../../platform/config/quotas.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";

/** Whose zones are counted. */
export interface ChargedOwner {
  readonly resellerId: string;
  readonly companyId: number;
}

/**
 * How a change is judged: `enforce` refuses what is too much; `count` never does, for what must not stop midway
 * (signing upkeep, DS of hosted parents) and what the operator has said may exceed; `look` refuses and charges nobody,
 * for what is not made (previews); `hold` refuses what there is no room for, but no change for being large: nobody asked for
 * it in one (aliases of one target).
 */
export type QuotaMode = "enforce" | "count" | "look" | "hold";

/** Carries a refusal out of the transaction that must not be. */
export class QuotaExceeded extends Error {
  readonly refusal: Refusal;
  /** Whose zones hold more than they take, so that there may be room after all. */
  readonly reserves: Partial<ChargedOwner> | undefined;

  constructor(refusal: Refusal, reserves?: Partial<ChargedOwner>) {
    super("a quota is exceeded");
    this.refusal = refusal;
    this.reserves = reserves;
  }
}

/**
 * Runs what charges: where a quota is exceeded, once more after zones have given back what they hold and do not take, and
 * then with a refusal. Inside a transaction it is for whoever began that to do so.
 */
export async function withinQuotas<T>(db: Db, run: () => Promise<Result<T, Refusal>>): Promise<Result<T, Refusal>> {
  if (db.isTransaction) return run();
  for (let hasReleased = false; ; hasReleased = true) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof QuotaExceeded)) throw error;
      if (hasReleased || !error.reserves) return refuse(error.refusal);
      await releaseReserves(db, error.reserves);
    }
  }
}

interface QuotaRow {
  readonly id: number;
  readonly company_id: number | null;
  readonly holder: string;
  readonly limits: QuotaLimits;
  readonly has_reserves: boolean;
  readonly zones: number;
  readonly signed_zones: number;
  readonly records: number;
  readonly octets: number;
}

/**
 * Charges a company and its reseller with what a change adds, or gives it back. Their rows are locked in one order, and
 * after all other rows of a transaction: so nobody waits in a circle, and for no longer than a commit takes.
 * @param options.reserve charges a little more for each of so many zones to hold, where there is room
 * @returns that little more, for each of them
 * @throws QuotaExceeded
 */
export async function charge(
  db: Db,
  owner: ChargedOwner,
  added: Usage,
  { mode = "enforce", reserve = 0 }: { readonly mode?: QuotaMode | undefined; readonly reserve?: number } = {},
): Promise<Reserve> {
  const rows = await readRows(db, owner, mode !== "look");
  for (const row of mode === "count" ? [] : rows) {
    const exceeded = findExceeded(limitsOfRow(row), row, added);
    if (exceeded) throw new QuotaExceeded(refusalOf(row, exceeded, added[exceeded]), reservesOf(rows, owner));
  }
  if (mode === "look") return NO_RESERVE;
  const reserved = reserve > 0 && mode !== "count" ? reserveFor(rows, added) : NO_RESERVE;
  await queryRows(
    db,
    `update quotas set zones = zones + $1, signed_zones = signed_zones + $2, records = records + $3, octets = octets + $4,
            has_reserves = has_reserves or $5
      where id = any($6::bigint[])`,
    [
      ...[
        added.zones,
        added.signed_zones,
        added.records + reserve * reserved.records,
        added.octets + reserve * reserved.octets,
      ],
      ...[reserved.records + reserved.octets > 0, rows.map(({ id }) => id)],
    ],
    { name: "charge-quotas" },
  );
  return reserved;
}

interface Reserve {
  readonly records: number;
  readonly octets: number;
}

const NO_RESERVE: Reserve = { records: 0, octets: 0 };

function reserveFor(rows: readonly QuotaRow[], added: Usage): Reserve {
  const of = (counted: "records" | "octets") =>
    rows.reduce((least, row) => {
      const free = (limitsOfRow(row)[counted] ?? Number.MAX_SAFE_INTEGER) - row[counted] - added[counted];
      return Math.min(least, reserveOf(counted, free, row.zones));
    }, Number.MAX_SAFE_INTEGER);
  return { records: of("records"), octets: of("octets") };
}

/**
 * Settles what a zone takes after a change whose row the transaction has written: what it takes beyond what it holds
 * is charged, with a little more to hold where there is room.
 * @param growth what is not in the zone's row yet
 * @throws QuotaExceeded
 */
export async function settleZone(
  db: Db,
  zoneId: number,
  mode: QuotaMode | undefined,
  growth?: Pick<Usage, "records" | "octets">,
): Promise<void> {
  const need = await readNeed(db, zoneId, growth);
  if (!need) return;
  const { owner, records, octets } = need;
  const reserve = await charge(db, owner, { ...NO_USAGE, records, octets }, { mode, reserve: 1 });
  await queryRows(
    db,
    "update zones set records_held = records_held + $1, octets_held = octets_held + $2 where id = $3",
    [records + reserve.records, octets + reserve.octets, zoneId],
    { name: "hold-zone-usage" },
  );
}

/**
 * Has a zone hold what it is about to take, for good: a change that takes long would keep the rows of the quotas from
 * everybody else of the reseller until its end. What then comes to nothing is given back when room is wanted.
 * @throws QuotaExceeded
 */
export function holdGrowth(
  db: Db,
  zoneId: number,
  mode: QuotaMode | undefined,
  growth: Pick<Usage, "records" | "octets">,
): Promise<void> {
  return inTransaction(db, async (transaction) => {
    await queryRows(transaction, "select 1 from zones where id = $1 for update", [zoneId]);
    await settleZone(transaction, zoneId, mode, growth);
  });
}

/**
 * Looks whether there is room for what a zone takes and is yet to take; charges nobody.
 * @param growth what is not in the zone's row yet
 * @throws QuotaExceeded
 */
export async function lookForRoom(
  db: Db,
  zoneId: number,
  growth: Pick<Usage, "records" | "octets"> = NO_USAGE,
): Promise<void> {
  const need = await readNeed(db, zoneId, growth);
  if (!need) return;
  const { owner, records, octets } = need;
  await charge(db, owner, { ...NO_USAGE, records, octets }, { mode: "look" });
}

/** What a zone takes beyond what it holds; undefined for nothing, and for zones of nobody. */
async function readNeed(
  db: Db,
  zoneId: number,
  growth: Pick<Usage, "records" | "octets"> = NO_USAGE,
): Promise<{ readonly owner: ChargedOwner; readonly records: number; readonly octets: number } | undefined> {
  const [zone] = await queryRows<ZoneUsageRow>(
    db,
    "select reseller_id, company_id, records, octets, records_held, octets_held from zones where id = $1",
    [zoneId],
    { name: "read-zone-usage" },
  );
  if (!zone || zone.company_id === null) return undefined;
  const records = Math.max(0, zone.records + growth.records - zone.records_held);
  const octets = Math.max(0, zone.octets + growth.octets - zone.octets_held);
  const owner = { resellerId: zone.reseller_id, companyId: zone.company_id };
  return records + octets > 0 ? { owner, records, octets } : undefined;
}

interface ZoneUsageRow {
  readonly reseller_id: string;
  readonly company_id: number | null;
  readonly records: number;
  readonly octets: number;
  readonly records_held: number;
  readonly octets_held: number;
}

/** Refuses a change that makes more records than one may; most make one, for which nobody has to be asked. */
export async function checkRecordsOfChange(db: Db, zoneId: number, records: number): Promise<Refusal | undefined> {
  if (records < 2) return undefined;
  const [zone] = await queryRows<{ reseller_id: string; company_id: number | null }>(
    db,
    "select reseller_id, company_id from zones where id = $1",
    [zoneId],
    { name: "read-zone-owner" },
  );
  if (!zone || zone.company_id === null) return undefined;
  return checkOneChange(db, { resellerId: zone.reseller_id, companyId: zone.company_id }, records);
}

/** As {@link checkRecordsOfChange}, of a zone that is to be made. */
export async function checkOneChange(db: Db, owner: ChargedOwner, records: number): Promise<Refusal | undefined> {
  const rows = await readRows(db, owner, false);
  const row = rows.find((one) => records > (limitsOfRow(one).records_per_change ?? Number.POSITIVE_INFINITY));
  return row && refusalOf(row, "records_per_change", records);
}

/** What a whole zone may come to, and what is said of one that comes to more. */
export interface Room extends ChangeBounds {
  /**
   * @param wanted how much there would be
   * @throws QuotaExceeded where zones may give back what they do not take
   */
  readonly refusalOf: (exceeded: keyof ChangeBounds, wanted: number) => Refusal;
}

/**
 * The room for a zone as a whole, as it is at this moment: nothing is locked or charged.
 * @param zone the zone that it takes the place of; what that takes comes free
 */
export async function readRoom(
  db: Db,
  owner: ChargedOwner,
  zone: { readonly octets: number } = { octets: 0 },
): Promise<Room> {
  const rows = await readRows(db, owner, false);
  const octetsOf = (row: QuotaRow) => (limitsOfRow(row).octets ?? Number.POSITIVE_INFINITY) - row.octets + zone.octets;
  const recordsOf = (row: QuotaRow) => limitsOfRow(row).records_per_change ?? Number.POSITIVE_INFINITY;
  const least = (of: (row: QuotaRow) => number) => rows.reduce((a, b) => (of(b) < of(a) ? b : a));
  return {
    octets: octetsOf(least(octetsOf)),
    records: recordsOf(least(recordsOf)),
    refusalOf: (exceeded, wanted) => {
      if (exceeded === "records") return refusalOf(least(recordsOf), "records_per_change", wanted);
      const refusal = refusalOf(least(octetsOf), "octets", Math.ceil(wanted - zone.octets));
      const reserves = reservesOf(rows, owner);
      if (reserves) throw new QuotaExceeded(refusal, reserves);
      return refusal;
    },
  };
}

/** Both rows, the company's first. Rows that are locked are made when they are not there yet; before that nothing is used. */
async function readRows(db: Db, owner: ChargedOwner, locked: boolean): Promise<readonly QuotaRow[]> {
  const read = () =>
    queryRows<QuotaRow>(db, locked ? LOCK_ROWS : READ_ROWS, [owner.companyId, owner.resellerId], {
      name: locked ? "lock-quotas" : "read-quotas",
    });
  const rows = await read();
  if (rows.length === 2 || !locked) return rows;
  await makeRows(db, owner);
  return read();
}

const LOCK_ROWS = `
  select q.id, q.company_id, q.limits, q.has_reserves, q.zones, q.signed_zones, q.records, q.octets,
         coalesce((select crm_id from companies where id = q.company_id), q.reseller_id) as holder
    from quotas q where q.company_id = $1 or q.company_id is null and q.reseller_id = $2
   order by q.company_id nulls last for no key update`;

const READ_ROWS = `
  select q.id, h.company_id, h.holder, coalesce(q.limits, '{}') as limits, coalesce(q.has_reserves, false) as has_reserves,
         coalesce(q.zones, 0) as zones, coalesce(q.signed_zones, 0) as signed_zones,
         coalesce(q.records, 0) as records, coalesce(q.octets, 0) as octets
    from (select id as company_id, reseller_id, crm_id as holder from companies where id = $1
          union all select null, id, id from resellers where id = $2) as h
    left join quotas q on q.company_id = h.company_id
                       or q.company_id is null and h.company_id is null and q.reseller_id = h.reseller_id
   order by h.company_id nulls last`;

async function makeRows(db: Db, { resellerId, companyId }: ChargedOwner): Promise<void> {
  await queryRows(
    db,
    `insert into quotas (reseller_id, company_id) values ($1, $2), ($3, null) on conflict do nothing`,
    [resellerId, companyId, resellerId],
  );
}

function kindOf({ company_id }: Pick<QuotaRow, "company_id">): QuotaKind {
  return company_id === null ? "reseller" : "company";
}

function limitsOfRow(row: Pick<QuotaRow, "company_id" | "limits">): QuotaLimits {
  return limitsOf(quotaDefaults[kindOf(row)], row.limits);
}

function refusalOf(row: QuotaRow, quota: QuotaName, wanted: number): Refusal {
  const holder: QuotaHolder = row.company_id === null ? { reseller: row.holder } : { company: row.holder };
  const used = COUNTED_QUOTAS.includes(quota as (typeof COUNTED_QUOTAS)[number]) ? row[quota as "zones"] : 0;
  return quotaExceeded(holder, quota, { allowed: limitsOfRow(row)[quota]!, used, wanted });
}

/** Whose reserves could make room. */
function reservesOf(rows: readonly QuotaRow[], owner: ChargedOwner): Partial<ChargedOwner> | undefined {
  const holding = rows.filter((row) => row.has_reserves);
  if (holding.length === 0) return undefined;
  return holding.some(({ company_id }) => company_id === null) ? { resellerId: owner.resellerId } : owner;
}

/**
 * Has zones give back what they hold and do not take. Zones that are being changed are passed over: nobody is waited for.
 * @param owner a company's zones, or all of a reseller's
 */
export function releaseReserves(db: Db, owner: Partial<ChargedOwner>): Promise<void> {
  const [column, value] =
    owner.companyId === undefined ? ["reseller_id", owner.resellerId] : ["company_id", owner.companyId];
  return inTransaction(db, async (transaction) => {
    const released = await queryRows<{ reseller_id: string; company_id: number; records: number; octets: number }>(
      transaction,
      `with holding as (
         select id, reseller_id, company_id, records_held - records as records, octets_held - octets as octets
           from zones z
          where ${column} = $1 and kind = 'primary' and (records_held > records or octets_held > octets)
            for update skip locked
       ), given as (
         update zones set records_held = zones.records, octets_held = zones.octets from holding where zones.id = holding.id
         returning holding.reseller_id, holding.company_id, holding.records, holding.octets
       )
       select reseller_id, company_id, sum(records)::bigint as records, sum(octets)::bigint as octets
         from given group by reseller_id, company_id order by company_id`,
      [value],
    );
    await giveBack(transaction, released);
    // A change under way that makes a zone take less has its note locked: then the note stays.
    const noted = await queryRows<{ id: number }>(
      transaction,
      `select id from quotas where ${column} = $1 and has_reserves for update skip locked`,
      [value],
    );
    await queryRows(
      transaction,
      `update quotas q set has_reserves = false
        where id = any($1::bigint[]) and not exists (
          select 1 from zones z where z.kind = 'primary' and z.reseller_id = q.reseller_id
             and z.company_id = coalesce(q.company_id, z.company_id)
             and (z.records_held > z.records or z.octets_held > z.octets))`,
      [noted.map(({ id }) => id)],
    );
  });
}

async function giveBack(
  transaction: Transaction,
  released: readonly { reseller_id: string; company_id: number; records: number; octets: number }[],
): Promise<void> {
  if (released.length === 0) return;
  await queryRows(
    transaction,
    "select 1 from quotas where company_id = any($1::bigint[]) or company_id is null and reseller_id = $2 " +
      "order by company_id nulls last for update",
    [released.map(({ company_id }) => company_id), released[0]!.reseller_id],
  );
  await queryRows(
    transaction,
    `update quotas q set records = q.records - given.records, octets = q.octets - given.octets
       from (select unnest($1::bigint[]) as company_id, unnest($2::bigint[]) as records, unnest($3::bigint[]) as octets
              union all select null, $4::bigint, $5::bigint) as given
      where q.company_id = given.company_id
         or q.company_id is null and given.company_id is null and q.reseller_id = $6`,
    [
      released.map(({ company_id }) => company_id),
      released.map(({ records }) => records),
      released.map(({ octets }) => octets),
      released.reduce((sum, { records }) => sum + records, 0),
      released.reduce((sum, { octets }) => sum + octets, 0),
      released[0]!.reseller_id,
    ],
  );
}
