import { isCostlyToHash } from "../../core/dns/dnssec/denial.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { coveredType } from "./stored-rrset.ts";

/** How a zone proves that something is not there, as its apex says. */
export type Denial =
  | { readonly kind: "none" }
  | { readonly kind: "nsec" }
  | { readonly kind: "nsec3"; readonly iterations: number; readonly salt: Uint8Array };

/** What most zones have. */
export const NO_DENIAL: Denial = { kind: "none" };

/** SHA-1, the only algorithm that there is (RFC 5155 §11). */
const NSEC3_SHA1 = 1;

/**
 * Finds out from the records of an apex, one by one, how the zone denies. A zone is signed when it has keys and its SOA
 * is signed; then NSEC3PARAM says that the zone has a chain of NSEC3 records (RFC 5155 §4), NSEC that it has the other.
 * DNSSEC records that stray in a zone without keys are data like any other.
 */
export class DenialFinder {
  #hasKeys = false;
  #hasSignedSoa = false;
  #hasNsec = false;
  #nsec3: Denial | undefined;

  begin(): void {
    this.#hasKeys = false;
    this.#hasSignedSoa = false;
    this.#hasNsec = false;
    this.#nsec3 = undefined;
  }

  /** Takes one record of the apex in, its RDATA in [start, end) of the octets. */
  add(type: number, octets: Uint8Array, start: number, end: number): void {
    if (type === TYPE.DNSKEY) this.#hasKeys = true;
    else if (type === TYPE.NSEC) this.#hasNsec = true;
    else if (type === TYPE.RRSIG && coveredType(octets, start) === TYPE.SOA) this.#hasSignedSoa = true;
    else if (type === TYPE.NSEC3PARAM) this.#nsec3 ??= parametersIn(octets.subarray(start, end));
  }

  get denial(): Denial {
    if (!this.#hasKeys || !this.#hasSignedSoa) return NO_DENIAL;
    return this.#nsec3 ?? { kind: this.#hasNsec ? "nsec" : "none" };
  }
}

export function isSameDenial(a: Denial, b: Denial): boolean {
  if (a.kind !== "nsec3" || b.kind !== "nsec3") return a.kind === b.kind;
  return a.iterations === b.iterations && Buffer.compare(a.salt, b.salt) === 0;
}

/** RFC 5155 §4.2: hash algorithm, flags, iterations, salt. Records with flags are being prepared and no server's to use;
 * without those that cost too much, names are denied without a proof. */
function parametersIn(rdata: Uint8Array): Denial | undefined {
  const [algorithm, flags, high, low, saltOctets] = rdata;
  if (algorithm !== NSEC3_SHA1 || flags !== 0 || saltOctets === undefined) return undefined;
  if (isCostlyToHash(rdata)) return undefined;
  return { kind: "nsec3", iterations: (high! << 8) | low!, salt: rdata.slice(5, 5 + saltOctets) };
}
