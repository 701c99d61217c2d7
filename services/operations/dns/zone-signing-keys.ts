import { type BindKey, type BindKeyFiles, formatBindKey } from "../../core/dns/dnssec/bind-key-file.ts";
import type { KeyRole } from "../../core/dns/dnssec/dnskey.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { openSigningKey } from "../../store/dns/dnssec-keys.ts";
import { findSignedZone, type KeyMaterial, type SignedZone, type SigningTarget } from "./zone-signing-state.ts";
import { enableSigning, startRollover } from "./zone-signing-switch.ts";

/**
 * Signs a zone with keys that it has elsewhere, or brings keys into a signed zone as a rollover does.
 * @param keys one or more; one with the SEP bit is a KSK where there is one without it, else a combined key
 */
export async function importKeys(
  db: Db,
  target: SigningTarget,
  keys: readonly BindKey[],
): Promise<Result<SignedZone, Refusal>> {
  const hasZoneKey = keys.some(({ isEntryPoint }) => !isEntryPoint);
  const material = keys.map((key) => materialOf(key, key.isEntryPoint ? (hasZoneKey ? "ksk" : "csk") : "zsk"));
  const found = await findSignedZone(db, target);
  if (!found.ok) return found;
  const { state } = found.value;
  if (!state) return enableSigning(db, target, { keys: material });
  // Of a zone with two keys, one that comes by itself is a KSK.
  const isPair = state.keys.some(({ role }) => role === "ksk");
  const fitting = material.map((key) => (isPair && key.role === "csk" ? { ...key, role: "ksk" as const } : key));
  const request = { roles: fitting.map(({ role }) => role), algorithm: fitting[0]!.algorithm };
  return startRollover(db, target, request, fitting);
}

/** A key pair of a signed zone, as BIND's tools keep it. Refuses a key that the zone does not have. */
export async function exportKey(
  db: Db,
  target: SigningTarget,
  keyTag: number,
): Promise<Result<BindKeyFiles & { readonly algorithm: number }, Refusal>> {
  const found = await findSignedZone(db, target);
  if (!found.ok) return found;
  const key = found.value.state?.keys.find((candidate) => candidate.keyTag === keyTag);
  if (!key) return refuse(unacceptable("no-such-key", { domain: target.domain, tag: keyTag }));
  const { privateKey, algorithm } = openSigningKey(target.signer.keyRing, key);
  const { role, createdAt: created, isPublished } = key;
  const use = { created, isPublished, signs: key.signsKeySet || key.signsZone };
  return ok({ ...formatBindKey(target.apex, { role, algorithm, privateKey }, use), algorithm });
}

function materialOf({ algorithm, privateKey, publicKey }: BindKey, role: KeyRole): KeyMaterial {
  return { role, algorithm, publicKey, pkcs8: privateKey.export({ format: "der", type: "pkcs8" }) };
}
