import { timingSafeEqual } from "node:crypto";
import { hashApiKey } from "../../core/api-key.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { open, seal } from "../../core/secret-box.ts";
import { type Db, isUniqueViolation, type Transaction } from "../../platform/postgres/db.ts";
import { lockZones } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { deleteCompanyZones, type ZonesDeleted } from "./zone-deletion.ts";
import type { ZoneSigner } from "./zone-signing.ts";

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

/** A change of a company, and the zones whose publication it touched. */
export interface CompanyChanged {
  readonly company: Company;
  readonly zoneIds: readonly number[];
}

const SEAL_PURPOSE = "company-apikey";

/** A key as it is stored: without white space, commas and semicolons, which are not allowed in one. */
export function cleanCompanyKey(key: string): string {
  return key.replace(/[\s,;]/g, "");
}

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

/**
 * Adds a company, not suspended. `apikey` must be clean.
 * Refuses a crm_id that is taken, and a key that the reseller or another of its companies has.
 */
export async function addCompany(db: Db, keyRing: KeyRing, added: NewCompany): Promise<Result<Company, Refusal>> {
  const { resellerId, crmId, name, apikey } = added;
  if (await isResellerKey(db, keyRing, resellerId, apikey)) return refuse(KEY_TAKEN);
  try {
    const stored = crmId.toLowerCase();
    await db("companies").insert({ reseller_id: resellerId, crm_id: stored, name, ...keyColumns(keyRing, apikey) });
    return ok({ crmId: stored, name, apikey, suspended: false, domains: 0 });
  } catch (error) {
    return refuse(takenBy(error, crmId));
  }
}

/** Changes the fields given. `suspended` is written to every zone of the company as well. */
export async function changeCompany(
  db: Db,
  keyRing: KeyRing,
  which: { readonly resellerId: string; readonly crmId: string },
  changes: CompanyChanges,
): Promise<Result<CompanyChanged, Refusal>> {
  const { resellerId, crmId } = which;
  const { suspended, apikey } = changes;
  if (apikey !== undefined && (await isResellerKey(db, keyRing, resellerId, apikey))) return refuse(KEY_TAKEN);
  try {
    return await inTransaction(db, async (transaction) => {
      const locked = await lockCompany(transaction, resellerId, crmId);
      if (locked === undefined) return refuse(companyDoesNotExist(crmId));
      const columns = {
        ...(changes.crmId === undefined ? {} : { crm_id: changes.crmId.toLowerCase() }),
        ...(changes.name === undefined ? {} : { name: changes.name }),
        ...(apikey === undefined ? {} : keyColumns(keyRing, apikey)),
        ...(suspended === undefined ? {} : { suspended }),
      };
      const zoneIds = suspended === undefined ? [] : await suspendZones(transaction, locked.id, suspended);
      // After its zones: whoever changes one of them looks the company up, and a new crm_id or key would keep it waiting.
      if (Object.keys(columns).length > 0) await transaction("companies").where({ id: locked.id }).update(columns);
      const company = await findCompany(transaction, keyRing, resellerId, changes.crmId ?? crmId);
      return ok({ company: company as Company, zoneIds });
    });
  } catch (error) {
    return refuse(takenBy(error, changes.crmId ?? crmId));
  }
}

/**
 * Deletes a company and all its zones.
 * @param apikey the company's key, cleaned, as confirmation: a wrong one is refused
 */
export async function deleteCompany(
  db: Db,
  signer: ZoneSigner,
  which: { readonly resellerId: string; readonly crmId: string },
  apikey: string,
): Promise<Result<ZonesDeleted, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const locked = await lockCompany(transaction, which.resellerId, which.crmId);
    if (locked === undefined) return refuse(companyDoesNotExist(which.crmId));
    if (!timingSafeEqual(locked.apikey_hash, hashApiKey(signer.keyRing, "dns", apikey))) {
      return refuse(unacceptable("apikey does not match"));
    }
    const deleted = await deleteCompanyZones(transaction, locked.id, signer);
    await transaction("companies").where({ id: locked.id }).delete();
    return ok(deleted);
  });
}

export function companyDoesNotExist(crmId: string): Refusal {
  return unacceptable(`Company ${crmId} does not exist`);
}

const KEY_TAKEN = unacceptable("apikey is already in use");

interface LockedCompany {
  readonly id: number;
  readonly apikey_hash: Buffer;
}

/** Lets whoever changes a zone of it look it up meanwhile, and nobody make a zone of it, or change or delete it. */
function lockCompany(transaction: Transaction, resellerId: string, crmId: string): Promise<LockedCompany | undefined> {
  return transaction("companies")
    .where({ reseller_id: resellerId, crm_id: crmId.toLowerCase() })
    .forNoKeyUpdate()
    .first("id", "apikey_hash");
}

/** Zones whose flags stay as they are keep their version: readers need not look at them. */
async function suspendZones(transaction: Transaction, companyId: number, suspended: boolean): Promise<number[]> {
  await lockZones(transaction, "company_id = ?", [companyId]);
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

async function isResellerKey(db: Db, keyRing: KeyRing, resellerId: string, apikey: string): Promise<boolean> {
  const keyHash = hashApiKey(keyRing, "dns", apikey);
  // A former key counts as well as long as it is valid: the key decides the mode.
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

function takenBy(error: unknown, crmId: string): Refusal {
  if (isUniqueViolation(error, "companies_reseller_id_crm_id_key")) {
    return unacceptable(`Company ${crmId} already exists`);
  }
  if (isUniqueViolation(error, "companies_reseller_id_apikey_hash_key")) return KEY_TAKEN;
  throw error;
}

function domainCount(db: Db) {
  return db.raw("(select count(*) from zones where zones.company_id = companies.id) as domains");
}

function summaryOf(row: { crm_id: string; name: string; suspended: boolean; domains: number }): CompanySummary {
  return { crmId: row.crm_id, name: row.name, suspended: row.suspended, domains: row.domains };
}
