import { limitsOf, NO_USAGE, type QuotaLimits, type QuotaName, type Usage } from "../../core/dns/quotas.ts";
import { quotaDefaults, quotaNamesOf } from "../../platform/config/quotas.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";
import { releaseReserves } from "./quotas.ts";

/** Whose quotas: a company's, or without one the reseller's own. */
export interface QuotaOwner {
  readonly resellerId: string;
  readonly companyId?: number;
}

/** One quota of somebody. */
export interface QuotaState {
  readonly name: QuotaName;
  /** Null: as much as they want. */
  readonly allowed: number | null;
  /** Null where use is no state: so much a minute, so much at a time. */
  readonly used: number | null;
  /** Whether it is what config/quotas.json says. */
  readonly isDefault: boolean;
}

/** The company of a reseller, by its crm_id; undefined when there is none. */
export async function findQuotaOwner(db: Db, resellerId: string, crmId?: string): Promise<QuotaOwner | undefined> {
  const [row] = await queryRows<{ company_id: number | null }>(
    db,
    crmId === undefined
      ? "select null::bigint as company_id from resellers where id = $1"
      : "select id as company_id from companies where reseller_id = $1 and crm_id = $2",
    crmId === undefined ? [resellerId] : [resellerId, crmId.toLowerCase()],
  );
  return row && { resellerId, ...(row.company_id === null ? {} : { companyId: row.company_id }) };
}

/** What somebody may have and do. */
export async function readLimits(db: Db, owner: QuotaOwner): Promise<QuotaLimits> {
  return limitsOf(quotaDefaults[kindOf(owner)], await readOwnLimits(db, owner));
}

/** All quotas of somebody, with what is used: what the zones take, not what they hold. */
export async function readQuotas(db: Db, owner: QuotaOwner): Promise<QuotaState[]> {
  const own = await readOwnLimits(db, owner);
  const limits = limitsOf(quotaDefaults[kindOf(owner)], own);
  const used: Readonly<Partial<Record<QuotaName, number>>> = await readUsage(db, owner);
  return quotaNamesOf(kindOf(owner)).map((name) => ({
    name,
    allowed: limits[name] ?? null,
    used: used[name] ?? null,
    isDefault: own[name] === undefined,
  }));
}

/** Gives somebody other limits than the default; null gives the default again. Nothing is taken from who has more. */
export async function setLimits(
  db: Db,
  owner: QuotaOwner,
  changes: Readonly<Partial<Record<QuotaName, number | null>>>,
): Promise<void> {
  await inTransaction(db, async (transaction) => {
    await makeRow(transaction, owner);
    await queryRows(
      transaction,
      `update quotas set limits = jsonb_strip_nulls(limits || $2::jsonb) where ${conditionOf(owner)}`,
      [keyOf(owner), JSON.stringify(changes)],
    );
  });
  // What zones hold already they could take whatever the limit is now.
  await releaseReserves(db, owner);
}

/** What the zones of somebody take, all of it read at once. */
async function readUsage(
  db: Db,
  owner: QuotaOwner,
): Promise<Usage & { readonly acls?: number; readonly tokens: number }> {
  const [zones] = await queryRows<Usage>(
    db,
    `select count(*) as zones, count(*) filter (where signed) as signed_zones,
            coalesce(sum(records), 0)::bigint as records, coalesce(sum(octets), 0)::bigint as octets
       from zones where kind = 'primary' and ${columnOf(owner)} = $1`,
    [keyOf(owner)],
  );
  const tokens = await countTokens(db, owner);
  const used = { ...(zones ?? NO_USAGE), tokens };
  return owner.companyId === undefined ? { ...used, acls: await countAcls(db, owner.resellerId) } : used;
}

/** The ACLs of a reseller. */
export async function countAcls(db: Db, resellerId: string): Promise<number> {
  const [row] = await queryRows<{ acls: number }>(db, "select count(*) as acls from acls where reseller_id = $1", [
    resellerId,
  ]);
  return row!.acls;
}

/** The tokens of a company, or of a reseller with those of its companies. */
export async function countTokens(db: Db, { resellerId, companyId }: QuotaOwner): Promise<number> {
  const [row] = await queryRows<{ tokens: number }>(
    db,
    `select count(*) as tokens from dns_tokens where reseller_id = $1 and (company_id = $2 or $3::bigint is null)`,
    [resellerId, companyId ?? null, companyId ?? null],
  );
  return row!.tokens;
}

/** Locks a reseller's row, so that what it has is counted by one at a time. */
export async function lockQuotas(transaction: Transaction, owner: QuotaOwner): Promise<QuotaLimits> {
  await makeRow(transaction, owner);
  await queryRows(transaction, `select 1 from quotas where ${conditionOf(owner)} for update`, [keyOf(owner)]);
  return readLimits(transaction, owner);
}

async function readOwnLimits(db: Db, owner: QuotaOwner): Promise<QuotaLimits> {
  const [row] = await queryRows<{ limits: QuotaLimits }>(
    db,
    `select limits from quotas where ${conditionOf(owner)}`,
    [keyOf(owner)],
    { name: `read-limits ${kindOf(owner)}` },
  );
  return row?.limits ?? {};
}

async function makeRow(db: Db, { resellerId, companyId }: QuotaOwner): Promise<void> {
  await queryRows(db, "insert into quotas (reseller_id, company_id) values ($1, $2) on conflict do nothing", [
    resellerId,
    companyId ?? null,
  ]);
}

const kindOf = ({ companyId }: QuotaOwner) => (companyId === undefined ? "reseller" : "company");
const columnOf = ({ companyId }: QuotaOwner) => (companyId === undefined ? "reseller_id" : "company_id");
const keyOf = ({ resellerId, companyId }: QuotaOwner) => companyId ?? resellerId;

function conditionOf(owner: QuotaOwner): string {
  return owner.companyId === undefined ? "reseller_id = $1 and company_id is null" : "company_id = $1";
}
