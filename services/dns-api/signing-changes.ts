import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import { readHostedDs } from "../operations/dns/dnssec-hosted-parent.ts";
import { checkParentDs, updateHostedParent } from "../operations/dns/dnssec-parent.ts";
import { findSignedZone, type SignedZone, type SigningTarget } from "../operations/dns/zone-signing-state.ts";
import { disableSigning } from "../operations/dns/zone-signing-switch.ts";
import type { LookUpDs } from "../platform/lookups/ds-lookup.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { DnsApiContext } from "./context.ts";
import { changeWholeZone, zoneTarget } from "./zone-target.ts";

/** Changes how the zone of a path is signed. */
export function changeSigningOf(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  run: (target: SigningTarget) => Promise<Result<SignedZone, Refusal>>,
): Promise<Result<SignedZone, Refusal>> {
  return changeWholeZone(context, caller, domain, (target) => withParent(context, target, run));
}

/** Makes a change, after which a hosted parent has the DS that CDS asks for. */
export async function withParent(
  { db, announcer }: DnsApiContext,
  target: SigningTarget,
  run: (target: SigningTarget) => Promise<Result<SignedZone, Refusal>>,
): Promise<Result<SignedZone, Refusal>> {
  const changed = await run(target);
  const parent = changed.ok && changed.value.state ? await updateHostedParent(db, target) : undefined;
  if (!parent) return changed;
  announcer.announce([parent.id]);
  return findSignedZone(db, target);
}

/**
 * Asks the parent of a signed zone for its DS before the change that needs to know it: in the turn, other changes of the zone, and
 * all that is large, would wait for a parent that is slow. One that is hosted here is read in the turn.
 * @returns gives what it said
 */
export async function askParentBefore(
  { db, lookUpDs }: DnsApiContext,
  caller: DnsCaller,
  domain: string,
): Promise<LookUpDs> {
  const nobody: LookUpDs = async () => undefined;
  const target = zoneTarget(caller, domain);
  if (!target.ok) return nobody;
  const found = await findSignedZone(db, target.value);
  if (!found.ok || !found.value.state || (await readHostedDs(db, target.value.apex))) return nobody;
  const said = await lookUpDs(target.value.apex);
  return async () => said;
}

/** Stops signing, when the parent was asked and has no DS. */
export async function stopSigning(
  db: Db,
  target: SigningTarget,
  lookUpDs: LookUpDs,
): Promise<Result<SignedZone, Refusal>> {
  const found = await findSignedZone(db, target);
  if (!found.ok || !found.value.state) return found;
  const checked = await checkParentDs(db, target, lookUpDs);
  if (!checked.ok) return checked;
  return disableSigning(db, target, { force: false });
}
