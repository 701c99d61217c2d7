import { TYPE } from "../../core/dns/rr-types.ts";
import { HEADER_OCTETS } from "../message/query.ts";
import { EMBEDDED_NAMES } from "../zone-database/layout.ts";
import type { RecordInPlace } from "./zone-filler.ts";

const MAX_NAME_OCTETS = 255;
const MAX_RDATA_OCTETS = 65_535;
/** Type, class, TTL, RDLENGTH. */
const FIELDS_OCTETS = 10;

/**
 * Reads the answers of the messages that a transfer of ours writes (transfer/transfer-message.ts), one record at a time
 * and without an object for any: names are compressed in owners and in RDATA of the types of `EMBEDDED_NAMES` alone.
 */
export class TransferredRecords implements RecordInPlace {
  /** The owner at hand, then its RDATA, both uncompressed. */
  readonly octets = new Uint8Array(MAX_NAME_OCTETS + MAX_RDATA_OCTETS + 2 * MAX_NAME_OCTETS);
  readonly ownerStart = 0;
  readonly rdataStart = MAX_NAME_OCTETS;
  ownerOctets = 0;
  type = 0;
  /** Seconds. */
  ttl = 0;
  rdataOctets = 0;
  #message: Uint8Array = new Uint8Array(0);
  #position = 0;
  #left = 0;
  /** Where in `octets` the next octet goes. */
  #end = 0;

  /** Begins with a message, which is to be left as it is until the last of its records is taken. */
  begin(message: Uint8Array): void {
    this.#message = message;
    this.#left = this.#uint16(6);
    this.#position = HEADER_OCTETS;
    for (let questions = this.#uint16(4); questions > 0; questions -= 1) {
      this.#end = 0;
      this.#position = this.#readName(this.#position) + 4;
    }
  }

  /**
   * Goes on to the next record.
   * @returns whether there is one in this message
   * @throws for what no transfer of ours writes
   */
  next(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    this.#end = 0;
    const fields = this.#readName(this.#position);
    this.ownerOctets = this.#end;
    this.type = this.#uint16(fields);
    this.ttl = this.#uint16(fields + 4) * 2 ** 16 + this.#uint16(fields + 6);
    const start = fields + FIELDS_OCTETS;
    const end = start + this.#uint16(fields + 8);
    if (end > this.#message.length) throw malformed();
    this.#end = this.rdataStart;
    this.#readRdata(start, end);
    this.rdataOctets = this.#end - this.rdataStart;
    this.#position = end;
    return true;
  }

  get isSoa(): boolean {
    return this.type === TYPE.SOA;
  }

  #readRdata(start: number, end: number): void {
    const embedded = EMBEDDED_NAMES[this.type]!;
    let position = start;
    if (embedded !== 0) {
      this.#copy(start, start + (embedded & 0xff) - 1);
      position += (embedded & 0xff) - 1;
      for (let names = embedded >> 8; names > 0; names -= 1) position = this.#readName(position);
      if (position > end) throw malformed();
    }
    this.#copy(position, end);
  }

  /** Copies a name, its pointers followed (RFC 1035 §4.1.4). @returns the offset behind it */
  #readName(start: number): number {
    const message = this.#message;
    const limit = this.#end + MAX_NAME_OCTETS;
    let position = start;
    let behind = -1;
    for (let length = message[position]!; length !== 0; length = message[position]!) {
      if (length >= 0xc0) {
        const target = this.#uint16(position) & 0x3fff;
        if (behind < 0) behind = position + 2;
        if (target >= position) throw malformed();
        position = target;
      } else {
        const end = position + 1 + length;
        if (!(this.#end + 1 + length < limit) || end >= message.length) throw malformed();
        this.#copy(position, end);
        position = end;
      }
    }
    this.octets[this.#end++] = 0;
    return behind < 0 ? position + 1 : behind;
  }

  #copy(start: number, end: number): void {
    const { octets } = this;
    const message = this.#message;
    let to = this.#end;
    for (let from = start; from < end; from += 1) octets[to++] = message[from]!;
    this.#end = to;
  }

  #uint16(offset: number): number {
    return (this.#message[offset]! << 8) | this.#message[offset + 1]!;
  }
}

function malformed(): Error {
  return new Error("a message of the snapshot is malformed");
}
