import type { DomainName } from "./name.ts";
import type { SoaRdata } from "./soa.ts";

/**
 * What zones take of the name servers' memory, estimated record by record, so that a change is judged by what it adds and
 * removes alone. Never less than the zone database really takes (services/dns-server/zone-database/layout.ts), for an ordinary
 * zone up to twice as much: each record is counted as if it stood alone at its name.
 */

/** Of a zone: its block, its slot in the table, its apex's node, and what its SOA has but for the two names. */
const ZONE_OCTETS = 192;

/** Of a record: a node's fields (24), an RRset's and a record's (20), its slot in the table (at most 23), and rounding. */
const RECORD_OCTETS = 80;

/** Of a name without records that stands above one: a node and its slot. */
const EMPTY_NAME_OCTETS = 56;

/** Octets of a zone without its records, its SOA included. */
export function zoneOctets(apex: DomainName, { mname, rname }: Pick<SoaRdata, "mname" | "rname">): number {
  return ZONE_OCTETS + apex.wire.length + mname.wire.length + rname.wire.length;
}

/**
 * Octets of one record, with the names between its own and the apex.
 * @param owner wire form, at or below the apex
 * @param apexOctets octets of the apex in wire form
 */
export function recordOctets(owner: Uint8Array, apexOctets: number, rdataOctets: number): number {
  // Blocks above 512 octets are rounded up by an eighth at most.
  let octets = RECORD_OCTETS + owner.length - apexOctets + rdataOctets + (rdataOctets >> 3);
  for (let place = 1 + owner[0]!; owner.length - place > apexOctets; place += 1 + owner[place]!) {
    octets += EMPTY_NAME_OCTETS + owner.length - place - apexOctets;
  }
  return octets;
}
