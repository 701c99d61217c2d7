import type { TsigAlgorithm } from "../../core/dns/tsig.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { open, seal } from "../../core/secret-box.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A shared key of zone transfers (RFC 8945). */
export interface StoredTsigKey {
  /** A domain name in lower case without the final dot: unique in the deployment. */
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Buffer;
}

const SEAL_PURPOSE = "tsig-key";

/**
 * Adds a key.
 * @param tokenId the token whose policy it is held to
 * @returns its id; undefined when the deployment has a key of that name
 */
export async function addTsigKey(
  db: Db,
  keyRing: KeyRing,
  key: StoredTsigKey,
  tokenId?: number,
): Promise<number | undefined> {
  const { name, algorithm } = key;
  const [row] = await db("tsig_keys")
    .insert({ name, algorithm, secret_sealed: seal(keyRing, SEAL_PURPOSE, key.secret), token_id: tokenId ?? null })
    .onConflict("name")
    .ignore()
    .returning("id");
  return row?.id;
}

/** Removes the key of a token. */
export async function deleteTokenKey(db: Db, tokenId: number): Promise<void> {
  await db("tsig_keys").where({ token_id: tokenId }).delete();
}

/** The key of a name. */
export async function findTsigKey(db: Db, keyRing: KeyRing, name: string): Promise<StoredTsigKey | undefined> {
  const [row] = await queryRows<Parameters<typeof tsigKeyOf>[1]>(
    db,
    "select name, algorithm, secret_sealed from tsig_keys where name = $1",
    [name],
    { name: "find-tsig-key" },
  );
  return row && tsigKeyOf(keyRing, row);
}

/** All keys of the deployment, and the names of those whose secrets cannot be opened. */
export async function listTsigKeys(
  db: Db,
  keyRing: KeyRing,
): Promise<{ readonly keys: readonly StoredTsigKey[]; readonly unopened: readonly string[] }> {
  const rows = await db("tsig_keys").select("name", "algorithm", "secret_sealed").orderBy("id");
  const keys: StoredTsigKey[] = [];
  const unopened: string[] = [];
  for (const { name, algorithm, secret_sealed: sealed } of rows) {
    const secret = open(keyRing, SEAL_PURPOSE, sealed);
    if (secret.ok) keys.push({ name, algorithm, secret: secret.value });
    else unopened.push(name);
  }
  return { keys, unopened };
}

/** @throws when the secret cannot be opened: PALOMAR_SECRET was changed */
export function tsigKeyOf(
  keyRing: KeyRing,
  row: { readonly name: string; readonly algorithm: TsigAlgorithm; readonly secret_sealed: string },
): StoredTsigKey {
  const opened = open(keyRing, SEAL_PURPOSE, row.secret_sealed);
  if (!opened.ok) throw new Error(`the stored TSIG key ${row.name} is ${opened.error}: was PALOMAR_SECRET changed?`);
  return { name: row.name, algorithm: row.algorithm, secret: opened.value };
}
