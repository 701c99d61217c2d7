import type { HostPort } from "../config/config-values.ts";
import { makeDnsResolver } from "./resolver-server.ts";

const DEADLINE_MS = 20_000;

/** Whether a message comes from an address, by a valid signature of a domain or of a name below it (RFC 6376). */
export type IsSignedBy = (
  message: Buffer,
  claimed: { readonly address: string; readonly domain: string },
) => Promise<boolean>;

/** @param server resolver to ask for keys; null: the system's */
export function makeSignatureCheck(server: HostPort | null): IsSignedBy {
  return async (message, { address, domain }) => {
    const { dkimVerify } = await import("mailauth/lib/dkim/verify.js");
    const resolver = await makeDnsResolver(server);
    const overdue = setTimeout(() => resolver.cancel(), DEADLINE_MS);
    try {
      const { headerFrom, results } = await dkimVerify(message, {
        resolver: (name, type) => resolver.resolve(name, type) as Promise<string[] | string[][]>,
      });
      if (headerFrom.length !== 1 || headerFrom[0]?.toLowerCase() !== address) return false;
      return results.some(({ status, signingDomain }) => {
        const signer = signingDomain.toLowerCase();
        return status.result === "pass" && (signer === domain || signer.endsWith(`.${domain}`));
      });
    } catch {
      // What a verifier cannot take apart, strangers wrote: it is no signature.
      return false;
    } finally {
      clearTimeout(overdue);
    }
  };
}
