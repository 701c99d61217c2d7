import type { ZONE_VERBS } from "../core/dns/policy-verbs.ts";
import { judgeAllZones, judgeRecordVerbs, judgeVerb, judgeWholeZone } from "../core/dns/token.ts";
import { forbidden, type Refusal } from "../core/refusal.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { ZoneScope } from "../store/dns/zones.ts";

/** The zones that a caller sees. */
export function scopeOf(caller: DnsCaller): ZoneScope & { readonly resellerId: string } {
  const { resellerId } = caller;
  return caller.mode === "reseller" ? { resellerId } : { resellerId, companyId: caller.companyId };
}

/** The caller as the history names it: who is signed in at the console, else whose key it was, or which token of whose. */
export function actorOf(caller: DnsCaller): string {
  if (caller.login !== undefined) return caller.login;
  const owner = caller.mode === "reseller" ? `reseller:${caller.resellerId}` : `company:${caller.crmId}`;
  return caller.token ? `${owner} token:${caller.token.name}` : owner;
}

/** Companies, ACLs, resolver blocks and policy zones are the reseller's alone. */
export function resellerOnly(caller: DnsCaller): Refusal | undefined {
  return caller.mode === "reseller" ? undefined : forbidden("reseller-key-needed");
}

/**
 * What an operation needs of whoever comes with a token, over what its act judges by itself. Changes of records are judged
 * where they are made, by what they come to.
 * - `read`: nothing; what is read is of zones, names and types that the token is for
 * - `read_all`: all records of the zone
 * - `read_zones`: all records of all zones
 * - `records`: at least one of the verbs of records
 * - `key`: no token will do
 */
export type Needs = "read" | "read_all" | "read_zones" | "records" | "key" | (typeof ZONE_VERBS)[number];

/** Refuses a token that may not do such a thing at all. */
export function judgeNeeds({ token }: DnsCaller, needs: Needs): Refusal | undefined {
  if (!token || needs === "read") return undefined;
  if (needs === "key") return forbidden("token-not-a-key", { token: token.name });
  if (needs === "read_all") return judgeWholeZone(token);
  if (needs === "read_zones") return judgeAllZones(token);
  if (needs !== "records") return judgeVerb(token, needs);
  return token.policy.verbs.length > 0 ? undefined : judgeRecordVerbs(token);
}

/** Only for resellers with the licence for policy zones. */
export function licensedOnly(caller: DnsCaller): Refusal | undefined {
  const notReseller = resellerOnly(caller);
  if (notReseller) return notReseller;
  const licensed = caller.mode === "reseller" && caller.rpzLicence;
  return licensed ? undefined : forbidden("no-rpz-licence");
}
