import { hashApiKey } from "../../core/api-key.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { open, seal } from "../../core/secret-box.ts";
import { type Db, isUniqueViolation, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { lockZones } from "./zones.ts";

/** A company as lists show it. */
export interface CompanySummary {
  readonly crmId: string;
  readonly name: string;
  readonly suspended: boolean;
  /** How many zones it has, suspended ones included. */
  readonly domains: number;
}

export interface Company extends CompanySummary {
  readonly apikey: string;
}

export interface NewCompany {
  readonly resellerId: string;
  /** As the caller wrote it, here as in all functions of this file: it is stored and looked up in lower case. */
  readonly crmId: string;
  readonly name: string;
  readonly apikey: string;
}

/** Fields to change; those absent stay. */
export interface CompanyChanges {
  readonly crmId?: string | undefined;
  readonly name?: string | undefined;
  readonly apikey?: string | undefined;
  readonly suspended?: boolean | undefined;
}

/** Which company of which reseller. */
export interface CompanyName {
  readonly resellerId: string;
  readonly crmId: string;
}

/** A company whose row is locked. */
export interface LockedCompany {
  readonly id: number;
  readonly apikeyHash: Buffer;
}

const SEAL_PURPOSE = "company-apikey";

/** A reseller's companies by crm_id. */
export async function listCompanies(db: Db, resellerId: string): Promise<CompanySummary[]> {
  const rows = await db("companies")
    .where({ reseller_id: resellerId })
    .select("crm_id", "name", "suspended", domainCount(db))
    .orderBy("crm_id");
  return rows.map(summaryOf);
}

export async function findCompany(
  db: Db,
  keyRing: KeyRing,
  resellerId: string,
  crmId: string,
): Promise<Company | undefined> {
  const row = await db("companies")
    .where({ reseller_id: resellerId, crm_id: crmId.toLowerCase() })
    .first("crm_id", "name", "suspended", "apikey_sealed", domainCount(db));
  return row && { ...summaryOf(row), apikey: openKey(keyRing, row.apikey_sealed) };
}

/** Adds a company, not suspended. @throws what {@link takenBy} understands */
export async function insertCompany(db: Db, keyRing: KeyRing, added: NewCompany): Promise<Company> {
  const { resellerId, name, apikey } = added;
  const crmId = added.crmId.toLowerCase();
  await db("companies").insert({ reseller_id: resellerId, crm_id: crmId, name, ...keyColumns(keyRing, apikey) });
  return { crmId, name, apikey, suspended: false, domains: 0 };
}

/** Writes the fields given to the company's own row. @throws what {@link takenBy} understands */
export async function updateCompany(
  transaction: Transaction,
  keyRing: KeyRing,
  id: number,
  { crmId, name, apikey, suspended }: CompanyChanges,
): Promise<void> {
  const columns = {
    ...(crmId === undefined ? {} : { crm_id: crmId.toLowerCase() }),
    ...(name === undefined ? {} : { name }),
    ...(apikey === undefined ? {} : keyColumns(keyRing, apikey)),
    ...(suspended === undefined ? {} : { suspended }),
  };
  if (Object.keys(columns).length > 0) await transaction("companies").where({ id }).update(columns);
}

export async function deleteCompanyRow(transaction: Transaction, id: number): Promise<void> {
  await transaction("companies").where({ id }).delete();
}

/** What of a company another one has already, by the error of a write; undefined when it is another error. */
export function takenBy(error: unknown): "crm-id" | "apikey" | undefined {
  if (isUniqueViolation(error, "companies_reseller_id_crm_id_key")) return "crm-id";
  return isUniqueViolation(error, "companies_reseller_id_apikey_hash_key") ? "apikey" : undefined;
}

/** Lets whoever changes a zone of it look it up meanwhile, and nobody make a zone of it, or change or delete it. */
export async function lockCompany(
  transaction: Transaction,
  { resellerId, crmId }: CompanyName,
): Promise<LockedCompany | undefined> {
  const row = await transaction("companies")
    .where({ reseller_id: resellerId, crm_id: crmId.toLowerCase() })
    .forNoKeyUpdate()
    .first("id", "apikey_hash");
  return row && { id: row.id, apikeyHash: row.apikey_hash };
}

/** The lock of those who make zones of a reseller, and of who would have them make none. @see lockReseller */
export const MAKERS_LOCK = "hashtextextended('zones of ' || $1, 0)";

/**
 * The company, kept from being suspended or deleted until the transaction ends.
 * @param name.companyId the only one that it may be, when there is one
 */
export async function holdCompany(
  transaction: Transaction,
  { resellerId, crmId, companyId }: CompanyName & { readonly companyId?: number },
): Promise<{ readonly id: number; readonly suspended: boolean } | undefined> {
  const mine = companyId === undefined ? {} : { id: companyId };
  // Locks of rows that are shared let others in before whoever waits to have one alone; these stand in a queue.
  await queryRows(transaction, `select pg_advisory_xact_lock_shared(${MAKERS_LOCK})`, [resellerId]);
  return transaction("companies")
    .where({ reseller_id: resellerId, crm_id: crmId.toLowerCase(), ...mine })
    .forShare()
    .first("id", "suspended");
}

/**
 * Suspends all zones of a company, or no longer. Zones whose flags stay as they are keep their version: readers need not
 * look at them.
 * @returns the ids of those that changed
 */
export async function suspendZonesOf(
  transaction: Transaction,
  companyId: number,
  suspended: boolean,
): Promise<number[]> {
  await lockZones(transaction, "company_id = $1", [companyId]);
  const changed = await transaction("zones")
    .where({ company_id: companyId })
    .andWhere((flags) => flags.whereNot({ suspended }).orWhereNot({ company_suspended: suspended }))
    .update({
      suspended,
      company_suspended: suspended,
      version: transaction.raw("version + 1"),
      changed_xid: transaction.raw("pg_current_xact_id()"),
    })
    .returning("id");
  return changed.map((row) => row.id);
}

/** Whether the key is the reseller's own: its present one, or a former one as long as that is valid. */
export async function isResellerKey(db: Db, keyRing: KeyRing, resellerId: string, apikey: string): Promise<boolean> {
  const keyHash = hashApiKey(keyRing, "dns", apikey);
  const row = await db("resellers")
    .where({ id: resellerId })
    .andWhere((keys) =>
      keys
        .where({ key_hash: keyHash })
        .orWhere((former) => former.where({ previous_key_hash: keyHash }).whereRaw("previous_key_until > now()")),
    )
    .first("id");
  return row !== undefined;
}

function keyColumns(keyRing: KeyRing, apikey: string) {
  return { apikey_sealed: seal(keyRing, SEAL_PURPOSE, apikey), apikey_hash: hashApiKey(keyRing, "dns", apikey) };
}

function openKey(keyRing: KeyRing, sealed: string): string {
  const opened = open(keyRing, SEAL_PURPOSE, sealed);
  if (!opened.ok) throw new Error(`the stored key of a company is ${opened.error}: was PALOMAR_SECRET changed?`);
  return opened.value.toString("utf8");
}

function domainCount(db: Db) {
  return db.raw("(select count(*) from zones where zones.company_id = companies.id) as domains");
}

function summaryOf(row: { crm_id: string; name: string; suspended: boolean; domains: number }): CompanySummary {
  return { crmId: row.crm_id, name: row.name, suspended: row.suspended, domains: row.domains };
}
