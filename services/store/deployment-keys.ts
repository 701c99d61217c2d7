import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { ALL_PURPOSES, API_KEY_KINDS, type ApiKeyKind, type KeyPurpose } from "../core/key-purposes.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { open, seal } from "../core/secret-box.ts";
import { type Db, queryRows } from "../platform/postgres/db.ts";
import { UnsuitableDatabase } from "../platform/postgres/unsuitable-database.ts";
import { listUnopened } from "./sealed-columns.ts";

const NAME = "keys";
const MARK_OCTETS = 8;

/** What the database notes of the keys that it goes with, as JSON. */
interface NotedKeys {
  /** Of each purpose the mark of its key: tells the right key from another and gives neither away. */
  readonly marks: { readonly [purpose in KeyPurpose]?: string };
  /** What digests of API keys are made with, each sealed for the services that make such digests. */
  readonly digestKeys: { readonly [kind in ApiKeyKind]: string };
}

/**
 * Completes a key ring with what digests of API keys are made with, which comes from the deployment's first secret for
 * good. It is noted, sealed, by the first who comes with one secret alone and may write it: of several, nobody could tell
 * later which was the first.
 * @throws UnsuitableDatabase when a key is not this database's, nothing is noted for a service that has no secret, or
 *   nothing is noted and something was sealed with none of the keys
 */
export async function completeKeyRing(db: Db, keyRing: KeyRing): Promise<KeyRing> {
  const text = (await readNoted(db)) ?? (await noteFirst(db, keyRing));
  const opens = API_KEY_KINDS.filter((kind) => keyRing.holds(`api-key-${kind}`));
  if (text === undefined) {
    if (keyRing.secretCount > 0 || opens.length === 0) return keyRing;
    throw new UnsuitableDatabase("the database knows no keys yet: run `palomar migrate` with PALOMAR_SECRET");
  }
  const noted: NotedKeys = JSON.parse(text);
  const [stranger] = listStrangers(keyRing, noted);
  if (stranger !== undefined) throw notOurs(keyRing, stranger);
  return keyRing.withDigestKeys(new Map(opens.map((kind) => [kind, openDigestKey(keyRing, kind, noted)])));
}

/** Notes the keys in force, so that the secrets before may be forgotten. @param keyRing complete, of the secret */
export async function keepDeploymentKeys(db: Db, keyRing: KeyRing): Promise<void> {
  await queryRows(
    db,
    "insert into deployment_facts (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
    [NAME, describe(keyRing)],
  );
}

/**
 * Has the database go with another secret than the one that it goes with, which is lost, and with it all that it sealed.
 * @param keyRing of the secret
 * @returns false when nothing is lost: the database goes with one of its secrets
 */
export async function replaceLostKeys(db: Db, keyRing: KeyRing): Promise<boolean> {
  const text = await readNoted(db);
  const strangers = text === undefined ? await listUnopened(db, keyRing) : listStrangers(keyRing, JSON.parse(text));
  if (strangers.length > 0) await keepDeploymentKeys(db, keyRing);
  return strangers.length > 0;
}

function describe(keyRing: KeyRing): string {
  const noted: NotedKeys = {
    marks: Object.fromEntries(ALL_PURPOSES.map((purpose) => [purpose, markOf(keyRing.keyFor(purpose))])),
    digestKeys: Object.fromEntries(
      API_KEY_KINDS.map((kind) => [kind, seal(keyRing, `api-key-${kind}`, keyRing.digestKey(kind).export())]),
    ) as NotedKeys["digestKeys"],
  };
  return JSON.stringify(noted);
}

function openDigestKey(keyRing: KeyRing, kind: ApiKeyKind, { digestKeys }: NotedKeys): KeyObject {
  const opened = open(keyRing, `api-key-${kind}`, digestKeys[kind]);
  if (!opened.ok) throw notOurs(keyRing, `api-key-${kind}`);
  return createSecretKey(opened.value);
}

/** The purposes of which the key is another than the one that is noted. */
function listStrangers(keyRing: KeyRing, { marks }: NotedKeys): KeyPurpose[] {
  return keyRing.purposes.filter((purpose) => !hasMark(keyRing, purpose, marks[purpose]));
}

/** A purpose that a release brings has no mark before the keys are noted the next time. */
function hasMark(keyRing: KeyRing, purpose: KeyPurpose, mark: string | undefined): boolean {
  return mark === undefined || keyRing.keysFor(purpose).some((key) => markOf(key) === mark);
}

function markOf(key: KeyObject): string {
  return createHmac("sha256", key)
    .update("Palomar's mark of a key")
    .digest("hex")
    .slice(0, 2 * MARK_OCTETS);
}

function notOurs(keyRing: KeyRing, purpose: KeyPurpose): UnsuitableDatabase {
  return keyRing.secretCount === 0
    ? new UnsuitableDatabase(`PALOMAR_KEYS are not those of this database: the key of "${purpose}" is another`)
    : new UnsuitableDatabase(
        "PALOMAR_SECRET is not the one of this database; unset, it is the file `secret` in the data folder",
      );
}

/** @returns undefined when nothing is noted; an empty note, as operators once wrote it to go on without a secret, is none */
async function readNoted(db: Db): Promise<string | undefined> {
  const [row] = await queryRows<{ value: string }>(db, "select value from deployment_facts where name = $1", [NAME]);
  return row?.value || undefined;
}

/** @returns what is noted now, by us or by somebody else at the same moment; undefined when nothing is */
async function noteFirst(db: Db, keyRing: KeyRing): Promise<string | undefined> {
  const [role] = await queryRows<{ mayNote: boolean }>(
    db,
    `select has_table_privilege('deployment_facts', 'insert') as "mayNote"`,
  );
  if (keyRing.secretCount !== 1 || !role!.mayNote) return undefined;
  // A database that has sealed values and no note of its keys: the wrong secret, noted, would lock the right one out.
  if ((await listUnopened(db, keyRing)).length > 0) throw notOurs(keyRing, "backup");
  await queryRows(
    db,
    `insert into deployment_facts as noted (name, value) values ($1, $2)
     on conflict (name) do update set value = excluded.value where noted.value = ''`,
    [NAME, describe(keyRing)],
  );
  return readNoted(db);
}
