import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { escapeLike } from "./like-pattern.ts";
import { searchZoneNames } from "./zone-search.ts";
import { LEFT_OUT, type LeftOut } from "./zones-left-out.ts";

/** A zone as the console lists it. */
export interface FoundZone {
  readonly name: string;
  readonly crmId: string;
  readonly serial: number;
  /** Its own flag, or its company's. */
  readonly suspended: boolean;
  /** All but the SOA. */
  readonly records: number;
  /** Signed by this server, or published with signatures of somebody else. */
  readonly signed: boolean;
  /** What name servers without memory for it make of it; null where there are none. */
  readonly leftOut: LeftOut | null;
}

export interface ZoneSearch {
  readonly resellerId: string;
  /** Only those of one company. */
  readonly crmId?: string | undefined;
  /** Any part of the name; empty: all. */
  readonly text: string;
  /** Only zones that come after this name in canonical order. */
  readonly after?: DomainName | undefined;
  readonly limit: number;
}

/** Zones of a reseller, suspended ones included, in canonical order of names. */
export async function searchZones(db: Db, search: ZoneSearch): Promise<FoundZone[]> {
  const { resellerId, crmId, limit } = search;
  const companyId = crmId === undefined ? undefined : await findCompanyId(db, resellerId, crmId);
  if (crmId !== undefined && companyId === undefined) return [];
  const scope = { resellerId, ...(companyId !== undefined && { companyId }) };
  const after = search.after && Buffer.from(nameSortKey(search.after.wire));
  const like = `%${escapeLike(search.text.toLowerCase())}%`;
  const ids = await searchZoneNames(db, { scope, like, after, limit });
  const rows = await queryRows<{
    name: string;
    crm_id: string;
    serial: number;
    suspended: boolean;
    records: number;
    signed: boolean;
    left_out: LeftOut | null;
  }>(
    db,
    `select z.name, c.crm_id, z.serial, z.suspended or z.company_suspended as suspended,
            (select count(*) from records r where r.zone_id = z.id) as records,
            z.signed or exists (select 1 from records r where r.zone_id = z.id and r.owner_key = z.name_key and r.type = $1) as signed,
            ${LEFT_OUT} as left_out
       from zones z join companies c on c.id = z.company_id
      where z.id = any($2::bigint[]) order by z.name_key`,
    [TYPE.DNSKEY, ids],
  );
  return rows.map(({ crm_id, left_out, ...row }) => ({ ...row, crmId: crm_id, leftOut: left_out }));
}

/** Whose zone it is; undefined when it is gone. */
export async function findResellerOfZone(db: Db, zoneId: number): Promise<string | undefined> {
  return (await db("zones").where({ id: zoneId }).first("reseller_id"))?.reseller_id;
}

export async function findCompanyId(db: Db, resellerId: string, crmId: string): Promise<number | undefined> {
  const row = await db("companies").where({ reseller_id: resellerId, crm_id: crmId }).first("id");
  return row?.id;
}

/** Whether any of these domains is, or lies above or below, a zone of a company. */
export async function hasZoneBy(db: Db, companyId: number, domains: readonly string[]): Promise<boolean> {
  const rows = await queryRows(
    db,
    `select from zones z, unnest($2::text[]) as d (domain) where z.company_id = $1
       and (right('.' || z.name, length(d.domain) + 1) = '.' || d.domain
         or right('.' || d.domain, length(z.name) + 1) = '.' || z.name)
     limit 1`,
    [companyId, domains],
  );
  return rows.length > 0;
}
