import type { SigningAlgorithm } from "./algorithm.ts";
import type { KeyRole } from "./dnskey.ts";
import type { SignatureWindow } from "./rrsig.ts";

/** How zones are signed and their keys changed: the content of config/dnssec.json. All times are in seconds. */
export interface SigningPolicy {
  readonly signatures: {
    /** How long a signature holds, from when it is made. */
    readonly validitySeconds: number;
    /** So long before it ends at the latest it is made anew. */
    readonly refreshSeconds: number;
    /** By up to so much less each holds, so that those of a large zone are not made anew all at once. */
    readonly jitterSeconds: number;
    /** So long before it is made it begins to hold, for resolvers whose clocks are behind. */
    readonly inceptionOffsetSeconds: number;
  };
  /** TTL of DNSKEY, CDS and CDNSKEY. */
  readonly keyTtlSeconds: number;
  /** Until all secondaries have a change. */
  readonly propagationSeconds: number;
  /** Until all of the parent's servers have a change of its DS, and how long caches keep the old one. */
  readonly parentPropagationSeconds: number;
  readonly dsTtlSeconds: number;
  /** Between two looks for the DS at the parent, while one is awaited. */
  readonly parentCheckSeconds: number;
  /** Whether only a validated answer (AD, RFC 4035 §3.2.3) about the parent's DS moves keys. */
  readonly parentMustBeAuthenticated: boolean;
  /** Age at which a key is replaced; null: by hand only. */
  readonly lifetimeSeconds: { readonly [role in KeyRole]: number | null };
  readonly algorithm: SigningAlgorithm;
}

/** When a signature made now holds. @param random 0 to 1 */
export function signatureWindow({ signatures }: SigningPolicy, now: Date, random: number): SignatureWindow {
  const seconds = Math.floor(now.getTime() / 1000);
  return {
    inception: seconds - signatures.inceptionOffsetSeconds,
    expiration: seconds + signatures.validitySeconds - Math.floor(signatures.jitterSeconds * random),
  };
}
