import type { Db } from "../../../platform/postgres/db.ts";
import { lockAddress } from "./contacts.ts";

/** Protects an address, contact or not, from invalidation; repeating it changes nothing. */
export async function addToWhitelist(db: Db, instanceId: number, emailKey: string): Promise<void> {
  await db.transaction(async (transaction) => {
    await lockAddress(transaction, instanceId, emailKey);
    await transaction("whitelist").insert({ instance_id: instanceId, email_key: emailKey }).onConflict().ignore();
  });
}

/** Ends the protection; of an address that has none it changes nothing. */
export async function removeFromWhitelist(db: Db, instanceId: number, emailKey: string): Promise<void> {
  await db.transaction(async (transaction) => {
    await lockAddress(transaction, instanceId, emailKey);
    await transaction("whitelist").where({ instance_id: instanceId, email_key: emailKey }).delete();
  });
}

export async function isWhitelisted(db: Db, instanceId: number, emailKey: string): Promise<boolean> {
  const row = await db("whitelist").where({ instance_id: instanceId, email_key: emailKey }).first("email_key");
  return row !== undefined;
}
