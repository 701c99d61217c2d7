import { CLASS, TYPE } from "../../core/dns/rr-types.ts";
import { EMBEDDED_NAMES, RECORD_FIXED_OCTETS, RRSET } from "./layout.ts";

/** A record at a name, as the picture takes it in. */
export interface PictureRecord {
  readonly type: number;
  /** Seconds. */
  readonly ttl: number;
  /** Wire form, its names uncompressed. */
  readonly rdata: Uint8Array;
}

/** Stands for the zone's apex at the end of a name; see `RRSET`. */
const APEX_MARK = 0xc000;
/** The count has 16 bits. An RRset of more records fits into no message, so that it is never told how many they are. */
const MAX_COUNT = 0xffff;

/**
 * Turns the records of one name into the RRsets of its node (layout.ts, `RRSET`).
 * Keeps one growing buffer, so that loading a million names makes no million of them.
 */
export class RrsetEncoder {
  octets: Uint8Array = new Uint8Array(4096);
  #view = new DataView(this.octets.buffer);
  #words = new Int32Array(this.octets.buffer);
  #apex: Uint8Array = new Uint8Array(0);
  /** Octets in use. */
  length = 0;
  /** RRsets encoded. */
  count = 0;
  /** Of the RRset at hand: its type, its records, and where its header stands. */
  #type = -1;
  #records = 0;
  #header = 0;

  /**
   * Begins another name.
   * @param apex the zone's, in wire form and lower case
   */
  begin(apex: Uint8Array): void {
    this.#apex = apex;
    this.length = 0;
    this.count = 0;
    this.#type = -1;
  }

  /** Adds records in any order; those of a type keep theirs. */
  addAll(records: readonly PictureRecord[]): void {
    const sorted = records.length < 2 ? records : records.toSorted((a, b) => typeOrder(a.type) - typeOrder(b.type));
    for (const { type, ttl, rdata } of sorted) this.add(type, ttl, rdata, 0, rdata.length);
  }

  /** Adds one record, its RDATA in [start, end) of the octets: the SOA first, then by type. */
  add(type: number, ttl: number, octets: Uint8Array, start: number, end: number): void {
    if (type !== this.#type) this.#beginRrset(type);
    this.#records = Math.min(this.#records + 1, MAX_COUNT);
    this.#encodeRecord(type, ttl, octets, start, end);
    // Words are read through an Int32Array, in the machine's own order.
    this.#words[(this.#header >> 2) + RRSET.TYPE_AND_COUNT] = (type << 16) | this.#records;
    this.#words[(this.#header >> 2) + RRSET.LENGTH] = this.length - this.#header - RRSET.RECORDS * 4;
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

  #encodeRecord(type: number, ttl: number, rdata: Uint8Array, rdataStart: number, rdataEnd: number): void {
    this.#reserve(RECORD_FIXED_OCTETS + rdataEnd - rdataStart);
    const start = this.length;
    this.#view.setUint16(start, 0xc00c);
    this.#view.setUint16(start + 2, type);
    this.#view.setUint16(start + 4, CLASS.IN);
    this.#view.setUint32(start + 6, ttl);
    this.length = start + RECORD_FIXED_OCTETS;
    const embedded = EMBEDDED_NAMES[type]!;
    let position = rdataStart;
    if (embedded !== 0) {
      position += (embedded & 0xff) - 1;
      this.#copy(rdata, rdataStart, position);
      for (let names = embedded >> 8; names > 0; names -= 1) position = this.#encodeName(rdata, position, rdataEnd);
    }
    this.#copy(rdata, position, rdataEnd);
    this.#view.setUint16(start + 10, this.length - start - RECORD_FIXED_OCTETS);
  }

  /** Copies a name, its end replaced by the mark where that is the apex, octet for octet; returns where it ended. */
  #encodeName(rdata: Uint8Array, start: number, limit: number): number {
    const apex = this.#apex;
    let end = start;
    let apexAt = -1;
    while (end < limit && rdata[end]! > 0) end += rdata[end]! + 1;
    if (end >= limit) throw new Error("stored record is corrupt: a name in its RDATA ends early");
    end += 1;
    const candidate = end - apex.length;
    // The root as apex saves nothing.
    for (let position = start; position <= candidate && apex.length > 1; position += rdata[position]! + 1) {
      if (position === candidate && sameOctets(rdata, candidate, apex)) apexAt = candidate;
    }
    this.#copy(rdata, start, apexAt < 0 ? end : apexAt);
    if (apexAt >= 0) {
      this.#view.setUint16(this.length, APEX_MARK);
      this.length += 2;
    }
    return end;
  }

  #copy(source: Uint8Array, start: number, end: number): void {
    for (let position = start; position < end; position += 1) this.octets[this.length++] = source[position]!;
  }

  #reserve(octets: number): void {
    if (this.length + octets <= this.octets.length) return;
    const larger = new Uint8Array((Math.max(this.octets.length * 2, this.length + octets) + 3) & ~3);
    larger.set(this.octets.subarray(0, this.length));
    this.octets = larger;
    this.#view = new DataView(larger.buffer);
    this.#words = new Int32Array(larger.buffer);
  }
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
