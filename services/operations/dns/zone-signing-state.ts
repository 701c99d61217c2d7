import { generateSigningKey, publicKeyOctets, type SigningAlgorithm } from "../../core/dns/dnssec/algorithm.ts";
import { dnskeyRdata, type KeyRole, keyTag } from "../../core/dns/dnssec/dnskey.ts";
import { type KeyLife, nextStepAt, type ZoneTiming } from "../../core/dns/dnssec/rollover.ts";
import { NO_USAGE } from "../../core/dns/quotas.ts";
import { nextSerialAnyway } from "../../core/dns/serial.ts";
import type { ZoneChange } from "../../core/dns/zone-edit.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { signingPolicy } from "../../platform/config/dnssec-policy.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  deleteSigning,
  readSigning,
  type SeenParent,
  type SigningState,
  type StoredKey,
  sealPrivateKey,
  writeSigning,
} from "../../store/dns/dnssec-keys.ts";
import { firstExpiry, readAllDerived } from "../../store/dns/dnssec-records.ts";
import { readCaching, writeDue, writeSigned } from "../../store/dns/dnssec-zones.ts";
import { charge, type QuotaMode, withinQuotas } from "../../store/dns/quotas.ts";
import { readOwner } from "../../store/dns/zone-usage.ts";
import { findZone, lockZones, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { changeZone, type ZoneTarget } from "./zone-changes.ts";
import { admitWhole } from "./zone-file-size.ts";
import { deriveChange, type ZoneSigner } from "./zone-signing.ts";

/** A zone whose signing is to be changed. */
export type SigningTarget = ZoneTarget & { readonly signer: ZoneSigner };

/** A zone and how it is signed; `state` is undefined when it is not. */
export interface SignedZone {
  readonly zone: Zone;
  readonly state: SigningState | undefined;
}

/** What is to become of a zone's signing, and how much of its data that concerns. */
export interface SigningDecision {
  /** Undefined: it is no longer signed. */
  readonly state: SigningState | undefined;
  /** `nothing`: only what we know of it changes, not its data. */
  readonly extent: "nothing" | "apex" | "zone";
}

/** How a zone of the scope is signed. */
export async function findSignedZone(
  db: Db,
  { scope, apex, domain }: Pick<ZoneTarget, "scope" | "apex" | "domain">,
): Promise<Result<SignedZone, Refusal>> {
  const zone = await findZone(db, scope, apex);
  if (!zone) return refuse(zoneDoesNotExist(domain));
  return ok({ zone, state: zone.signed ? await readSigning(db, zone.id) : undefined });
}

/**
 * Changes how a zone is signed, in one transaction with all that it makes of the zone's data, so that whoever reads the
 * zone sees it signed in one way or in the other. Other changes of the zone wait for it.
 * @param decide decides on the locked zone; a refusal changes nothing
 * @returns refused also where the signatures are more than the quotas allow
 */
export function changeSigning(
  db: Db,
  target: SigningTarget,
  decide: (transaction: Transaction, before: SignedZone) => Promise<Result<SigningDecision, Refusal>>,
): Promise<Result<SignedZone, Refusal>> {
  return withinQuotas(db, () => changeWithinQuotas(db, target, decide));
}

function changeWithinQuotas(
  db: Db,
  target: SigningTarget,
  decide: (transaction: Transaction, before: SignedZone) => Promise<Result<SigningDecision, Refusal>>,
): Promise<Result<SignedZone, Refusal>> {
  return inTransaction(db, async (transaction): Promise<Result<SignedZone, Refusal>> => {
    const found = await findSignedZone(transaction, target);
    if (!found.ok) return found;
    await lockZones(transaction, "id = $1", [found.value.zone.id]);
    const before = await findSignedZone(transaction, target);
    if (!before.ok) return before;
    const decided = await decide(transaction, before.value);
    if (!decided.ok) return decided;
    const { state, extent } = decided.value;
    const { zone } = before.value;
    if (state && !state.keys.some(({ isPublished, signsZone }) => isPublished && signsZone)) {
      throw new Error(`zone ${zone.id} would have no key for its data`);
    }
    if (state)
      await writeSigning(transaction, zone.id, state, await nextDue(transaction, zone.id, state, target.signer));
    else if (before.value.state) await deleteSigning(transaction, zone.id);
    const signed = state !== undefined;
    if (signed !== zone.signed) await writeSigned(transaction, zone.id, signed);
    if (extent === "nothing") return ok({ zone: { ...zone, signed }, state });
    if (extent === "zone") await admitWhole(transaction, target);
    const changed = await writeVersion(transaction, { ...zone, signed }, target, extent);
    // New signatures may end sooner than what there was, and after the first there are any at all.
    if (state) await writeDue(transaction, zone.id, await nextDue(transaction, zone.id, state, target.signer));
    // Last, as others wait for the row of the reseller's quotas until the commit.
    if (signed !== zone.signed) await chargeSigned(transaction, zone.id, signed, target.quotas);
    return ok({ zone: changed, state });
  });
}

/** Counts a zone as one that is signed, or no longer. */
async function chargeSigned(db: Db, zoneId: number, signed: boolean, mode: QuotaMode | undefined): Promise<void> {
  const owner = await readOwner(db, zoneId);
  await charge(db, owner, { ...NO_USAGE, signed_zones: signed ? 1 : -1 }, { mode });
}

/**
 * What the waits of key changes depend on.
 * @param parent undefined while the zone is not signed
 */
export async function timingOf(
  db: Db,
  { id, ttl }: Pick<Zone, "id" | "ttl">,
  { now, parent }: { readonly now: Date; readonly parent?: SeenParent | undefined },
): Promise<ZoneTiming> {
  const cached = await readCaching(db, id);
  const cachedSeconds = Math.ceil(((cached?.until?.getTime() ?? 0) - now.getTime()) / 1000);
  return {
    policy: signingPolicy,
    largestTtlSeconds: Math.max(ttl, cached?.largestTtlSeconds ?? 0, cachedSeconds),
    parentDsTtlSeconds: parent?.dsTtlSeconds ?? null,
  };
}

/** A private key and its role, of which a stored key is made. */
export interface KeyMaterial {
  readonly role: KeyRole;
  readonly algorithm: SigningAlgorithm;
  /** PKCS #8 DER. */
  readonly pkcs8: Uint8Array;
  readonly publicKey: Uint8Array;
}

/** What is known of a key before it has a life. */
export type NewKey = Omit<StoredKey, Exclude<keyof KeyLife, "role" | "algorithm" | "keyTag">>;

/** Makes keys of these roles. */
export async function makeKeys(
  roles: readonly KeyRole[],
  algorithm: SigningAlgorithm,
  taken: readonly KeyLife[],
  signer: ZoneSigner,
): Promise<NewKey[]> {
  const keys: NewKey[] = [];
  while (keys.length < roles.length) {
    const privateKey = await generateSigningKey(algorithm);
    const key = keyFrom(
      {
        role: roles[keys.length]!,
        algorithm,
        pkcs8: privateKey.export({ format: "der", type: "pkcs8" }),
        publicKey: publicKeyOctets(algorithm, privateKey),
      },
      signer,
    );
    // A tag that is taken would be lawful, but validators and people would have to try both keys.
    if (![...taken, ...keys].some(({ keyTag: tag }) => tag === key.keyTag)) keys.push(key);
  }
  return keys;
}

export function keyFrom({ role, algorithm, pkcs8, publicKey }: KeyMaterial, { keyRing, clock }: ZoneSigner): NewKey {
  return {
    role,
    algorithm,
    keyTag: keyTag(dnskeyRdata(role, algorithm, publicKey)),
    publicKey,
    privateKeySealed: sealPrivateKey(keyRing, pkcs8),
    createdAt: new Date(clock.nowMs()),
  };
}

/** When somebody has to look at a signed zone next: for its signatures, its keys, or the parent's DS. */
export async function nextDue(db: Db, zoneId: number, state: SigningState, { clock }: ZoneSigner): Promise<Date> {
  const expires = await firstExpiry(db, zoneId);
  const times = [nextStepAt(state.keys, signingPolicy), nextParentCheck(state, new Date(clock.nowMs()))];
  if (expires !== undefined) times.push(new Date((expires - signingPolicy.signatures.refreshSeconds) * 1000));
  const wanted = times.filter((time) => time !== null).map((time) => time.getTime());
  return new Date(Math.min(...wanted, clock.nowMs() + LONGEST_REST_MS));
}

/**
 * When the parent is to be asked for its DS; null when nothing depends on it. The longer it has kept us waiting, the
 * longer until the next time: many zones are signed whose parents never get to know.
 */
export function nextParentCheck({ keys, dsWanted, dsWishedAt, parent }: SigningState, now: Date): Date | null {
  const awaited = keys.filter(({ role, state, hasDs }) => {
    if (role === "zsk") return false;
    return dsWanted ? state === "published" || state === "ready" || state === "retired" : hasDs;
  });
  if (awaited.length === 0) return null;
  if (!parent.checkedAt) return now;
  const since = Math.max(dsWishedAt?.getTime() ?? 0, ...awaited.map((key) => key.since.getTime()));
  const restMs = Math.max(
    signingPolicy.parentCheckSeconds * 1000,
    Math.min((now.getTime() - since) / 10, LONGEST_REST_MS),
  );
  return new Date(parent.checkedAt.getTime() + restMs);
}

/** Even where nothing is expected. */
const LONGEST_REST_MS = 86_400_000;

async function writeVersion(
  transaction: Transaction,
  zone: Zone,
  target: SigningTarget,
  extent: "apex" | "zone",
): Promise<Zone> {
  const changed = await changeZone(transaction, target, async (on) => {
    const change = nextVersion(zone, target.signer);
    if (!zone.signed) {
      const derived = { deleted: await readAllDerived(on, zone.id), added: [] };
      return ok({ zone, change: { ...change, derived }, warnings: [] });
    }
    const derived = await deriveChange(on, zone, change, { signer: target.signer, extent });
    if (!derived) throw new Error(`zone ${zone.id} is signed, but has no keys`);
    return derived.ok ? ok({ zone, change: { ...change, derived: derived.value }, warnings: [] }) : derived;
  });
  if (!changed.ok) throw new Error(`a locked zone could not be signed: ${JSON.stringify(changed.error)}`);
  return changed.value.zone;
}

/**
 * A version in which only signing changes. Signatures must not end because a calendar has no serial left for the day.
 * @param changes by how many the serial increases
 */
export function nextVersion({ soa, ttl, serialType }: Zone, { clock }: ZoneSigner, changes = 1): ZoneChange {
  return {
    soa: { ...soa, serial: nextSerialAnyway(soa.serial, serialType, new Date(clock.nowMs()), changes) },
    ttl,
    rows: { deletedIds: [], updated: [], created: [] },
    difference: { deleted: [], added: [] },
  };
}
