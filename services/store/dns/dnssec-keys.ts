import { createPrivateKey } from "node:crypto";
import { isSigningAlgorithm } from "../../core/dns/dnssec/algorithm.ts";
import type { PublishedKey } from "../../core/dns/dnssec/apex-records.ts";
import type { Denial } from "../../core/dns/dnssec/denial.ts";
import type { SigningKey } from "../../core/dns/dnssec/rrsig.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { open, seal } from "../../core/secret-box.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A key of a signed zone, its private half sealed. */
export interface StoredKey extends PublishedKey {
  readonly privateKeySealed: string;
  readonly createdAt: Date;
}

/** How a zone is signed. */
export interface SigningState {
  readonly denial: Denial;
  /** False: CDS and CDNSKEY ask the parent to remove its DS. */
  readonly dsWanted: boolean;
  /** When that was changed last; null: never. */
  readonly dsWishedAt: Date | null;
  /** Whether the DS in a parent that is hosted here in the same hand follows CDS by itself. */
  readonly dsAutomatic: boolean;
  /** Since when the parent has no DS any more. */
  readonly dsGoneAt: Date | null;
  readonly parent: SeenParent;
  /** In the order in which they were made. */
  readonly keys: readonly StoredKey[];
}

/** What is known of a zone's parent. */
export interface SeenParent {
  /** RDATA of its DS records when it last answered; null when it never did. */
  readonly ds: readonly Uint8Array[] | null;
  /** Whether that answer was authenticated; null when there was none. */
  readonly authenticated: boolean | null;
  /** TTL of the last DS that it had; null when none has been seen. */
  readonly dsTtlSeconds: number | null;
  /** When it was asked last, whether it answered or not. */
  readonly checkedAt: Date | null;
}

const SEAL_PURPOSE = "dnssec-key";

/** How a zone is signed; undefined when it is not. */
export async function readSigning(db: Db, zoneId: number): Promise<SigningState | undefined> {
  const rows = await queryRows<SigningRow>(
    db,
    `select s.denial, s.ds_wanted, s.ds_wished_at, s.ds_automatic, s.ds_gone_at, s.parent_ds, s.parent_authenticated,
            s.parent_ds_ttl, s.parent_checked_at, k.*
       from zone_signing s join zone_keys k on k.zone_id = s.zone_id
      where s.zone_id = $1 order by k.created_at, k.role, k.key_tag`,
    [zoneId],
    { name: "read-signing" },
  );
  const [first] = rows;
  if (!first) return undefined;
  return {
    denial: first.denial,
    dsWanted: first.ds_wanted,
    dsWishedAt: first.ds_wished_at,
    dsAutomatic: first.ds_automatic,
    dsGoneAt: first.ds_gone_at,
    parent: {
      ds: first.parent_ds,
      authenticated: first.parent_authenticated,
      dsTtlSeconds: first.parent_ds_ttl,
      checkedAt: first.parent_checked_at,
    },
    keys: rows.map(keyOf),
  };
}

/** Writes how a zone is signed, its keys included, in the place of what was there. */
export async function writeSigning(db: Db, zoneId: number, state: SigningState, dueAt: Date): Promise<void> {
  const { parent } = state;
  await queryRows(
    db,
    `insert into zone_signing (zone_id, denial, ds_wanted, ds_wished_at, ds_automatic, ds_gone_at, parent_ds,
                               parent_authenticated, parent_ds_ttl, parent_checked_at, due_at, checked_at)
     values ($1, $2, $3, $4, $5, $6, $7::bytea[], $8, $9, $10, $11, now())
     on conflict (zone_id) do update
        set denial = excluded.denial, ds_wanted = excluded.ds_wanted, ds_wished_at = excluded.ds_wished_at,
            ds_automatic = excluded.ds_automatic, ds_gone_at = excluded.ds_gone_at, parent_ds = excluded.parent_ds,
            parent_authenticated = excluded.parent_authenticated, parent_ds_ttl = excluded.parent_ds_ttl,
            parent_checked_at = excluded.parent_checked_at, due_at = excluded.due_at`,
    [
      ...[zoneId, state.denial, state.dsWanted, state.dsWishedAt, state.dsAutomatic, state.dsGoneAt],
      ...[parent.ds?.map((rdata) => Buffer.from(rdata)) ?? null, parent.authenticated, parent.dsTtlSeconds],
      ...[parent.checkedAt, dueAt],
    ],
  );
  await queryRows(db, "delete from zone_keys where zone_id = $1", [zoneId]);
  for (const key of state.keys) await db("zone_keys").insert({ zone_id: zoneId, ...columnsOf(key) });
}

