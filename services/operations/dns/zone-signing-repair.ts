import type { DomainName } from "../../core/dns/name.ts";
import { ok, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { REPAIR_ACTOR } from "../../store/dns/zone-history.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { inSnapshot } from "../../store/transactions.ts";
import { changeZone } from "./zone-changes.ts";
import { deriveChange, isWellSigned, type ZoneSigner } from "./zone-signing.ts";
import { findSignedZone, nextVersion, type SigningTarget } from "./zone-signing-state.ts";
import { isNotSigned } from "./zone-signing-switch.ts";

/**
 * Compares a signed zone with what it should be, and makes it so: a version of its own, which the history shows.
 * @returns the zone, when it was not so
 */
export async function repairZone(db: Db, apex: DomainName, signer: ZoneSigner): Promise<Zone | undefined> {
  const target: SigningTarget = {
    scope: {},
    apex,
    domain: zoneName(apex),
    actor: REPAIR_ACTOR,
    signer,
    quotas: "count",
  };
  const isRight = await inSnapshot(db, async (snapshot) => {
    const found = await findSignedZone(snapshot, target);
    // Deleted, or no longer signed, since the list was made.
    return !found.ok || ((await isWellSigned(snapshot, found.value.zone, signer)) ?? true);
  });
  if (isRight) return undefined;
  const changed = await changeZone(db, target, async (on) => {
    const found = await findSignedZone(on, target);
    if (!found.ok) return found;
    const { zone } = found.value;
    const change = nextVersion(zone, signer);
    const derived = await deriveChange(on, zone, change, { signer, extent: "zone" });
    if (!derived) return refuse(isNotSigned(target.domain));
    return derived.ok ? ok({ zone, change: { ...change, derived: derived.value }, warnings: [] }) : derived;
  });
  return changed.ok ? changed.value.zone : undefined;
}
