import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, rowsTable, StatementValues } from "../../platform/postgres/db.ts";
import { recordOf } from "./records.ts";
import { ZONE_COLUMNS, type Zone, type ZoneRow, type ZoneScope, zoneName, zoneOf } from "./zones.ts";
import { LEFT_OUT_COUNTS, type LeftOutCounts, leftOutOf } from "./zones-left-out.ts";

/** A zone, and all records at some of its names. */
export interface ZoneExcerpt {
  readonly zone: Zone;
  /** On how many servers the zone does not fit. */
  readonly leftOut: LeftOutCounts;
  readonly records: readonly StoredRecord[];
}

/** Reads the zone and, in the same snapshot, all records at the names and at the owners of the ids. */
export async function readExcerpt(
  db: Db,
  { apex, scope }: { readonly apex: DomainName; readonly scope: ZoneScope },
  names: readonly DomainName[],
  ids: readonly number[],
): Promise<ZoneExcerpt | undefined> {
  const values = new StatementValues(zoneName(apex), scope.resellerId ?? null, scope.companyId ?? null);
  const keys = rowsTable(
    ["bytea"],
    names.map(({ wire }) => [nameSortKey(wire)]),
    values,
  );
  const rowsOfIds = ids.map((id) => [id]);
  const wanted = ids.length > 0 ? rowsTable(["bigint"], rowsOfIds, values) : undefined;
  const rows = await queryRows<ExcerptRow>(db, readExcerptSql(keys.sql, wanted?.sql), values.all, {
    name: `read-zone-excerpt ${keys.shape} ${wanted?.shape ?? 0}`,
  });
  return excerptOf(rows);
}

/** What an excerpt is asked for by. */
export interface ExcerptAsk {
  readonly apex: DomainName;
  readonly scope: ZoneScope;
  readonly names: readonly DomainName[];
}

/** Of one ask among several; who asks for more keeps the others waiting. */
const MOST_RECORDS = 256;

/**
 * Reads several excerpts, as {@link readExcerpt} does, by one statement.
 * @returns them in the order of the asks; "large" where there are more records than go together with others'
 */
export async function readExcerpts(
  db: Db,
  asks: readonly ExcerptAsk[],
): Promise<(ZoneExcerpt | "large" | undefined)[]> {
  const values = new StatementValues();
  const asked = rowsTable(
    ["text", "text", "bigint"],
    asks.map(({ apex, scope }) => [zoneName(apex), scope.resellerId ?? null, scope.companyId ?? null]),
    values,
  );
  const keys = rowsTable(
    ["bigint", "bytea"],
    asks.flatMap(({ names }, index) => names.map(({ wire }) => [index + 1, nameSortKey(wire)])),
    values,
  );
  const sql = readExcerptsSql(asked.sql, keys.sql);
  const rows = await queryRows<ExcerptRow & { readonly ask: number }>(db, sql, values.all, {
    name: `read-zone-excerpts ${asked.shape} ${keys.shape}`,
  });
  const byAsk: ExcerptRow[][] = asks.map(() => []);
  for (const row of rows) byAsk[row.ask - 1]!.push(row);
  return byAsk.map((own) => (own.length > MOST_RECORDS ? "large" : excerptOf(own)));
}

function excerptOf(rows: readonly ExcerptRow[]): ZoneExcerpt | undefined {
  const [first] = rows;
  if (!first) return undefined;
  return {
    zone: zoneOf(first),
    leftOut: leftOutOf(first.left_out),
    records: rows.flatMap(({ record_id, owner, type, record_ttl, rdata }) =>
      record_id === null ? [] : recordOf([record_id, owner, type, record_ttl, rdata]),
    ),
  };
}

interface ExcerptRow extends ZoneRow {
  readonly left_out: readonly number[] | null;
  readonly record_id: number | null;
  readonly owner: Buffer;
  readonly type: number;
  readonly record_ttl: number;
  readonly rdata: Buffer;
}

const EXCERPT_COLUMNS = `${ZONE_COLUMNS}, ${LEFT_OUT_COUNTS} as left_out,
         r.id as record_id, r.owner, r.type, r.ttl as record_ttl, r.rdata`;

/** As {@link readExcerptSql}: zones by their names, records by zone and name. */
function readExcerptsSql(asks: string, keys: string): string {
  return `
  select a.ask::int, ${EXCERPT_COLUMNS}
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
      ) found where wanted.ask = a.ask limit ${MOST_RECORDS + 1}
    ) r on true`;
}

/**
 * Whatever the planner believes of the size of zones, this must never walk through one: `offset 0` keeps both columns of
 * the index in use for each name, and `+ 0` keeps the look-up of ids to the primary key.
 */
function readExcerptSql(keys: string, ids: string | undefined): string {
  const namesOfIds = `
        union
        select (select records.owner_key from records where records.id = wanted.id and records.zone_id + 0 = z.id)
          from ${ids} as wanted (id, place)`;
  return `
  select ${EXCERPT_COLUMNS}
    from (select * from zones
           where name = $1 and reseller_id = coalesce($2, reseller_id) and company_id = coalesce($3, company_id)) z
    join companies c on c.id = z.company_id
    left join lateral (
      select found.* from (
        select wanted.owner_key from ${keys} as wanted (owner_key, place)${ids === undefined ? "" : namesOfIds}
      ) names cross join lateral (
        select * from records where records.zone_id = z.id and records.owner_key = names.owner_key offset 0
      ) found
    ) r on true`;
}
