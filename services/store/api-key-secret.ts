import { apiKeySecretOf, makeKeyring, open, seal, secretsOf } from "../core/secret-box.ts";
import { type Db, queryRows } from "../platform/db.ts";
import { UnsuitableDatabase } from "../platform/unsuitable-database.ts";
import { opensWhatIsSealed } from "./sealed-columns.ts";

const NAME = "api key secret";
/** What the operator writes in its place when the secret is lost, and with it all that it sealed (docs/operations.md). */
const LOST = "";

/**
 * Completes the keyring with what digests of API keys are made with, which is the deployment's first secret for good. It
 * is noted, sealed, by the first who comes with one secret alone and may write it: of several, nobody could tell later
 * which was the first.
 * @throws UnsuitableDatabase when it was sealed with none of the keyring's secrets, or nothing is noted and something else
 *   was sealed with none of them
 */
export async function withApiKeySecret(db: Db, keyring: string): Promise<string> {
  const noted = await readSealed(db);
  const sealed = noted || (await noteFirst(db, keyring, { replacesLost: noted === LOST }));
  if (sealed === undefined) return keyring;
  const opened = open(keyring, NAME, sealed);
  if (!opened.ok) throw otherSecret();
  return makeKeyring(secretsOf(keyring), opened.value.toString("utf8"));
}

/** Keeps it, sealed with the secret in force, so that the secrets before may be forgotten. */
export async function keepApiKeySecret(db: Db, keyring: string): Promise<void> {
  await queryRows(
    db,
    "insert into deployment_facts (name, value) values (?, ?) on conflict (name) do update set value = excluded.value",
    [NAME, seal(keyring, NAME, apiKeySecretOf(keyring))],
  );
}

function otherSecret(): UnsuitableDatabase {
  return new UnsuitableDatabase(
    "PALOMAR_SECRET is not the one of this database; unset, it is the file `secret` in the data folder",
  );
}

async function readSealed(db: Db): Promise<string | undefined> {
  const [row] = await queryRows<{ value: string }>(db, "select value from deployment_facts where name = ?", [NAME]);
  return row?.value;
}

/** @returns what is noted now, by us or by somebody else at the same moment; undefined when nothing is */
async function noteFirst(
  db: Db,
  keyring: string,
  { replacesLost }: { readonly replacesLost: boolean },
): Promise<string | undefined> {
  const [role] = await queryRows<{ mayNote: boolean }>(
    db,
    `select has_table_privilege('deployment_facts', 'insert') as "mayNote"`,
  );
  if (secretsOf(keyring).length > 1 || !role!.mayNote) return undefined;
  // The database of a release that noted nothing: the wrong secret, noted, would lock the right one out.
  if (!replacesLost && !(await opensWhatIsSealed(db, keyring))) throw otherSecret();
  await queryRows(
    db,
    `insert into deployment_facts (name, value) values (?, ?)
     on conflict (name) do update set value = excluded.value where deployment_facts.value = ?`,
    [NAME, seal(keyring, NAME, apiKeySecretOf(keyring)), LOST],
  );
  return readSealed(db);
}
