import type { ListingWords } from "../../../core/mail/suppression.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { lockAddress } from "./contacts.ts";

/** Protects an address, contact or not, from invalidation; repeating it changes nothing. */
export async function addToWhitelist(db: Db, instanceId: number, emailKey: string): Promise<void> {
  await db.transaction(async (transaction) => {
    await lockAddress(transaction, instanceId, emailKey);
    await listAsWhite(transaction, instanceId, emailKey, { note: "", creator: "" });
  });
}

/** The same of an address that is locked already, with words, where they are others than before; it keeps its beginning. */
export async function listAsWhite(
  transaction: Transaction,
  instanceId: number,
  emailKey: string,
  { note, creator, since }: ListingWords,
): Promise<void> {
  await queryRows(
    transaction,
    `insert into whitelist as kept (instance_id, email_key, note, creator, created_at)
     values ($1, $2, $3, $4, $5::timestamptz)
     on conflict (instance_id, email_key) do update set note = excluded.note, creator = excluded.creator
       where excluded.note <> '' and excluded.note <> kept.note`,
    [instanceId, emailKey, note, creator, (since ?? new Date()).toISOString()],
  );
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