/** Forgets how a zone was signed, with its keys. */
export async function deleteSigning(db: Db, zoneId: number): Promise<void> {
  await queryRows(db, "delete from zone_signing where zone_id = $1", [zoneId]);
}

/** Seals a private key for the table. @param pkcs8 DER */
export function sealPrivateKey(keyRing: KeyRing, pkcs8: Uint8Array): string {
  return seal(keyRing, SEAL_PURPOSE, pkcs8);
}

/** @throws when it cannot be opened: PALOMAR_SECRET was changed */
export function openSigningKey(keyRing: KeyRing, key: StoredKey): SigningKey {
  const { algorithm, keyTag } = key;
  if (!isSigningAlgorithm(algorithm)) throw new Error(`key ${keyTag} has the algorithm ${algorithm}`);
  const pkcs8 = open(keyRing, SEAL_PURPOSE, key.privateKeySealed);
  if (!pkcs8.ok)
    throw new Error(`the private key ${keyTag} cannot be opened (${pkcs8.error}): was PALOMAR_SECRET changed?`);
  return { algorithm, keyTag, privateKey: createPrivateKey({ key: pkcs8.value, format: "der", type: "pkcs8" }) };
}

interface KeyRow {
  readonly key_tag: number;
  readonly role: StoredKey["role"];
  readonly algorithm: number;
  readonly public_key: Buffer;
  readonly private_key_sealed: string;
  readonly created_at: Date;
  readonly state: StoredKey["state"];
  readonly since: Date;
  readonly due_at: Date | null;
  readonly is_published: boolean;
  readonly signs_key_set: boolean;
  readonly signs_zone: boolean;
  readonly has_ds: boolean;
}

interface SigningRow extends KeyRow {
  readonly denial: Denial;
  readonly ds_wanted: boolean;
  readonly ds_wished_at: Date | null;
  readonly ds_automatic: boolean;
  readonly ds_gone_at: Date | null;
  readonly parent_ds: Buffer[] | null;
  readonly parent_authenticated: boolean | null;
  readonly parent_ds_ttl: number | null;
  readonly parent_checked_at: Date | null;
}

function keyOf(row: KeyRow): StoredKey {
  return {
    keyTag: row.key_tag,
    role: row.role,
    algorithm: row.algorithm,
    publicKey: row.public_key,
    privateKeySealed: row.private_key_sealed,
    createdAt: row.created_at,
    state: row.state,
    since: row.since,
    due: row.due_at,
    isPublished: row.is_published,
    signsKeySet: row.signs_key_set,
    signsZone: row.signs_zone,
    hasDs: row.has_ds,
  };
}

function columnsOf(key: StoredKey): KeyRow {
  return {
    key_tag: key.keyTag,
    role: key.role,
    algorithm: key.algorithm,
    public_key: Buffer.from(key.publicKey),
    private_key_sealed: key.privateKeySealed,
    created_at: key.createdAt,
    state: key.state,
    since: key.since,
    due_at: key.due,
    is_published: key.isPublished,
    signs_key_set: key.signsKeySet,
    signs_zone: key.signsZone,
    has_ds: key.hasDs,
  };
}
