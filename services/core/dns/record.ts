import { type DomainName, domainNameFromWire } from "./name.ts";
import { rdataNames } from "./rdata/rdata.ts";
import { CLASS, TYPE } from "./rr-types.ts";

/** A resource record of class IN, as it stands in a zone. */
export interface ResourceRecord {
  readonly owner: DomainName;
  readonly type: number;
  /** TTL in seconds, 0 to 2^31 − 1 (RFC 2181 §8). */
  readonly ttl: number;
  /** RDATA in wire form, its names uncompressed. */
  readonly rdata: Uint8Array;
}

/** Largest lawful TTL in seconds (RFC 2181 §8). */
export const MAX_TTL_SECONDS = 0x7fff_ffff;

/** Octets of the fields between owner and RDATA: type, class, TTL, RDLENGTH (RFC 1035 §4.1.3). */
const FIXED_OCTETS = 10;

/** The records' wire forms one after the other, uncompressed: how the journal stores them. */
export function encodeRecords(records: readonly ResourceRecord[]): Uint8Array {
  const size = records.reduce((octets, record) => octets + recordWireLength(record), 0);
  const octets = new Uint8Array(size);
  const view = new DataView(octets.buffer);
  let offset = 0;
  for (const { owner, type, ttl, rdata } of records) {
    octets.set(owner.wire, offset);
    offset += owner.wire.length;
    view.setUint16(offset, type);
    view.setUint16(offset + 2, CLASS.IN);
    view.setUint32(offset + 4, ttl);
    view.setUint16(offset + 8, rdata.length);
    octets.set(rdata, offset + FIXED_OCTETS);
    offset += FIXED_OCTETS + rdata.length;
  }
  return octets;
}

/**
 * Reads back what {@link encodeRecords} wrote.
 * @throws when the octets are not whole records: the store is corrupt
 */
export function decodeRecords(octets: Uint8Array): ResourceRecord[] {
  return [...readRecords(octets)];
}

/** As {@link decodeRecords}, a record at a time. */
export function* readRecords(octets: Uint8Array): Generator<ResourceRecord, void> {
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  let offset = 0;
  while (offset < octets.length) {
    const owner = domainNameFromWire(octets, offset);
    if (!owner.ok) throw new Error(`stored record is corrupt: ${owner.error.message}`);
    offset += owner.value.wire.length;
    if (offset + FIXED_OCTETS > octets.length) throw new Error("stored record is corrupt: it ends early");
    const type = view.getUint16(offset);
    const ttl = view.getUint32(offset + 4);
    const rdataStart = offset + FIXED_OCTETS;
    offset = rdataStart + view.getUint16(offset + 8);
    if (offset > octets.length) throw new Error("stored record is corrupt: its RDATA ends early");
    yield { owner: owner.value, type, ttl, rdata: new Uint8Array(octets.subarray(rdataStart, offset)) };
  }
}

/** Octets of the record on the wire, uncompressed. */
export function recordWireLength(record: ResourceRecord): number {
  return record.owner.wire.length + FIXED_OCTETS + record.rdata.length;
}

/**
 * A key that equal records share: owner, type and canonical RDATA. The TTL is no part of it
 * (RFC 2181 §5: records that differ in the TTL alone are one record).
 */
export function recordIdentity(record: ResourceRecord): string {
  return rrsetKey(record.owner, record.type) + latin1(canonicalRdata(record.type, record.rdata));
}

/** Key of the RRset that the record belongs to: owner and type. */
export function rrsetKey(owner: DomainName, type: number): string {
  return `${owner.key}${String.fromCharCode(type)}`;
}

/**
 * RDATA with the ASCII letters of embedded names in lower case, for the types of RFC 4034 §6.2 as corrected by
 * RFC 6840 §5.1; other RDATA is returned as it is.
 */
export function canonicalRdata(type: number, rdata: Uint8Array): Uint8Array {
  if (!LOWER_CASED_TYPES.has(type)) return rdata;
  const canonical = new Uint8Array(rdata);
  for (const { offset, length } of rdataNames(type, rdata)) {
    for (let position = offset; position < offset + length; position += 1) {
      const octet = canonical[position]!;
      if (octet >= 0x41 && octet <= 0x5a) canonical[position] = octet + 0x20;
    }
  }
  return canonical;
}

/** One character per octet. */
function latin1(octets: Uint8Array): string {
  return Buffer.from(octets).toString("latin1");
}

/** RFC 4034 §6.2, without NSEC (RFC 6840 §5.1) and without HINFO, which holds no names. */
const LOWER_CASED_TYPES: ReadonlySet<number> = new Set([
  TYPE.NS,
  TYPE.MD,
  TYPE.MF,
  TYPE.CNAME,
  TYPE.SOA,
  TYPE.MB,
  TYPE.MG,
  TYPE.MR,
  TYPE.PTR,
  TYPE.MINFO,
  TYPE.MX,
  TYPE.RP,
  TYPE.AFSDB,
  TYPE.RT,
  TYPE.SIG,
  TYPE.PX,
  TYPE.NXT,
  TYPE.NAPTR,
  TYPE.KX,
  TYPE.SRV,
  TYPE.DNAME,
  TYPE.A6,
  TYPE.RRSIG,
]);
