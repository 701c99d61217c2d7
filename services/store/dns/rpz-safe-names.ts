import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { zoneName } from "./zones.ts";

/** The names that no rule may block, in canonical order. */
export async function listSafeNames(db: Db): Promise<string[]> {
  const rows = await db("rpz_safe_names").select("name").orderBy("name_key");
  return rows.map(({ name }) => name);
}

/** Does nothing when the name is safe already. */
export async function insertSafeName(transaction: Transaction, name: DomainName): Promise<void> {
  await transaction("rpz_safe_names")
    .insert({ name: zoneName(name), name_key: nameSortKey(name.wire) })
    .onConflict()
    .ignore();
}

/** @returns false when the name was not safe */
export async function removeSafeName(db: Db, name: DomainName): Promise<boolean> {
  const removed = await db("rpz_safe_names")
    .where({ name: zoneName(name) })
    .delete();
  return removed > 0;
}
