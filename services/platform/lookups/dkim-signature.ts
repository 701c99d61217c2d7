import { parseDomainName } from "../../core/dns/name.ts";
import type { HostPort } from "../config/config-values.ts";
import { makeDnsResolver } from "./resolver-server.ts";

const DEADLINE_MS = 20_000;

/**
 * Whether a message comes from an address, by a valid signature of a domain or of a name below it (RFC 6376).
 * @returns "unknown" where such a signature's key cannot be looked up for now (RFC 6376 §6.1.2)
 */
export type IsSignedBy = (
  message: Buffer,
  claimed: { readonly address: string; readonly domain: string },
) => Promise<boolean | "unknown">;

/** @param server resolver to ask for keys; null: the system's */
export function makeSignatureCheck(server: HostPort | null): IsSignedBy {
  return async (message, { address, domain }) => {
    const { dkimVerify } = await import("mailauth/lib/dkim/verify.js");
    const resolver = await makeDnsResolver(server);
    const overdue = setTimeout(() => resolver.cancel(), DEADLINE_MS);
    try {
      const { headerFrom, results } = await dkimVerify(message, {
        resolver: async (name, type) => {
          // A signature may name anything: of what is no name there is no key, now or later.
          if (!parseDomainName(`${name}.`).ok) throw Object.assign(new Error("no domain name"), { code: "ENOTFOUND" });
          return (await resolver.resolve(name, type)) as string[] | string[][];
        },
      });
      if (headerFrom.length !== 1 || headerFrom[0]?.toLowerCase() !== address) return false;
      const ofDomain = results.filter(({ signingDomain }) => `.${signingDomain.toLowerCase()}`.endsWith(`.${domain}`));
      const outcomes = ofDomain.map(({ status }) => status.result);
      return outcomes.includes("pass") || (outcomes.includes("temperror") ? "unknown" : false);
    } catch {
      // What a verifier cannot take apart, strangers wrote: it is no signature.
      return false;
    } finally {
      clearTimeout(overdue);
    }
  };
}
