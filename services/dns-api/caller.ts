import { forbidden, type Refusal } from "../core/refusal.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { ZoneScope } from "../store/dns/zones.ts";

/** The zones that a caller sees. */
export function scopeOf(caller: DnsCaller): ZoneScope & { readonly resellerId: string } {
  const { resellerId } = caller;
  return caller.mode === "reseller" ? { resellerId } : { resellerId, companyId: caller.companyId };
}

/** The caller as the history names it: who is signed in at the console, else whose key it was. */
export function actorOf(caller: DnsCaller): string {
  if (caller.login !== undefined) return caller.login;
  return caller.mode === "reseller" ? `reseller:${caller.resellerId}` : `company:${caller.crmId}`;
}

/** Companies, ACLs, resolver blocks and policy zones are the reseller's alone. */
export function resellerOnly(caller: DnsCaller): Refusal | undefined {
  return caller.mode === "reseller" ? undefined : forbidden("reseller-key-needed");
}

/** Only for resellers with the licence for policy zones. */
export function licensedOnly(caller: DnsCaller): Refusal | undefined {
  const notReseller = resellerOnly(caller);
  if (notReseller) return notReseller;
  const licensed = caller.mode === "reseller" && caller.rpzLicence;
  return licensed ? undefined : forbidden("no-rpz-licence");
}
