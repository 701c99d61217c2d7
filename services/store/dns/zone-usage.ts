import type { DomainName } from "../../core/dns/name.ts";
import type { Usage } from "../../core/dns/quotas.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../platform/postgres/db.ts";
import type { ChargedOwner } from "./quotas.ts";
import { isInScope, shapeOfScope, type ZoneScope, zoneName } from "./zones.ts";

/** What a zone comes to. */
export interface ZoneSize {
  readonly records: number;
  /** Of its RDATA and owner names, as the zone database counts them. */
  readonly octets: number;
}

/** What a zone takes, and whose it is. */
export interface ZoneUsage extends ChargedOwner, ZoneSize {
  readonly id: number;
}

/** What a zone of the scope takes as it is; undefined when there is none. */
export async function readZoneUsage(db: Db, scope: ZoneScope, apex: DomainName): Promise<ZoneUsage | undefined> {
  const values = new StatementValues(zoneName(apex));
  const [zone] = await queryRows<ZoneUsage>(
    db,
    `select id, reseller_id as "resellerId", company_id as "companyId", records, octets from zones z
      where name = $1 and company_id is not null and ${isInScope(scope, values)}`,
    values.all,
    { name: `read-usage-of-zone ${shapeOfScope(scope)}` },
  );
  return zone;
}

/** What zones hold, as what their companies are charged less without them. */
export async function readHeld(
  transaction: Transaction,
  ids: readonly number[],
): Promise<{ readonly owner: ChargedOwner; readonly usage: Usage }[]> {
  const rows = await queryRows<Usage & { readonly reseller_id: string; readonly company_id: number }>(
    transaction,
    `select reseller_id, company_id, -count(*) as zones, -count(*) filter (where signed) as signed_zones,
            (-sum(records_held))::bigint as records, (-sum(octets_held))::bigint as octets
       from zones where id = any($1::bigint[]) and company_id is not null
      group by reseller_id, company_id order by company_id`,
    [ids],
  );
  return rows.map(({ reseller_id: resellerId, company_id: companyId, ...usage }) => ({
    owner: { resellerId, companyId },
    usage,
  }));
}

/** Whose a zone is, that some company has. */
export async function readOwner(db: Db, zoneId: number): Promise<ChargedOwner> {
  const [owner] = await queryRows<ChargedOwner>(
    db,
    `select reseller_id as "resellerId", company_id as "companyId" from zones where id = $1`,
    [zoneId],
  );
  return owner!;
}
