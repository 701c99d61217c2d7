import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, MOST_WRITTEN_ROWS, queryRows, rowsTable, StatementValues } from "../../platform/postgres/db.ts";
import { recordOf } from "./records.ts";
import type { ZoneSize } from "./zone-usage.ts";
import {
  isInScope,
  shapeOfScope,
  ZONE_COLUMNS,
  type Zone,
  type ZoneRow,
  type ZoneScope,
  zoneName,
  zoneOf,
} from "./zones.ts";
import { LEFT_OUT_COUNTS, type LeftOutCounts, leftOutOf } from "./zones-left-out.ts";

/** A zone, and all records at some of its names. */
export interface ZoneExcerpt {
  readonly zone: Zone;
  /** On how many servers the zone does not fit. */
  readonly leftOut: LeftOutCounts;
  readonly records: readonly StoredRecord[];
}

/** What an excerpt is of: a zone, names, and the owners of the ids. */
export interface ExcerptAsk {
  readonly apex: DomainName;
  readonly scope: ZoneScope;
  readonly names: readonly DomainName[];
  readonly ids?: readonly number[];
}

/** Records that are read at once, and octets of the data of one of them: beyond, what is asked for is "large". */
const MOST_RECORDS = 4_096;
const MOST_RDATA_OCTETS = 2_048;
/** Of one ask among several; who asks for more keeps the others waiting. */
const MOST_RECORDS_TOGETHER = 256;

/** Reads the zone and, in the same snapshot, all records at the names and at the owners of the ids. */
export function readExcerpt(db: Db, ask: ExcerptAsk): Promise<ZoneExcerpt | "large" | undefined> {
  return readUpTo(db, ask, MOST_RECORDS);
}

/** The same, however much it is. */
export async function readLargeExcerpt(db: Db, ask: ExcerptAsk): Promise<ZoneExcerpt | undefined> {
  const excerpt = await readUpTo(db, ask, undefined);
  if (excerpt === "large") throw new Error("an excerpt without a bound is none too large");
  return excerpt;
}

async function readUpTo(
  db: Db,
  { apex, scope, names, ids = [] }: ExcerptAsk,
  most: number | undefined,
): Promise<ZoneExcerpt | "large" | undefined> {
  const values = new StatementValues();
  const zone = zoneOfName(apex, scope, values);
  const keys = namesTable(names, values);
  const wanted = ids.length > 0 ? idsTable(ids, values) : undefined;
  const sql = readExcerptSql(zone, foundSql(keys.sql, wanted?.sql), most);
  const rows = await queryRows<ExcerptRow>(db, sql, values.all, {
    name: `read-zone-excerpt ${shapeOfScope(scope)} ${keys.shape} ${wanted?.shape ?? 0} ${most ?? "all"}`,
  });
  return excerptOf(rows, most);
}

const namesTable = (names: readonly DomainName[], values: StatementValues) =>
  rowsTable(
    ["bytea"],
    names.map(({ wire }) => [nameSortKey(wire)]),
    values,
  );

const idsTable = (ids: readonly number[], values: StatementValues) =>
  rowsTable(
    ["bigint"],
    ids.map((id) => [id]),
    values,
  );

/** What an excerpt comes to. */
export async function measureExcerpt(db: Db, { apex, scope, names, ids = [] }: ExcerptAsk): Promise<ZoneSize> {
  const values = new StatementValues();
  const zone = zoneOfName(apex, scope, values);
  const found = foundSql(namesTable(names, values).sql, ids.length > 0 ? idsTable(ids, values).sql : undefined);
  const [row] = await queryRows<{ records: number; octets: number }>(
    db,
    `select count(*) as records, coalesce(sum(octet_length(r.rdata)), 0)::bigint as octets
       from ${zone} z cross join lateral (${found}) r`,
    values.all,
  );
  return { records: Number(row!.records), octets: Number(row!.octets) };
}

/**
 * Reads several excerpts, as {@link readExcerpt} does, by one statement.
 * @returns them in the order of the asks; "large" where there are more records than go together with others'
 */
