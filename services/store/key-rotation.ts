import { type Db, isUniqueViolation, queryRows } from "../platform/postgres/db.ts";

/** A key in the place of another. */
export interface NewKey {
  readonly keyHash: Uint8Array;
  /** Until when the key before it is accepted as well; null: no longer. */
  readonly graceUntil: Date | null;
}

/** What the replaced key had beside it. */
export interface ReplacedKey {
  /** Until when the key before it was to be accepted as well, which it is no more; null: it had none. */
  readonly olderUntil: Date | null;
}

/** @returns undefined when there is no such reseller */
export async function rotateResellerKey(db: Db, id: string, key: NewKey): Promise<ReplacedKey | undefined> {
  return replaceKey(db, "resellers", id, key);
}

/** @returns undefined when another instance has this key */
export async function rotateInstanceKey(db: Db, id: number, key: NewKey): Promise<ReplacedKey | undefined> {
  try {
    return await replaceKey(db, "instances", id, key);
  } catch (error) {
    if (isUniqueViolation(error)) return undefined;
    throw error;
  }
}

/** Replaces what of a token opens the API. */
export async function rotateTokenSecret(db: Db, id: number, key: NewKey): Promise<ReplacedKey | undefined> {
  return replaceKey(db, "dns_tokens", id, key);
}

/** The column that has the digest of a key, and what those of the key before it begin with. */
const COLUMNS = {
  resellers: { hash: "key_hash", previous: "previous_key" },
  instances: { hash: "key_hash", previous: "previous_key" },
  dns_tokens: { hash: "token_hash", previous: "previous" },
} as const;

/** Only one former key is kept: one that is still in its grace ends with the next rotation. */
async function replaceKey(
  db: Db,
  table: keyof typeof COLUMNS,
  id: string | number,
  { keyHash, graceUntil }: NewKey,
): Promise<ReplacedKey | undefined> {
  const { hash, previous } = COLUMNS[table];
  const [replaced] = await queryRows<ReplacedKey>(
    db,
    `update ${table} as own set ${hash} = $1, ${previous}_until = $2::timestamptz,
            ${previous}_hash = case when $2::timestamptz is null then null else own.${hash} end
       from ${table} as former where own.id = $3 and former.id = own.id
     returning former.${previous}_until as "olderUntil"`,
    [keyHash, graceUntil?.toISOString() ?? null, id],
  );
  return replaced;
}
