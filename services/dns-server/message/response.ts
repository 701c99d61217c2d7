import {
  EMBEDDED_NAMES,
  NODE,
  RECORD_FIXED_OCTETS,
  RRSET,
  ZONE,
  zoneOctet,
  zoneWord,
} from "../zone-database/layout.ts";
import type { MemorySegment, ZoneDatabaseMemory } from "../zone-database/memory.ts";
import { HEADER_OCTETS, type Query } from "./query.ts";

/** Sections of a message that hold records, as indices of `Response.counts`. */
export const SECTION = { ANSWER: 0, AUTHORITY: 1, ADDITIONAL: 2 } as const;

/** Extended errors that we give (RFC 8914 §4); -1 for none. */
export const EXTENDED_ERROR = { NONE: -1, NOT_READY: 14, PROHIBITED: 18, NOT_AUTHORITATIVE: 20 } as const;

/** Compression pointers have 14 bits (RFC 1035 §4.1.4). */
export const MAX_POINTER = 0x3fff;

/**
 * A response being written, straight into the octets that go out. Records are written whole or not at all, and never
 * past `limit`; the space of the OPT record has been taken off that before.
 */
export class Response {
  octets: Uint8Array = new Uint8Array(0);
  position = 0;
  limit = 0;
  /** Records in the answer, authority and additional sections. */
  readonly counts = new Uint16Array(3);
  section: number = SECTION.ANSWER;
  /** With the upper bits that EDNS carries. */
  rcode = 0;
  authoritative = false;
  truncated = false;
  extendedError: number = EXTENDED_ERROR.NONE;
  /** Whether the client takes signatures and proofs (RFC 3225 §3). */
  dnssecOk = false;
  /** The zone that the pointers to an apex mean, and where in the message that apex stands in lower case; 0: nowhere. */
  #zone = 0;
  #apexAt = 0;
  readonly #memory: ZoneDatabaseMemory;
  /** Of the zone: what the references of RRsets and nodes are of. */
  #segment: MemorySegment;

  constructor(memory: ZoneDatabaseMemory) {
    this.#memory = memory;
    this.#segment = memory.first;
  }

  /** Starts the response with the query's question, octet for octet. */
  begin(query: Query, out: Uint8Array, limit: number): void {
    this.octets = out;
    this.limit = limit;
    this.rcode = 0;
    this.authoritative = false;
    this.truncated = false;
    this.extendedError = EXTENDED_ERROR.NONE;
    this.dnssecOk = query.dnssecOk;
    this.position = query.questionEnd;
    const { octets, questionEnd } = query;
    for (let index = HEADER_OCTETS; index < questionEnd; index += 1) out[index] = octets[index]!;
    this.#clearRecords();
  }

  /** Leaves the question only and sets TC: a partial section helps nobody (RFC 2181 §9). */
  truncate(query: Query): void {
    this.truncated = true;
    this.extendedError = EXTENDED_ERROR.NONE;
    this.position = query.questionEnd;
    this.#clearRecords();
  }

  get zone(): number {
    return this.#zone;
  }

  /**
   * Tells whose apex the stored records mean from now on.
   * @param apexAt where it stands in the message in lower case; 0 when it is not known to
   */
  enterZone(zone: number, apexAt: number): void {
    if (zone === this.#zone && apexAt === 0) return;
    this.#zone = zone;
    this.#segment = this.#memory.segmentOf(zone);
    this.#apexAt = apexAt;
  }

  /**
   * Writes an RRset into the current section.
   * @param owner offset of the owner's name in the message; 0 to write the name that `node` has
   * @returns whether it fitted; if not, nothing is written
   */
  writeRrset(rrset: number, node: number, owner: number): boolean {
    const { words, octets: stored } = this.#segment;
    const header = rrset >> 2;
    const length = words[header + RRSET.LENGTH]!;
    const typeAndCount = words[header + RRSET.TYPE_AND_COUNT]!;
    const start = rrset + RRSET.RECORDS * 4;
    const embedded = EMBEDDED_NAMES[typeAndCount >>> 16]!;
    const before = this.position;
    if (embedded === 0 && owner === HEADER_OCTETS) {
      // The stored records begin with a pointer to the question already.
      if (before + length > this.limit) return false;
      const out = this.octets;
      for (let index = 0; index < length; index += 1) out[before + index] = stored[start + index]!;
      this.position = before + length;
    } else if (!this.#writeRecords(start, start + length, node, owner, embedded)) {
      return false;
    }
    this.counts[this.section]! += typeAndCount & RRSET.COUNT_MASK;
    return true;
  }

  /** As `writeRrset`, with the signatures when the client takes them (RFC 4035 §3.1.1): both must fit. */
  writeSigned(rrset: number, node: number, owner: number): boolean {
    const start = this.position;
    if (!this.writeRrset(rrset, node, owner)) return false;
    return this.writeSignatures(rrset, node, owner === 0 && start <= MAX_POINTER ? start : owner);
  }

  /** Writes the signatures of an RRset, when it has any and the client takes them; parameters as for `writeRrset`. */
  writeSignatures(rrset: number, node: number, owner: number): boolean {
    if (!this.dnssecOk) return true;
    const { words } = this.#segment;
    if ((words[(rrset >> 2) + RRSET.TYPE_AND_COUNT]! & RRSET.SIGNED) === 0) return true;
    const signatures = (rrset + RRSET.RECORDS * 4 + words[(rrset >> 2) + RRSET.LENGTH]! + 3) & ~3;
    return this.writeRrset(signatures, node, owner);
  }

  /** Writes one record whose RDATA is a name: the CNAME that stands for a DNAME (RFC 6672 §3.1). */
  writeCname(owner: number, ttlFrom: number, target: Uint8Array, targetOctets: number): boolean {
    if (this.position + RECORD_FIXED_OCTETS + targetOctets > this.limit) return false;
    this.writeUint16(0xc000 | owner);
    this.writeUint16(5);
    this.writeUint16(1);
    for (let index = 0; index < 4; index += 1) this.octets[this.position++] = this.octets[ttlFrom + index]!;
    this.writeUint16(targetOctets);
    for (let index = 0; index < targetOctets; index += 1) this.octets[this.position++] = target[index]!;
    this.counts[this.section]! += 1;
    return true;
  }

  writeUint16(value: number): void {
    this.octets[this.position] = value >>> 8;
    this.octets[this.position + 1] = value;
    this.position += 2;
  }

  writeUint32(value: number): void {
    this.writeUint16(value >>> 16);
    this.writeUint16(value & 0xffff);
  }

  uint16At(offset: number): number {
    return (this.octets[offset]! << 8) | this.octets[offset + 1]!;
  }

  setUint32At(offset: number, value: number): void {
    this.octets[offset] = value >>> 24;
    this.octets[offset + 1] = value >>> 16;
    this.octets[offset + 2] = value >>> 8;
    this.octets[offset + 3] = value;
  }

  /** Offset behind a name in the response, compressed or not. */
  skipName(start: number): number {
    let position = start;
    for (;;) {
      const octet = this.octets[position]!;
      if (octet === 0) return position + 1;
      if (octet >= 0xc0) return position + 2;
      position += octet + 1;
    }
  }

  #clearRecords(): void {
    this.counts[SECTION.ANSWER] = 0;
    this.counts[SECTION.AUTHORITY] = 0;
    this.counts[SECTION.ADDITIONAL] = 0;
    this.section = SECTION.ANSWER;
    this.#zone = 0;
    this.#apexAt = 0;
  }

