import { UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import { isSubdomain } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { CLASS, TYPE } from "../../core/dns/rr-types.ts";
import { HEADER_OCTETS } from "../message/query.ts";
import { EMBEDDED_NAMES, NODE, RECORD_FIXED_OCTETS, ZONE, zoneWord } from "../zone-database/layout.ts";
import type { MemorySegment } from "../zone-database/memory.ts";
import type { TransferRequest } from "./transfer-request.ts";

const MAX_MESSAGE_OCTETS = 65_535;
const MAX_POINTER = 0x3fff;
const POINTER = 0xc000;
const QR_AA = 0x84;
const OPT_OCTETS = 11;
/** From so many octets on a block copy pays for itself. */
const LONG_OCTETS = 96;

/**
 * The message of a transfer that is being filled. Owners are compressed against the apex and against the record
 * before, names in RDATA of the zone database's records against the apex; each message is compressed by itself.
 */
export class TransferMessage {
  /** Of the zone database, where the records lie that `addStored` is given. */
  segment!: MemorySegment;
  readonly #request: TransferRequest;
  readonly #apex: Uint8Array;
  readonly #limit: number;
  readonly #octets: Buffer;
  #position = 0;
  #records = 0;
  #messages = 0;
  /** Where in the message the apex stands in lower case, and the name of the node written last; 0: nowhere. */
  #apexAt = 0;
  #node = 0;
  #nodeAt = 0;

  /** @param limitOctets what a message may have, space for a signature taken off */
  constructor(request: TransferRequest, limitOctets = MAX_MESSAGE_OCTETS) {
    this.#request = request;
    this.#octets = Buffer.allocUnsafe(MAX_MESSAGE_OCTETS);
    this.#apex = Buffer.from(request.name.key, "latin1");
    this.#limit = limitOctets - (request.edns ? OPT_OCTETS : 0);
    this.#begin();
  }

  get isEmpty(): boolean {
    return this.#records === 0;
  }

  /**
   * Adds a record as the zone database stores it.
   * @param record where it begins, `next` where the one behind it does
   * @returns whether it fitted; if not, nothing is written
   */
  addStored(node: number, record: number, next: number): boolean {
    const { octets: stored, words } = this.segment;
    const embedded = EMBEDDED_NAMES[(stored[record + 2]! << 8) | stored[record + 3]!]!;
    const relativeOctets = stored[node + NODE.NAME * 4]!;
    const apexOctets = words[zoneWord(words[(node >> 2) + NODE.ZONE]!) + ZONE.APEX_LENGTH]!;
    const mostOctets = next - record + relativeOctets + apexOctets * (1 + (embedded >> 8));
    if (this.#position + mostOctets > this.#limit) return false;
    this.#writeNodeName(node, relativeOctets);
    const rdata = record + RECORD_FIXED_OCTETS;
    if (embedded === 0) {
      this.#copy(stored, record + 2, next);
    } else {
      this.#copy(stored, record + 2, rdata);
      const written = this.#position;
      this.#copy(stored, this.#writeEmbeddedNames(rdata, embedded), next);
      this.#octets.writeUInt16BE(this.#position - written, written - 2);
    }
    this.#records += 1;
    return true;
  }

  /** Adds a record out of the journal. @returns whether it fitted */
  addRecord({ owner, type, ttl, rdata }: ResourceRecord): boolean {
    if (this.#position + owner.wire.length + 10 + rdata.length > this.#limit) return false;
    this.#node = 0;
    if (isSubdomain(owner, this.#request.name)) {
      this.#copy(owner.wire, 0, owner.wire.length - this.#apex.length);
      this.#writeApex();
    } else {
      this.#copy(owner.wire, 0, owner.wire.length);
    }
    this.#u16(type);
    this.#u16(CLASS.IN);
    this.#u32(ttl);
    this.#u16(rdata.length);
    this.#copy(rdata, 0, rdata.length);
    this.#records += 1;
    return true;
  }

  /** The message as it is, a copy; the next one is begun. */
  take(): Uint8Array {
    const { edns } = this.#request;
    if (edns && this.#messages === 0) this.#writeOpt(edns.dnssecOk);
    this.#octets.writeUInt16BE(this.#records, 6);
    const message = new Uint8Array(this.#octets.subarray(0, this.#position));
    this.#messages += 1;
    this.#begin();
    return message;
  }

  /** RFC 5936 §2.2: the question is in the first message; later ones may leave it out. */
  #begin(): void {
    const { id, recursionDesired, name, type } = this.#request;
    this.#octets.fill(0, 0, HEADER_OCTETS);
    this.#octets.writeUInt16BE(id, 0);
    this.#octets[2] = QR_AA | (recursionDesired ? 1 : 0);
    this.#position = HEADER_OCTETS;
    this.#records = 0;
    this.#apexAt = 0;
    this.#node = 0;
    if (this.#messages > 0) return;
    this.#octets.writeUInt16BE(1, 4);
    // Case is kept in the question (RFC 4343); only in lower case does it stand for the apex.
    if (Buffer.compare(name.wire, this.#apex) === 0 && name.labelCount > 0) this.#apexAt = HEADER_OCTETS;
    this.#copy(name.wire, 0, name.wire.length);
    this.#u16(type);
    this.#u16(CLASS.IN);
  }

  /** RFC 6891 §6.1.1: a response has an OPT record where the request has one. */
  #writeOpt(dnssecOk: boolean): void {
    this.#octets[this.#position++] = 0;
    this.#u16(TYPE.OPT);
    this.#u16(UDP_PAYLOAD_OCTETS);
    this.#u32(dnssecOk ? 0x8000 : 0);
    this.#u16(0);
    this.#octets.writeUInt16BE(1, 10);
  }

  #writeNodeName(node: number, relativeOctets: number): void {
    if (this.#node === node) {
      this.#u16(POINTER | this.#nodeAt);
      return;
    }
    const isReachable = this.#position <= MAX_POINTER;
    this.#node = isReachable ? node : 0;
    this.#nodeAt = this.#position;
    const start = node + NODE.NAME * 4 + 1;
    this.#copy(this.segment.octets, start, start + relativeOctets);
    this.#writeApex();
  }

  /** Copies the RDATA up to the end of its last name; returns where in the zone database the rest begins. */
  #writeEmbeddedNames(rdata: number, embedded: number): number {
    const { octets: stored } = this.segment;
    let source = rdata + (embedded & 0xff) - 1;
    this.#copy(stored, rdata, source);
    for (let names = embedded >> 8; names > 0; names -= 1) {
      let end = source;
      while (stored[end]! > 0 && stored[end]! < 0xc0) end += stored[end]! + 1;
      this.#copy(stored, source, end);
      if (stored[end] === 0) {
        this.#octets[this.#position++] = 0;
        source = end + 1;
      } else {
        this.#writeApex();
        source = end + 2;
      }
    }
    return source;
  }

  /** A pointer to the apex, or the apex itself where it does not stand in this message yet. */
  #writeApex(): void {
    if (this.#apexAt > 0) {
      this.#u16(POINTER | this.#apexAt);
      return;
    }
    if (this.#position <= MAX_POINTER && this.#apex.length > 1) this.#apexAt = this.#position;
    this.#copy(this.#apex, 0, this.#apex.length);
  }

  /** Octet by octet: most are few, and a view of the source for `set` would cost more than they do. */
  #copy(source: Uint8Array, start: number, end: number): void {
    const octets = this.#octets;
    let position = this.#position;
    if (end - start > LONG_OCTETS) {
      octets.set(source.subarray(start, end), position);
      position += end - start;
    } else {
      for (let index = start; index < end; index += 1) octets[position++] = source[index]!;
    }
    this.#position = position;
  }

  #u16(value: number): void {
    this.#octets[this.#position++] = value >>> 8;
    this.#octets[this.#position++] = value;
  }

  #u32(value: number): void {
    this.#octets.writeUInt32BE(value, this.#position);
    this.#position += 4;
  }
}
