import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, rowsTable, StatementValues } from "../../platform/postgres/db.ts";
import { recordOf } from "./records.ts";
import { ZONE_COLUMNS, type Zone, type ZoneRow, type ZoneScope, zoneName, zoneOf } from "./zones.ts";

/** A zone, and all records at some of its names. */
export interface ZoneExcerpt {
  readonly zone: Zone;
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
  const [first] = rows;
  if (!first) return undefined;
  return {
    zone: zoneOf(first),
    records: rows.flatMap(({ record_id, owner, type, record_ttl, rdata }) =>
      record_id === null ? [] : recordOf([record_id, owner, type, record_ttl, rdata]),
    ),
  };
}

interface ExcerptRow extends ZoneRow {
  readonly record_id: number | null;
  readonly owner: Buffer;
  readonly type: number;
  readonly record_ttl: number;
  readonly rdata: Buffer;
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
  select ${ZONE_COLUMNS}, r.id as record_id, r.owner, r.type, r.ttl as record_ttl, r.rdata
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
