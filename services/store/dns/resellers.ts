import type { Db } from "../../platform/postgres/db.ts";
import { isUniqueViolation } from "../../platform/postgres/db.ts";

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

/** @returns false when there is no such reseller */
export async function renameReseller(db: Db, id: string, name: string): Promise<boolean> {
  return (await db("resellers").where({ id }).update({ name })) > 0;
}

/** @returns false when there is no such reseller */
export async function setRpzLicence(db: Db, id: string, rpzLicence: boolean): Promise<boolean> {
  return (await db("resellers").where({ id }).update({ rpz_licence: rpzLicence })) > 0;
}