  /** Writes stored records one by one, each owner and each embedded name as it must stand in this message. */
  #writeRecords(start: number, end: number, node: number, owner: number, embedded: number): boolean {
    const { octets: stored } = this.#segment;
    const before = this.position;
    const apexBefore = this.#apexAt;
    let ownerAt = owner;
    for (let record = start; record < end; ) {
      const rdata = record + RECORD_FIXED_OCTETS;
      const next = rdata + ((stored[record + 10]! << 8) | stored[record + 11]!);
      // What the record can take at most: its owner and, for each embedded name, its apex in full.
      if (this.position + (next - record) + this.#growth(node, ownerAt, embedded) > this.limit) {
        this.position = before;
        this.#apexAt = apexBefore;
        return false;
      }
      if (ownerAt === 0) {
        if (this.position <= MAX_POINTER) ownerAt = this.position;
        this.#writeNodeName(node);
      } else {
        this.writeUint16(0xc000 | ownerAt);
      }
      for (let index = record + 2; index < rdata; index += 1) this.octets[this.position++] = stored[index]!;
      const written = this.position;
      const rest = embedded === 0 ? rdata : this.#writeEmbeddedNames(rdata, embedded);
      for (let index = rest; index < next; index += 1) this.octets[this.position++] = stored[index]!;
      const rdataOctets = this.position - written;
      this.octets[written - 2] = rdataOctets >>> 8;
      this.octets[written - 1] = rdataOctets;
      record = next;
    }
    return true;
  }

  #growth(node: number, ownerAt: number, embedded: number): number {
    const { words, octets } = this.#segment;
    const apex = words[zoneWord(this.#zone) + ZONE.APEX_LENGTH]!;
    const owner = ownerAt === 0 ? octets[node + NODE.NAME * 4]! + apex : 0;
    return owner + (this.#apexAt === 0 ? (embedded >> 8) * apex : 0);
  }

  /** Copies the RDATA up to the end of its last name; returns where in the zone database the rest begins. */
  #writeEmbeddedNames(rdata: number, embedded: number): number {
    const { octets: stored } = this.#segment;
    let source = rdata;
    for (const fixedEnd = rdata + (embedded & 0xff) - 1; source < fixedEnd; source += 1) {
      this.octets[this.position++] = stored[source]!;
    }
    for (let names = embedded >> 8; names > 0; names -= 1) {
      for (let length = stored[source]!; length > 0 && length < 0xc0; length = stored[source]!) {
        for (const end = source + length + 1; source < end; source += 1) this.octets[this.position++] = stored[source]!;
      }
      if (stored[source] === 0) {
        this.octets[this.position++] = 0;
        source += 1;
      } else {
        this.#writeApex();
        source += 2;
      }
    }
    return source;
  }

  #writeNodeName(node: number): void {
    const { octets: stored } = this.#segment;
    const start = node + NODE.NAME * 4 + 1;
    const end = start + stored[start - 1]!;
    for (let index = start; index < end; index += 1) this.octets[this.position++] = stored[index]!;
    this.#writeApex();
  }

  /** A pointer to the apex; the first time, where the question does not have it in lower case, the apex itself. */
  #writeApex(): void {
    if (this.#apexAt !== 0) {
      this.writeUint16(0xc000 | this.#apexAt);
      return;
    }
    if (this.position <= MAX_POINTER) this.#apexAt = this.position;
    const { words, octets: stored } = this.#segment;
    const start = zoneOctet(this.#zone) + ZONE.APEX * 4;
    const end = start + words[zoneWord(this.#zone) + ZONE.APEX_LENGTH]!;
    for (let index = start; index < end; index += 1) this.octets[this.position++] = stored[index]!;
  }
}
