import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A zone that an ACL is for. */
export interface AclZone {
  readonly name: string;
  readonly isCatalog: boolean;
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
