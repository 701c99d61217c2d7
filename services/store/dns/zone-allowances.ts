import type { DomainName } from "../../core/dns/name.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { zoneName } from "./zones.ts";

/** What a reseller may have although the rule says otherwise. */
export interface ZoneAllowance {
  readonly domain: string;
  readonly resellerId: string;
  /**
   * `name`: the operator allowed a zone of this very name. `below`: the reseller had zones below before this one was
   * made, and may have these names, and those below them, again.
   */
  readonly covers: "name" | "below";
}

/** Lets a reseller have a zone of this name. @returns false when there is no such reseller */
export async function allowZone(db: Db, apex: DomainName, resellerId: string): Promise<boolean> {
  const known = await db("resellers").where({ id: resellerId }).first("id");
  if (!known) return false;
  await db("zone_permissions")
    .insert({ name: zoneName(apex), reseller_id: resellerId })
    .onConflict()
    .ignore();
  return true;
}

/**
 * Takes back whatever lets a reseller have a zone of this name, or zones below that of this name. Zones that are
 * there stay.
 * @returns false when there was nothing to take back
 */
export async function disallowZone(db: Db, apex: DomainName, resellerId: string): Promise<boolean> {
  const gone = await queryRows(
    db,
    `with allowed as (delete from zone_permissions where name = $1 and reseller_id = $2 returning 1),
          first as (delete from zone_predecessors p using zones z
                     where z.id = p.zone_id and z.name = $3 and p.reseller_id = $4 returning 1)
     select 1 from allowed union all select 1 from first`,
    [zoneName(apex), resellerId, zoneName(apex), resellerId],
  );
  return gone.length > 0;
}

/** All of them, by name. */
export async function listAllowances(db: Db): Promise<ZoneAllowance[]> {
  const rows = await queryRows<{ domain: string; reseller_id: string; covers: "name" | "below" }>(
    db,
    `select name as domain, reseller_id, 'name' as covers from zone_permissions
     union all
     select distinct z.name, p.reseller_id, 'below' from zone_predecessors p join zones z on z.id = p.zone_id
     order by 1, 2, 3`,
  );
  return rows.map(({ reseller_id: resellerId, ...row }) => ({ ...row, resellerId }));
}

/** Whether the operator allowed a zone of this very name. */
export async function isZoneAllowed(db: Db, apex: DomainName, resellerId: string): Promise<boolean> {
  const allowed = await db("zone_permissions")
    .where({ name: zoneName(apex), reseller_id: resellerId })
    .first("name");
  return allowed !== undefined;
}
