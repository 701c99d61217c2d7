import { TYPE } from "../../core/dns/rr-types.ts";
import { LookupName } from "../zone-database/lookup-name.ts";

/** Octets of the header (RFC 1035 §4.1.1). */
export const HEADER_OCTETS = 12;

/** EDNS options that the server acts upon. */
export const EDNS_OPTION = { NSID: 3, COOKIE: 10, TCP_KEEPALIVE: 11, PADDING: 12, EXTENDED_ERROR: 15 } as const;

/** Octets of a record behind its owner, RDATA aside: type, class, TTL, RDLENGTH. */
const RECORD_FIELDS_OCTETS = 10;

/**
 * A query as its octets say, read in place. One object per thread, filled anew for each packet.
 * Callers have checked the length of the header, QR and the opcode.
 */
export class Query {
  /** The packet itself; valid until the next one is read. */
  octets: Uint8Array = new Uint8Array(0);
  readonly name = new LookupName();
  type = 0;
  class = 0;
  questionCount = 0;
  /** Offset behind the question; of the header's end while there is none. */
  questionEnd = HEADER_OCTETS;

  hasEdns = false;
  ednsVersion = 0;
  /** What the client takes over UDP, as it says. */
  udpPayloadOctets = 0;
  dnssecOk = false;
  wantsNsid = false;
  wantsKeepalive = false;
  wantsPadding = false;
  /** Where the COOKIE option's data begins, and its octets; 0 for none. */
  cookieStart = 0;
  cookieOctets = 0;
  hasTsig = false;

  /**
   * Reads a packet.
   * @returns whether it is well formed; what was read up to the fault stays, for a FORMERR with the question in it
   * @see RFC 1035 §4.1, RFC 6891 §6.1, RFC 9619 (one question)
   */
  read(octets: Uint8Array, length: number): boolean {
    this.octets = octets;
    this.questionEnd = HEADER_OCTETS;
    this.type = 0;
    this.class = 0;
    this.hasEdns = false;
    this.ednsVersion = 0;
    this.udpPayloadOctets = 0;
    this.dnssecOk = false;
    this.wantsNsid = false;
    this.wantsKeepalive = false;
    this.wantsPadding = false;
    this.cookieOctets = 0;
    this.hasTsig = false;
    this.questionCount = uint16(octets, 4);
    if (this.questionCount === 1 && !this.#readQuestion(length)) return false;
    const records = this.questionCount > 1 ? this.#skipQuestions(length) : this.questionEnd;
    if (records < 0) return false;
    return this.#readRecords(records, length) && this.questionCount <= 1;
  }

  /** Takes the question as not understood: it does not come back in the response. */
  dropQuestion(): void {
    this.questionEnd = HEADER_OCTETS;
  }

  /** Offset behind several questions, which are refused: what follows may have EDNS. −1 when they run past the end. */
  #skipQuestions(length: number): number {
    let position = HEADER_OCTETS;
    for (let index = 0; index < this.questionCount; index += 1) {
      const end = this.#skipName(position, length);
      if (end < 0 || end + 4 > length) return -1;
      position = end + 4;
    }
    return position;
  }

  #readQuestion(length: number): boolean {
    const { octets } = this;
    const end = this.name.read(octets, HEADER_OCTETS, length);
    // Nothing stands before the question that its name could point to.
    if (end !== HEADER_OCTETS + this.name.length || end + 4 > length) return false;
    this.type = uint16(octets, end);
    this.class = uint16(octets, end + 2);
    this.questionEnd = end + 4;
    return true;
  }

  /** Steps over answer and authority and reads the additional records, of which EDNS and TSIG matter. */
  #readRecords(start: number, length: number): boolean {
    const { octets } = this;
    const unread = uint16(octets, 6) + uint16(octets, 8);
    const count = unread + uint16(octets, 10);
    let position = start;
    let isInOrder = true;
    for (let index = 0; index < count; index += 1) {
      const owner = position;
      position = this.#skipName(position, length);
      if (position < 0 || position + RECORD_FIELDS_OCTETS > length) return false;
      const type = uint16(octets, position);
      const rdata = position + RECORD_FIELDS_OCTETS;
      const next = rdata + uint16(octets, position + 8);
      if (next > length) return false;
      if (type === TYPE.OPT) {
        // RFC 6891 §6.1.1: one OPT, in the additional section, owned by the root.
        if (this.hasEdns || index < unread || position !== owner + 1) return false;
        if (!this.#readEdns(position, rdata, next)) return false;
      } else if (type === TYPE.TSIG) {
        // RFC 8945 §5.1: the last record of the additional section.
        if (index !== count - 1 || index < unread) isInOrder = false;
        this.hasTsig = true;
      }
      position = next;
    }
    return isInOrder;
  }

  #readEdns(fields: number, start: number, end: number): boolean {
    const { octets } = this;
    this.hasEdns = true;
    this.udpPayloadOctets = uint16(octets, fields + 2);
    this.ednsVersion = octets[fields + 5]!;
    this.dnssecOk = (octets[fields + 6]! & 0x80) !== 0;
    let position = start;
    while (position < end) {
      if (position + 4 > end) return false;
      const code = uint16(octets, position);
      const length = uint16(octets, position + 2);
      const data = position + 4;
      if (data + length > end) return false;
      if (code === EDNS_OPTION.NSID) {
        this.wantsNsid = true;
      } else if (code === EDNS_OPTION.COOKIE) {
        // RFC 7873 §5.2.2: 8 octets, or 16 to 40.
        if (length !== 8 && (length < 16 || length > 40)) return false;
        if (this.cookieOctets === 0) {
          this.cookieStart = data;
          this.cookieOctets = length;
        }
      } else if (code === EDNS_OPTION.TCP_KEEPALIVE) {
        this.wantsKeepalive = true;
      } else if (code === EDNS_OPTION.PADDING) {
        this.wantsPadding = true;
      }
      position = data + length;
    }
    return true;
  }

  /** Offset behind a name that is not looked at; −1 when it runs past the end or has a label of an unknown kind. */
  #skipName(start: number, end: number): number {
    let position = start;
    while (position < end) {
      const octet = this.octets[position]!;
      if (octet === 0) return position + 1;
      if (octet >= 0xc0) return position + 2;
      if (octet > 63) return -1;
      position += octet + 1;
    }
    return -1;
  }
}

function uint16(octets: Uint8Array, offset: number): number {
  return (octets[offset]! << 8) | octets[offset + 1]!;
}
