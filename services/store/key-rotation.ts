import { type Db, isUniqueViolation } from "../platform/postgres/db.ts";

/**
 * Replaces a reseller's key.
 * @param graceUntil until when the key before it is accepted as well; null: no longer
 * @returns false when there is no such reseller
 */
export async function rotateResellerKey(
  db: Db,
  id: string,
  keyHash: Buffer,
  graceUntil: Date | null,
): Promise<boolean> {
  return (
    (await db("resellers")
      .where({ id })
      .update(newKey(db, keyHash, graceUntil))) > 0
  );
}

/** Replaces an instance's key, in the same way. @returns false when another instance has this key */
export async function rotateInstanceKey(
  db: Db,
  id: number,
  keyHash: Buffer,
  graceUntil: Date | null,
): Promise<boolean> {
  try {
    await db("instances")
      .where({ id })
      .update(newKey(db, keyHash, graceUntil));
    return true;
  } catch (error) {
    if (isUniqueViolation(error)) return false;
    throw error;
  }
}

/** Only one former key is kept: one that is still in its grace ends with the next rotation. */
function newKey(db: Db, keyHash: Buffer, graceUntil: Date | null) {
  return {
    previous_key_hash: graceUntil === null ? null : db.ref("key_hash"),
    previous_key_until: graceUntil,
    key_hash: keyHash,
  };
}
