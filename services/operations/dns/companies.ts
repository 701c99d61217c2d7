import { timingSafeEqual } from "node:crypto";
import { hashApiKey } from "../../core/api-key.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  type Company,
  type CompanyChanges,
  type CompanyName,
  deleteCompanyRow,
  findCompany,
  insertCompany,
  isResellerKey,
  lockCompany,
  type NewCompany,
  suspendZonesOf,
  takenBy,
  updateCompany,
} from "../../store/dns/companies.ts";
import { inTransaction } from "../../store/transactions.ts";
import { deleteCompanyZones, type ZonesDeleted } from "./zone-deletion.ts";
import type { ZoneSigner } from "./zone-signing.ts";

/** A change of a company, and the zones whose publication it touched. */
export interface CompanyChanged {
  readonly company: Company;
  readonly zoneIds: readonly number[];
}

/** A key as it is stored: without white space, commas and semicolons, which are not allowed in one. */
export function cleanCompanyKey(key: string): string {
  return key.replace(/[\s,;]/g, "");
}

/**
 * Adds a company, not suspended. `apikey` must be clean.
 * Refuses a crm_id that is taken, and then a key that the reseller or another of its companies has.
 */
export async function addCompany(db: Db, keyRing: KeyRing, added: NewCompany): Promise<Result<Company, Refusal>> {
  const { resellerId, crmId } = added;
  if (await findCompany(db, keyRing, resellerId, crmId))
    return refuse(unacceptable("company-exists", { company: crmId }));
  if (await isResellerKey(db, keyRing, resellerId, added.apikey)) return refuse(KEY_TAKEN);
  try {
    return ok(await insertCompany(db, keyRing, added));
  } catch (error) {
    return refuse(refusalOf(error, crmId));
  }
}

/** Changes the fields given. `suspended` is written to every zone of the company as well. */
export async function changeCompany(
  db: Db,
  keyRing: KeyRing,
  which: CompanyName,
  changes: CompanyChanges,
): Promise<Result<CompanyChanged, Refusal>> {
  const { resellerId, crmId } = which;
  const { suspended, apikey } = changes;
  if (apikey !== undefined && (await isResellerKey(db, keyRing, resellerId, apikey))) return refuse(KEY_TAKEN);
  try {
    return await inTransaction(db, async (transaction) => {
      const locked = await lockCompany(transaction, which);
      if (locked === undefined) return refuse(companyDoesNotExist(crmId));
      const zoneIds = suspended === undefined ? [] : await suspendZonesOf(transaction, locked.id, suspended);
      // After its zones: whoever changes one of them looks the company up, and a new crm_id or key would keep it waiting.
      await updateCompany(transaction, keyRing, locked.id, changes);
      const company = await findCompany(transaction, keyRing, resellerId, changes.crmId ?? crmId);
      return ok({ company: company as Company, zoneIds });
    });
  } catch (error) {
    return refuse(refusalOf(error, changes.crmId ?? crmId));
  }
}

/**
 * Deletes a company and all its zones.
 * @param apikey the company's key, cleaned, as confirmation: a wrong one is refused
 */
export async function deleteCompany(
  db: Db,
  signer: ZoneSigner,
  which: CompanyName,
  apikey: string,
): Promise<Result<ZonesDeleted, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const locked = await lockCompany(transaction, which);
    if (locked === undefined) return refuse(companyDoesNotExist(which.crmId));
    if (!timingSafeEqual(locked.apikeyHash, hashApiKey(signer.keyRing, "dns", apikey))) {
      return refuse(unacceptable("company-key-wrong"));
    }
    const deleted = await deleteCompanyZones(transaction, locked.id, signer);
    await deleteCompanyRow(transaction, locked.id);
    return ok(deleted);
  });
}

export function companyDoesNotExist(crmId: string): Refusal {
  return unacceptable("company-unknown", { company: crmId });
}

const KEY_TAKEN = unacceptable("company-key-taken");

function refusalOf(error: unknown, crmId: string): Refusal {
  const taken = takenBy(error);
  if (taken === undefined) throw error;
  return taken === "crm-id" ? unacceptable("company-exists", { company: crmId }) : KEY_TAKEN;
}
