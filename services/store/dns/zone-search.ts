import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import type { ListPosition, ZoneScope } from "./zones.ts";

export interface ZoneNameSearch {
  readonly scope: ZoneScope;
  /** A pattern of LIKE. */
  readonly like: string;
  /** Only zones that come after this place in canonical order. */
  readonly after: ListPosition;
  readonly limit: number;
}

/** Zones that are gone over one by one before the index of parts of names is asked. */
const WALKS = [1_000, 10_000];

/**
 * The ids of the scope's zones whose names are like a pattern, the first ones in canonical order, in no order. What many zones have
 * is found soon by going over them in order, what few have by the index of parts of names; which it is PostgreSQL cannot know.
 */
export async function searchZoneNames(db: Db, search: ZoneNameSearch): Promise<number[]> {
  for (const walk of WALKS) {
    const most = Math.max(walk, search.limit);
    const values = new StatementValues();
    const place = placeOf(search, values);
    const [row] = await queryRows<{ ids: string[]; walked: number }>(
      db,
      `with walked as materialized (
         select z.id, z.name, z.name_key from zones z where ${place} order by z.name_key limit ${values.add(most)})
       select (select count(*) from walked) as walked,
              array(select id from walked where name like ${values.add(search.like)}
                     order by name_key limit ${values.add(search.limit)}) as ids`,
      values.all,
    );
    // An array of bigint arrives as texts.
    if (row!.ids.length === search.limit || row!.walked < most) return row!.ids.map(Number);
  }
  const values = new StatementValues();
  const rows = await queryRows<{ id: number }>(
    db,
    `with found as materialized (
       select z.id, z.name_key from zones z where ${placeOf(search, values)} and z.name like ${values.add(search.like)})
     select id from found order by name_key limit ${values.add(search.limit)}`,
    values.all,
  );
  return rows.map(({ id }) => id);
}

function placeOf({ scope, after }: ZoneNameSearch, values: StatementValues): string {
  return `${isInScope(scope, values)} and z.kind = 'primary' and z.name_key > ${values.add(after ?? Buffer.alloc(0))}`;
}

/** What stands in an index as it is, so that others' zones are not passed over one by one. */
export function isInScope({ resellerId, companyId }: ZoneScope, values: StatementValues): string {
  if (companyId !== undefined) return `z.company_id = ${values.add(companyId)}`;
  return resellerId === undefined ? "true" : `z.reseller_id = ${values.add(resellerId)}`;
}
