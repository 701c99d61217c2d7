import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A zone that an ACL is for. */
export interface AclZone {
  readonly name: string;
  readonly isCatalog: boolean;
}

/** Which of these names no zone of the reseller has, and no policy feed. @param names as of zones */
export async function namesWithoutZone(db: Db, resellerId: string, names: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ name: string }>(
    db,
    "select name from zones where name = any($1) and (reseller_id = $2 or kind = 'feed')",
    [names, resellerId],
  );
  const known = new Set(rows.map(({ name }) => name));
  return names.filter((name) => !known.has(name));
}

/**
 * The zones that an ACL is for, in canonical order.
 * @param names as of zones; null for all that the reseller has in force, its catalogs included
 */
export async function listAclZones(db: Db, resellerId: string, names: readonly string[] | null): Promise<AclZone[]> {
  const rows = await queryRows<{ name: string; is_catalog: boolean }>(
    db,
    names === null
      ? `select name, kind = 'catalog' as is_catalog from zones
          where reseller_id = $1 and not suspended and not company_suspended order by name_key`
      : `select wanted.name, coalesce(z.kind = 'catalog', false) as is_catalog
           from unnest($1::text[]) wanted (name) left join zones z on z.name = wanted.name
          order by z.name_key nulls last, wanted.name`,
    [names ?? resellerId],
  );
  return rows.map(({ name, is_catalog }) => ({ name, isCatalog: is_catalog }));
}
