import { domainNameFromWire, formatDomainName, MAX_LABEL_OCTETS, MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import type { ZoneState } from "../../store/dns/zone-states.ts";
import { LOWER_CASE } from "../zone-database/layout.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";

/** Of a SOA, behind its names: five numbers (RFC 1035 §3.3.13). */
const SOA_NUMBER_OCTETS = 20;

/** Whether what the database has as a zone's apex is a name in wire form and lower case. */
export function isApex(apex: Uint8Array): boolean {
  return endOfName(apex, 0) === apex.length && apex.every((octet) => LOWER_CASE[octet] === octet);
}

/** An apex in presentation format; where it is no name, its octets as RFC 3597 §5 writes those that have no other text. */
export function apexText(apex: Uint8Array): string {
  const name = domainNameFromWire(apex);
  return name.ok ? formatDomainName(name.value) : `\\# ${apex.length} ${Buffer.from(apex).toString("hex")}`;
}

/** Looks at what the database has of a zone beside its records. @throws CorruptRecordError where that is not what it should be */
export function checkZone({ apex, soaRdata }: ZoneState): void {
  if (!isApex(apex)) throw new CorruptRecordError("the zone's apex is no name");
  const rname = endOfName(soaRdata, 0);
  const isSoa = rname > 0 && endOfName(soaRdata, rname) === soaRdata.length - SOA_NUMBER_OCTETS;
  if (!isSoa) throw new CorruptRecordError("the zone's SOA has what is no name");
}

/** Whether `length` octets from `start` on are a name below an apex, in wire form, case kept. */
export function isBelowApex(apex: Uint8Array, octets: Uint8Array, start: number, length: number): boolean {
  const apexStart = start + length - apex.length;
  if (apexStart <= start || length > MAX_NAME_OCTETS) return false;
  let position = start;
  while (position < apexStart) {
    const label = octets[position]!;
    if (label === 0 || label > MAX_LABEL_OCTETS) return false;
    position += label + 1;
  }
  return position === apexStart && isSameName(apex, octets, apexStart, apex.length);
}

/** Whether a name is the one of its length that stands among other octets, ASCII case aside (RFC 4343). */
export function isSameName(name: Uint8Array, octets: Uint8Array, start: number, length: number): boolean {
  for (let index = 0; index < length; index += 1) {
    const own = name[index]!;
    const other = octets[start + index]!;
    if (own !== other && LOWER_CASE[own] !== LOWER_CASE[other]) return false;
  }
  return true;
}

/** Where an uncompressed name that begins at `start` ends; −1 where there is none. */
function endOfName(octets: Uint8Array, start: number): number {
  for (let position = start; position < octets.length; ) {
    const label = octets[position]!;
    position += label + 1;
    if (label > MAX_LABEL_OCTETS || position - start > MAX_NAME_OCTETS) return -1;
    if (label === 0) return position;
  }
  return -1;
}
