import { TYPE } from "../../core/dns/rr-types.ts";
import { type DaneRequirement, readTlsa, usableTlsa } from "../../core/mail/dane.ts";
import type { LookUpSecurely, SecureAnswer } from "../../platform/lookups/secure-lookup.ts";

/**
 * What the DNS demands of a mail exchanger: nothing; proof; or, while its answers cannot be validated, not to speak to
 * it at all.
 */
export type DaneDemand =
  | { readonly kind: "none" }
  | { readonly kind: "proof"; readonly requirement: DaneRequirement }
  | { readonly kind: "unknown" };

/** Asks for the demand on a mail exchanger of a domain. */
export type FindDane = (domain: string, exchanger: string, port: number) => Promise<DaneDemand>;

const NONE: DaneDemand = { kind: "none" };

/**
 * DANE for SMTP (RFC 7672 §2.2): only where the MX records, the exchanger's address and its TLSA records are all
 * validated. An insecure answer on the way leads to no DANE, one that fails validation to no delivery.
 */
export function makeFindDane(lookUp: LookUpSecurely): FindDane {
  return async (domain, exchanger, port) => {
    const mx = await lookUp(domain, TYPE.MX);
    if (mx.kind === "failure") return { kind: "unknown" };
    if (!mx.secure) return NONE;
    const [v4, v6] = await Promise.all([lookUp(exchanger, TYPE.A), lookUp(exchanger, TYPE.AAAA)]);
    const bases = await findBases(lookUp, exchanger, [v4, v6]);
    if (bases === undefined) return { kind: "unknown" };
    for (const base of new Set(bases.map(withoutDot))) {
      const tlsa = await lookUp(`_${port}._tcp.${base}`, TYPE.TLSA);
      if (tlsa.kind === "failure") return { kind: "unknown" };
      if (tlsa.kind === "absent" || !tlsa.secure) continue;
      const records = usableTlsa(tlsa.records.flatMap((rdata) => readTlsa(rdata) ?? []));
      return { kind: "proof", requirement: { records, names: [base, withoutDot(domain)] } };
    }
    return NONE;
  };
}

/**
 * The names whose TLSA records count, in this order: what the exchanger leads to, then itself (RFC 7671 §7). None
 * where neither is in a signed zone, as such records could not be trusted (RFC 7672 §2.2.1). Undefined: nobody can tell.
 */
async function findBases(
  lookUp: LookUpSecurely,
  exchanger: string,
  addresses: readonly SecureAnswer[],
): Promise<string[] | undefined> {
  const validated = addresses.filter(({ secure }) => secure);
  const found = validated.filter(({ kind }) => kind === "found");
  if (validated.length > 0) return [...found.map(({ owner }) => owner), exchanger];
  if (addresses.every(({ kind }) => kind === "failure")) return undefined;
  if (addresses.every(({ owner }) => withoutDot(owner) === withoutDot(exchanger))) return [];
  // An alias may be signed where its target is not.
  const alias = await lookUp(exchanger, TYPE.CNAME);
  if (alias.kind === "failure") return undefined;
  return alias.kind === "found" && alias.secure ? [exchanger] : [];
}

function withoutDot(name: string): string {
  return name.replace(/\.$/, "").toLowerCase();
}