export async function readExcerpts(
  db: Db,
  asks: readonly ExcerptAsk[],
): Promise<(ZoneExcerpt | "large" | undefined)[]> {
  const values = new StatementValues();
  const wanted = asks.flatMap(({ names }, index) => names.map(({ wire }) => [index + 1, nameSortKey(wire)]));
  const mostWritten = wanted.length > MOST_WRITTEN_ROWS ? 0 : MOST_WRITTEN_ROWS;
  const asked = rowsTable(
    ["text", "text", "bigint"],
    asks.map(({ apex, scope }) => [zoneName(apex), scope.resellerId ?? null, scope.companyId ?? null]),
    values,
    mostWritten,
  );
  const keys = rowsTable(["bigint", "bytea"], wanted, values);
  const sql = readExcerptsSql(asked.sql, keys.sql);
  const rows = await queryRows<ExcerptRow & { readonly ask: number }>(db, sql, values.all, {
    name: `read-zone-excerpts ${asked.shape} ${keys.shape}`,
  });
  const byAsk: ExcerptRow[][] = asks.map(() => []);
  for (const row of rows) byAsk[row.ask - 1]!.push(row);
  return byAsk.map((own) => excerptOf(own, MOST_RECORDS_TOGETHER));
}

function excerptOf(rows: readonly ExcerptRow[], most: number | undefined): ZoneExcerpt | "large" | undefined {
  const [first] = rows;
  if (!first) return undefined;
  if (most !== undefined && rows.length > most) return "large";
  const records: StoredRecord[] = [];
  for (const { record_id, owner, type, record_ttl, rdata } of rows) {
    if (record_id === null) continue;
    if (rdata === null) return "large";
    records.push(recordOf([record_id, owner, type, record_ttl, rdata]));
  }
  return { zone: zoneOf(first), leftOut: leftOutOf(first.left_out), records };
}

interface ExcerptRow extends ZoneRow {
  readonly left_out: readonly number[] | null;
  readonly record_id: number | null;
  readonly owner: Buffer;
  readonly type: number;
  readonly record_ttl: number;
  /** Null where it is longer than what is read at once. */
  readonly rdata: Buffer | null;
}

const EXCERPT_COLUMNS = `${ZONE_COLUMNS}, ${LEFT_OUT_COUNTS} as left_out,
         r.id as record_id, r.owner, r.type, r.ttl as record_ttl`;
const SHORT_RDATA = `case when octet_length(r.rdata) <= ${MOST_RDATA_OCTETS} then r.rdata end as rdata`;

function zoneOfName(apex: DomainName, scope: ZoneScope, values: StatementValues): string {
  return `(select * from zones z where z.name = ${values.add(zoneName(apex))} and ${isInScope(scope, values)})`;
}

/**
 * As {@link readExcerptSql}: zones by their names, records by zone and name. Each ask has a scope of its own, which is compared
 * by `coalesce`, once its zone is found by the name.
 */
function readExcerptsSql(asks: string, keys: string): string {
  return `
  select a.ask::int, ${EXCERPT_COLUMNS}, ${SHORT_RDATA}
    from ${asks} as a (name, reseller_id, company_id, ask)
   cross join lateral (
     select * from zones
      where zones.name = a.name and zones.reseller_id = coalesce(a.reseller_id, zones.reseller_id)
        and zones.company_id = coalesce(a.company_id, zones.company_id) offset 0
   ) z
    join companies c on c.id = z.company_id
    left join lateral (
      select found.* from ${keys} as wanted (ask, owner_key, place) cross join lateral (
        select * from records where records.zone_id = z.id and records.owner_key = wanted.owner_key offset 0
      ) found where wanted.ask = a.ask limit ${MOST_RECORDS_TOGETHER + 1}
    ) r on true`;
}

/** @param found as of {@link foundSql} */
function readExcerptSql(zone: string, found: string, most: number | undefined): string {
  const limit = most === undefined ? "" : `limit ${most + 1}`;
  return `
  select ${EXCERPT_COLUMNS}, ${most === undefined ? "r.rdata" : SHORT_RDATA}
    from ${zone} z
    join companies c on c.id = z.company_id
    left join lateral (${found} ${limit}) r on true`;
}

/**
 * The records of the zone `z` at names and at the owners of ids. Whatever the planner believes of the size of zones, this must
 * never walk through one: `offset 0` keeps both columns of the index in use for each name, and `+ 0` keeps the look-up of ids
 * to the primary key.
 */
function foundSql(keys: string, ids: string | undefined): string {
  const namesOfIds = `
        union
        select (select records.owner_key from records where records.id = wanted.id and records.zone_id + 0 = z.id)
          from ${ids} as wanted (id, place)`;
  return `
      select found.* from (
        select wanted.owner_key from ${keys} as wanted (owner_key, place)${ids === undefined ? "" : namesOfIds}
      ) names cross join lateral (
        select * from records where records.zone_id = z.id and records.owner_key = names.owner_key offset 0
      ) found`;
}
