import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A company whose zones an instance's users may change, for its sender domains. */
export interface CompanyOfInstance {
  readonly resellerId: string;
  readonly crmId: string;
  /** The login of who said so. */
  readonly grantedBy: string;
  readonly grantedAt: Date;
}

export async function listCompaniesOfInstance(db: Db, instanceId: number): Promise<CompanyOfInstance[]> {
  const rows = await queryRows<{ reseller_id: string; crm_id: string; granted_by: string; granted_at: Date }>(
    db,
    `select c.reseller_id, c.crm_id, g.granted_by, g.granted_at from instance_companies g
     join companies c on c.id = g.company_id where g.instance_id = $1 order by c.reseller_id, c.crm_id`,
    [instanceId],
  );
  return rows.map((row) => ({
    resellerId: row.reseller_id,
    crmId: row.crm_id,
    grantedBy: row.granted_by,
    grantedAt: row.granted_at,
  }));
}

/** Names of the instances whose users may change a company's zones. */
export async function listInstancesOfCompany(db: Db, companyId: number): Promise<string[]> {
  const rows = await queryRows<{ name: string }>(
    db,
    `select i.name from instance_companies g join instances i on i.id = g.instance_id
     where g.company_id = $1 order by i.name`,
    [companyId],
  );
  return rows.map(({ name }) => name);
}

/** Lets an instance's users change a company's zones for its sender domains. */
export async function grantCompany(
  db: Db,
  { instanceId, companyId, by }: { readonly instanceId: number; readonly companyId: number; readonly by: string },
): Promise<void> {
  await queryRows(
    db,
    `insert into instance_companies (instance_id, company_id, granted_by) values ($1, $2, $3) on conflict do nothing`,
    [instanceId, companyId, by],
  );
}

/** Ends it. @returns false when there was nothing to end */
export async function revokeCompany(db: Db, instanceId: number, companyId: number): Promise<boolean> {
  const rows = await queryRows(
    db,
    "delete from instance_companies where instance_id = $1 and company_id = $2 returning company_id",
    [instanceId, companyId],
  );
  return rows.length > 0;
}

/** Whether a zone is a company's that gave an instance leave to change its zones. */
export async function mayChangeZone(db: Db, instanceId: number, zoneId: number): Promise<boolean> {
  const rows = await queryRows(
    db,
    `select from zones z join instance_companies g on g.company_id = z.company_id
     where z.id = $1 and g.instance_id = $2 and not z.suspended and not z.company_suspended`,
    [zoneId, instanceId],
  );
  return rows.length > 0;
}
