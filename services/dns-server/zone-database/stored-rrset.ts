import { CLASS, TYPE } from "../../core/dns/rr-types.ts";
import { EMBEDDED_NAMES, RECORD_FIXED_OCTETS, RRSET } from "./layout.ts";

/** A record at a name, as the zone database takes it in. */
export interface CompiledRecord {
  readonly type: number;
  /** Seconds. */
  readonly ttl: number;
  /** Wire form, its names uncompressed. */
  readonly rdata: Uint8Array;
}

/** RFC 1035 §3.2.1: RDLENGTH has 16 bits. */
const MAX_RDATA_OCTETS = 0xffff;

/** Stands for the zone's apex at the end of a name; see `RRSET`. */
const APEX_MARK = 0xc000;

/**
 * Turns the records of one name into the RRsets of its node (layout.ts, `RRSET`).
 * Keeps one growing buffer, so that loading a million names makes no million of them.
 */
export class RrsetEncoder {
  octets: Uint8Array = new Uint8Array(4096);
  #words = new Int32Array(this.octets.buffer);
  #apex: Uint8Array = new Uint8Array(0);
  readonly start: number = 0;
  /** Octets in use. */
  length = 0;
  /** RRsets encoded. */
  count = 0;
  /** Of the RRset at hand: its type, its records, and where its header stands. */
  #type = -1;
  #records = 0;
  #header = 0;
  /** RRSIG records, which wait for `finish`. */
  #signatures: Signature[] = [];

  /**
   * Begins another name.
   * @param apex the zone's, in wire form and lower case
   */
  begin(apex: Uint8Array): void {
    this.#apex = apex;
    this.length = 0;
    this.count = 0;
    this.#type = -1;
    if (this.#signatures.length > 0) this.#signatures = [];
  }

  /** Adds one record, its RDATA in [start, end) of the octets: the SOA first, then by type; those of a type keep their order. */
  add(type: number, ttl: number, octets: Uint8Array, start: number, end: number): void {
    if (type === TYPE.RRSIG && end - start >= 2) {
      const rdata = Uint8Array.prototype.slice.call(octets, start, end);
      this.#signatures.push({ covered: coveredType(rdata, 0), ttl, rdata });
    } else {
      if (type !== this.#type) this.#beginRrset(type);
      this.#addRecord(type, ttl, octets, start, end);
    }
  }

  /** Ends the name: signatures go behind what they cover, those that cover nothing here to the end. */
  finish(): void {
    if (this.#signatures.length === 0) return;
    const rrsets = this.octets.slice(0, this.length);
    const words = new Int32Array(rrsets.buffer, 0, rrsets.length >> 2);
    let waiting = this.#signatures;
    let left = this.count;
    this.length = 0;
    this.count = 0;
    for (let start = 0; left > 0; left -= 1) {
      const end = start + RRSET.RECORDS * 4 + words[(start >> 2) + RRSET.LENGTH]!;
      const type = words[(start >> 2) + RRSET.TYPE_AND_COUNT]! >>> 16;
      this.#copyRrset(rrsets, start, end);
      waiting = this.#addSignatures(waiting, type);
      start = (end + 3) & ~3;
    }
    while (waiting.length > 0) waiting = this.#addSignatures(waiting, waiting[0]!.covered);
  }

  #copyRrset(rrsets: Uint8Array, start: number, end: number): void {
    this.length = (this.length + 3) & ~3;
    this.#reserve(end - start);
    this.#header = this.length;
    this.#copy(rrsets, start, end);
    this.count += 1;
  }

  /** Adds the signatures of a type behind the RRset at hand; returns the others. */
  #addSignatures(signatures: Signature[], type: number): Signature[] {
    const own = signatures.filter(({ covered }) => covered === type);
    if (own.length === 0) return signatures;
    const typeWord = (this.#header >> 2) + RRSET.TYPE_AND_COUNT;
    if (this.#words[typeWord]! >>> 16 === type) this.#words[typeWord]! |= RRSET.SIGNED;
    this.#beginRrset(TYPE.RRSIG);
    for (const { ttl, rdata } of own) this.#addRecord(TYPE.RRSIG, ttl, rdata, 0, rdata.length);
    return signatures.filter(({ covered }) => covered !== type);
  }

  #beginRrset(type: number): void {
    this.length = (this.length + 3) & ~3;
    this.#reserve(RRSET.RECORDS * 4);
    this.#header = this.length;
    this.length += RRSET.RECORDS * 4;
    this.#type = type;
    this.#records = 0;
    this.count += 1;
  }

  #addRecord(type: number, ttl: number, octets: Uint8Array, start: number, end: number): void {
    // An RRset of more records than can be counted fits into no message, so that it is never told how many they are.
    this.#records = Math.min(this.#records + 1, RRSET.COUNT_MASK);
    this.#encodeRecord(type, ttl, octets, start, end);
    // Words are read through an Int32Array, in the machine's own order.
    this.#words[(this.#header >> 2) + RRSET.TYPE_AND_COUNT] = (type << 16) | this.#records;
    this.#words[(this.#header >> 2) + RRSET.LENGTH] = this.length - this.#header - RRSET.RECORDS * 4;
  }

  #encodeRecord(type: number, ttl: number, rdata: Uint8Array, rdataStart: number, rdataEnd: number): void {
    this.#reserve(RECORD_FIXED_OCTETS + rdataEnd - rdataStart);
    const start = this.length;
    const { octets } = this;
    octets[start] = 0xc0;
    octets[start + 1] = 0x0c;
    octets[start + 2] = type >>> 8;
    octets[start + 3] = type;
    octets[start + 4] = 0;
    octets[start + 5] = CLASS.IN;
    octets[start + 6] = ttl >>> 24;
    octets[start + 7] = ttl >>> 16;
    octets[start + 8] = ttl >>> 8;
    octets[start + 9] = ttl;
    this.length = start + RECORD_FIXED_OCTETS;
    const embedded = EMBEDDED_NAMES[type]!;
    let position = rdataStart;
    if (embedded !== 0) {
      position += (embedded & 0xff) - 1;
      this.#copy(rdata, rdataStart, position);
      for (let names = embedded >> 8; names > 0; names -= 1) position = this.#encodeName(rdata, position, rdataEnd);
    }
    this.#copy(rdata, position, rdataEnd);
    const rdataOctets = this.length - start - RECORD_FIXED_OCTETS;
    if (rdataOctets > MAX_RDATA_OCTETS) throw new CorruptRecordError("its RDATA is longer than any");
    octets[start + 10] = rdataOctets >>> 8;
    octets[start + 11] = rdataOctets;
  }

