import { TYPE } from "../core/dns/rr-types.ts";
import { type DaneRequirement, readTlsa, usableTlsa } from "../core/mail/dane.ts";
import type { LookUpSecurely } from "../platform/secure-lookup.ts";

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
    // RFC 7672 §2.2.1: an exchanger in an unsigned zone has no TLSA records that could be trusted.
    if (!v4.secure && !v6.secure) return v4.kind === "failure" && v6.kind === "failure" ? { kind: "unknown" } : NONE;
    // RFC 7672 §2.2.2: of an alias, the records of what it leads to come first.
    const { owner } = [v4, v6].find(({ kind, secure }) => kind === "found" && secure) ?? { owner: exchanger };
    for (const base of new Set([owner, exchanger].map(withoutDot))) {
      const tlsa = await lookUp(`_${port}._tcp.${base}`, TYPE.TLSA);
      if (tlsa.kind === "failure") return { kind: "unknown" };
      if (tlsa.kind === "absent" || !tlsa.secure) continue;
      const records = usableTlsa(tlsa.records.flatMap((rdata) => readTlsa(rdata) ?? []));
      return { kind: "proof", requirement: { records, names: [base, withoutDot(domain)] } };
    }
    return NONE;
  };
}

function withoutDot(name: string): string {
  return name.replace(/\.$/, "").toLowerCase();
}
