import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import { checkParentDs, updateHostedParent } from "../operations/dns/dnssec-parent.ts";
import { findSignedZone, type SignedZone, type SigningTarget } from "../operations/dns/zone-signing-state.ts";
import { disableSigning } from "../operations/dns/zone-signing-switch.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { DnsApiContext } from "./context.ts";
import { changeWholeZone } from "./zone-target.ts";

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

/** Stops signing, when the parent was asked and has no DS. */
export async function stopSigning(context: DnsApiContext, target: SigningTarget): Promise<Result<SignedZone, Refusal>> {
  const found = await findSignedZone(context.db, target);
  if (!found.ok || !found.value.state) return found;
  const checked = await checkParentDs(context.db, target, context.lookUpDs);
  if (!checked.ok) return checked;
  return disableSigning(context.db, target, { force: false });
}