  /** Copies a name, its end replaced by the mark where that is the apex, octet for octet; returns where it ended. */
  #encodeName(rdata: Uint8Array, start: number, limit: number): number {
    const apex = this.#apex;
    let end = start;
    let apexAt = -1;
    while (end < limit && rdata[end]! > 0) end += rdata[end]! + 1;
    if (end >= limit) throw new CorruptRecordError("a name in its RDATA ends early");
    end += 1;
    const candidate = end - apex.length;
    // The root as apex saves nothing.
    for (let position = start; position <= candidate && apex.length > 1; position += rdata[position]! + 1) {
      if (position === candidate && sameOctets(rdata, candidate, apex)) apexAt = candidate;
    }
    this.#copy(rdata, start, apexAt < 0 ? end : apexAt);
    if (apexAt >= 0) {
      this.octets[this.length] = APEX_MARK >>> 8;
      this.octets[this.length + 1] = APEX_MARK & 0xff;
      this.length += 2;
    }
    return end;
  }

  #copy(source: Uint8Array, start: number, end: number): void {
    const { octets, length } = this;
    for (let index = start; index < end; index += 1) octets[length + index - start] = source[index]!;
    this.length = length + end - start;
  }

  #reserve(octets: number): void {
    if (this.length + octets <= this.octets.length) return;
    const larger = new Uint8Array((Math.max(this.octets.length * 2, this.length + octets) + 3) & ~3);
    larger.set(this.octets.subarray(0, this.length));
    this.octets = larger;
    this.#words = new Int32Array(larger.buffer);
  }
}

/** A record that the database has, and that is none: its zone cannot be taken in, and others need not suffer for it. */
export class CorruptRecordError extends Error {
  constructor(fault: string) {
    super(`stored record is corrupt: ${fault}`);
  }
}

interface Signature {
  readonly covered: number;
  readonly ttl: number;
  readonly rdata: Uint8Array;
}

/** The order in which an encoder takes the records of a name. */
export function inEncodingOrder(records: readonly CompiledRecord[]): readonly CompiledRecord[] {
  return records.length < 2 ? records : records.toSorted((a, b) => typeOrder(a.type) - typeOrder(b.type));
}

/** The type that an RRSIG covers (RFC 4034 §3.1.1). */
export function coveredType(octets: Uint8Array, rdata: number): number {
  return (octets[rdata]! << 8) | octets[rdata + 1]!;
}

function typeOrder(type: number): number {
  return type === TYPE.SOA ? 0 : type;
}

function sameOctets(octets: Uint8Array, start: number, other: Uint8Array): boolean {
  for (let index = 0; index < other.length; index += 1) {
    if (octets[start + index] !== other[index]) return false;
  }
  return true;
}
