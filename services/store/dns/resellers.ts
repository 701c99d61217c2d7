import { type Db, isUniqueViolation, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { MAKERS_LOCK } from "./companies.ts";

export interface Reseller {
  readonly id: string;
  readonly name: string;
  readonly rpzLicence: boolean;
}

/** Adds a reseller. @returns false when the id is taken */
export async function addReseller(db: Db, reseller: Reseller & { readonly keyHash: Buffer }): Promise<boolean> {
  try {
    await db("resellers").insert({
      id: reseller.id,
      name: reseller.name,
      key_hash: reseller.keyHash,
      rpz_licence: reseller.rpzLicence,
    });
    return true;
  } catch (error) {
    if (isUniqueViolation(error)) return false;
    throw error;
  }
}

export async function findReseller(db: Db, id: string): Promise<Reseller | undefined> {
  const row = await db("resellers").where({ id }).first("id", "name", "rpz_licence");
  return row && { id: row.id, name: row.name, rpzLicence: row.rpz_licence };
}

export async function listResellers(db: Db): Promise<Reseller[]> {
  const rows = await db("resellers").select("id", "name", "rpz_licence").orderBy("id");
  return rows.map((row) => ({ id: row.id, name: row.name, rpzLicence: row.rpz_licence }));
}

/** Those of these ids that no reseller has. */
export async function listUnknownResellers(db: Db, ids: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ id: string }>(
    db,
    "select distinct id from unnest($1::text[]) as asked (id) where not exists (select from resellers r where r.id = asked.id) order by 1",
    [[...ids]],
  );
  return rows.map(({ id }) => id);
}

/** @returns false when there is no such reseller */
export async function renameReseller(db: Db, id: string, name: string): Promise<boolean> {
  return (await db("resellers").where({ id }).update({ name })) > 0;
}

/** @returns false when there is no such reseller */
export async function setRpzLicence(db: Db, id: string, rpzLicence: boolean): Promise<boolean> {
  return (await db("resellers").where({ id }).update({ rpz_licence: rpzLicence })) > 0;
}

/** Some of a reseller's zones, its catalogs first, which would otherwise follow the others as they go. */
export async function listZonesOfReseller(db: Db, id: string, limit: number): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    db,
    `(select id from zones where reseller_id = $1 and kind = 'catalog' limit $2)
     union all
     (select id from zones where reseller_id = $3 and kind = 'primary' order by name_key limit $4)
     limit $5`,
    [id, limit, id, limit, limit],
  );
  return rows.map((row) => row.id);
}

/**
 * Keeps a reseller from getting zones and companies until the transaction ends. Its companies are locked first, as who
 * makes a zone has one before it looks the reseller up.
 * @returns `gone` where there is none, `overtaken` where it got a company meanwhile: then the transaction is to end
 */
export async function lockReseller(transaction: Transaction, id: string): Promise<"locked" | "gone" | "overtaken"> {
  await queryRows(transaction, `select pg_advisory_xact_lock(${MAKERS_LOCK})`, [id]);
  const companies = () => transaction("companies").where({ reseller_id: id }).orderBy("id").select("id");
  const locked = await companies().forNoKeyUpdate();
  if (!(await transaction("resellers").where({ id }).forUpdate().first("id"))) return "gone";
  return (await companies()).length === locked.length ? "locked" : "overtaken";
}

/** Deletes a reseller that has no zones, with its companies and all else that it has. */
export async function deleteResellerRow(transaction: Transaction, id: string): Promise<void> {
  await transaction("resellers").where({ id }).delete();
}
