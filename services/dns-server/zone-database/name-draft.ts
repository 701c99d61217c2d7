import { TYPE } from "../../core/dns/rr-types.ts";
import { type Denial, DenialFinder } from "./denial.ts";
import { FLAG } from "./layout.ts";
import { coveredType, RrsetEncoder } from "./stored-rrset.ts";

/** What a draft has to know of the zone that its name is in. */
export interface DraftZone {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  readonly hasNsec3Chain: boolean;
}

/**
 * The records of a name while they come in, one by one: encoded for the zone database, those of the NSEC3 chain apart.
 * Kept and begun anew for each name. Whoever fills a zone while others change has a draft of its own.
 */
export class NameDraft {
  readonly rrsets = new RrsetEncoder();
  /** NSEC3 records and their signatures, which are no part of their owner. */
  readonly nsec3Rrsets = new RrsetEncoder();
  /** Of the node that the name will have. */
  flags = 0;
  hasNsec3Chain = false;
  readonly #denialFinder = new DenialFinder();

  begin({ apex, hasNsec3Chain }: DraftZone): void {
    this.flags = 0;
    this.hasNsec3Chain = hasNsec3Chain;
    this.rrsets.begin(apex);
    this.nsec3Rrsets.begin(apex);
    this.#denialFinder.begin();
  }

  /** Adds a record whose RDATA is in [start, end) of the octets. The SOA comes first, the others by ascending type. */
  add(type: number, ttl: number, octets: Uint8Array, start: number, end: number): void {
    const isOfChain = this.hasNsec3Chain && isOfNsec3(type, octets, start);
    if (!isOfChain) this.flags |= flagOf(type);
    (isOfChain ? this.nsec3Rrsets : this.rrsets).add(type, ttl, octets, start, end);
    this.#denialFinder.add(type, octets, start, end);
  }

  finish(): void {
    this.rrsets.finish();
    this.nsec3Rrsets.finish();
  }

  /** What the records say of the zone's denial, if the name is its apex. */
  get denial(): Denial {
    return this.#denialFinder.denial;
  }
}

/** Whether a record is one of the NSEC3 chain, which stands beside the zone's names (RFC 5155 §7.2.8). */
function isOfNsec3(type: number, octets: Uint8Array, rdata: number): boolean {
  return type === TYPE.NSEC3 || (type === TYPE.RRSIG && coveredType(octets, rdata) === TYPE.NSEC3);
}

function flagOf(type: number): number {
  if (type === TYPE.NS) return FLAG.CUT;
  if (type === TYPE.DNAME) return FLAG.DNAME;
  if (type === TYPE.NSEC) return FLAG.NSEC;
  return type === TYPE.CNAME ? FLAG.CNAME : 0;
}
