import { RCODE, TYPE } from "../core/dns/rr-types.ts";
import { FLAG, RECORD_FIXED_OCTETS, ZONE } from "./picture/layout.ts";
import { LookupName } from "./picture/lookup-name.ts";
import type { PictureReader } from "./picture/reader.ts";
import { HEADER_OCTETS, type Query } from "./query.ts";
import { EXTENDED_ERROR, type Response, SECTION } from "./response.ts";

/** Aliases followed for one query; a chain or a loop ends there. */
const MAX_ALIASES = 16;
/** Names that an answer remembers having added the addresses of, so that none come twice. */
const MAX_REMEMBERED = 256;
const MAX_NAME_OCTETS = 255;
const MAX_POINTER = 0x3fff;

/** What a step of the algorithm comes to. */
const DONE = 0;
/** The name is an alias; `#targetAt` says where its target stands. */
const FOLLOW = 1;
/** The answer or a part of it that cannot be left out does not fit. */
const OVERFLOW = 2;

/**
 * Answers queries from the picture: RFC 1034 §4.3.2 as clarified by RFC 2181, 2308, 4592, 6604, 6672, 8482 and 9471.
 * One object per thread; nothing is allocated per query.
 */
export class Answerer {
  readonly #reader: PictureReader;
  /** The query's name and the aliases' targets, in the chain's order. */
  readonly #chain: LookupName[];
  readonly #additionalName = new LookupName();
  readonly #synthesised = new Uint8Array(MAX_NAME_OCTETS);
  /** Nodes whose addresses have been added. */
  readonly #added = new Int32Array(MAX_REMEMBERED);
  #addedCount = 0;
  #targetAt = 0;
  /** Class of the answer for response rate limiting: the node or zone that it comes from. */
  origin = 0;

  #query!: Query;
  #response!: Response;
  #zone = 0;
  #apexLabel = 0;
  #streamed = false;

  constructor(reader: PictureReader) {
    this.#reader = reader;
    this.#chain = Array.from({ length: MAX_ALIASES + 1 }, () => new LookupName());
  }

  /**
   * Writes the records of the answer, its rcode and AA.
   * @param streamed whether it goes over TCP, where ANY is answered in full
   * @returns whether it fitted; if not, the response holds what fitted and must be truncated
   */
  answer(query: Query, response: Response, streamed: boolean): boolean {
    this.#query = query;
    this.#response = response;
    this.#streamed = streamed;
    this.origin = 0;
    this.#addedCount = 0;
    if (!this.#enterFirstZone()) {
      response.rcode = RCODE.REFUSED;
      response.extendedError = EXTENDED_ERROR.NOT_AUTHORITATIVE;
      return true;
    }
    response.authoritative = true;
    let name = query.name;
    let owner = HEADER_OCTETS;
    for (let aliases = 0; ; ) {
      const outcome = this.#resolve(name, owner);
      if (outcome !== FOLLOW) return outcome === DONE;
      aliases += 1;
      owner = this.#targetAt;
      if (aliases > MAX_ALIASES || owner > MAX_POINTER) return true;
      const target = this.#chain[aliases]!;
      target.read(response.octets, owner, response.position);
      if (!this.#enterTarget(target, aliases)) return true;
      name = target;
    }
  }

  /** Finds the zone of the question; for a DS query the parent's side of the cut (RFC 4035 §3.1.4.1). */
  #enterFirstZone(): boolean {
    const { name, type } = this.#query;
    let zone = type === TYPE.DS && name.labelCount > 0 ? this.#reader.findZone(name, 1) : 0;
    if (zone === 0) zone = this.#reader.findZone(name);
    if (zone === 0) return false;
    this.#zone = zone;
    this.#apexLabel = this.#reader.zoneLabel;
    const apex = name.startOf(this.#apexLabel);
    this.#response.enterZone(zone, name.lastUpperCase < apex ? HEADER_OCTETS + apex : 0);
    return true;
  }

  /** Goes on with an alias' target, unless it is in no zone below that of the alias, or was in the chain before. */
  #enterTarget(target: LookupName, aliases: number): boolean {
    if (this.#apexLabelIn(target) < 0) return false;
    if (target.equals(this.#query.name)) return false;
    for (let index = 1; index < aliases; index += 1) if (target.equals(this.#chain[index]!)) return false;
    const zone = this.#reader.findZone(target);
    if (zone === 0) return false;
    this.#zone = zone;
    this.#apexLabel = this.#reader.zoneLabel;
    this.#response.enterZone(zone, 0);
    return true;
  }

  /** Walks from the apex down to the name: RFC 1034 §4.3.2 step 3, RFC 4592 §3.3.1. */
  #resolve(name: LookupName, owner: number): number {
    const reader = this.#reader;
    const zone = this.#zone;
    const apexLabel = this.#apexLabel;
    let node = reader.apexNode(zone);
    let hash = reader.zoneSeed(zone);
    for (let label = apexLabel - 1; label >= 0; label -= 1) {
      const flags = reader.flags(node);
      if ((flags & FLAG.DNAME) !== 0) return this.#redirect(node, name, label + 1, owner);
      const parentHash = hash;
      hash = reader.childHash(parentHash, name, label);
      const child = reader.findNode(zone, hash, name, label, apexLabel);
      if (child === 0) {
        if ((flags & FLAG.WILDCARD_CHILD) === 0) return this.#nameError();
        const wildcard = reader.findWildcard(zone, reader.wildcardHash(parentHash), name, label + 1, apexLabel);
        return wildcard === 0 ? this.#nameError() : this.#answerAt(wildcard, name, owner);
      }
      node = child;
      if ((reader.flags(node) & FLAG.CUT) !== 0 && !(label === 0 && this.#query.type === TYPE.DS)) {
        return this.#refer(node, name, label);
      }
    }
    return this.#answerAt(node, name, owner);
  }

  /** The name exists, or a wildcard stands for it. */
  #answerAt(node: number, name: LookupName, owner: number): number {
    const reader = this.#reader;
    const { type } = this.#query;
    const response = this.#response;
    this.origin = node;
    if (type === TYPE.ANY) return this.#answerAny(node, owner);
    const start = response.position;
    const rrset = reader.findRrset(node, type);
    if (rrset !== 0) {
      if (!response.writeRrset(rrset, node, owner)) return OVERFLOW;
      this.#addAddresses(type, start, name, owner);
      return DONE;
    }
    if ((reader.flags(node) & FLAG.CNAME) === 0) return this.#writeNegativeSoa();
    if (!response.writeRrset(reader.findRrset(node, TYPE.CNAME), node, owner)) return OVERFLOW;
    this.#targetAt = start + RECORD_FIXED_OCTETS;
    return FOLLOW;
  }

  /** RFC 8482 §4.1: over UDP one RRset, over TCP all. */
  #answerAny(node: number, owner: number): number {
    let left = this.#reader.rrsetCount(node);
    if (left === 0) return this.#writeNegativeSoa();
    let rrset = this.#reader.firstRrset(node);
    if (!this.#streamed) left = 1;
    for (; left > 0; left -= 1) {
      if (!this.#response.writeRrset(rrset, node, owner)) return OVERFLOW;
      if (left > 1) rrset = this.#reader.nextRrset(rrset);
    }
    return DONE;
  }

  #nameError(): number {
    this.#response.rcode = RCODE.NXDOMAIN;
    this.origin = this.#zone;
    return this.#writeNegativeSoa();
  }

  /** The SOA in the authority section, its TTL that of the negative answer (RFC 2308 §3 and §5). */
  #writeNegativeSoa(): number {
    const reader = this.#reader;
    const response = this.#response;
    const apex = reader.apexNode(this.#zone);
    const soa = reader.findRrset(apex, TYPE.SOA);
    const start = response.position;
    response.section = SECTION.AUTHORITY;
    if (soa === 0 || !response.writeRrset(soa, apex, 0)) return OVERFLOW;
    const ttl = response.skipName(start) + 4;
    response.setUint32At(ttl, reader.memory.words[(this.#zone >> 2) + ZONE.NEGATIVE_TTL]!);
    return DONE;
  }

  /** A DNAME above the name: its record, and the CNAME that it stands for (RFC 6672 §3.2). */
  #redirect(node: number, name: LookupName, dnameLabel: number, owner: number): number {
    const reader = this.#reader;
    const response = this.#response;
    const start = response.position;
    this.origin = node;
    const dnameOwner = owner === HEADER_OCTETS ? HEADER_OCTETS + name.startOf(dnameLabel) : 0;
    if (!response.writeRrset(reader.findRrset(node, TYPE.DNAME), node, dnameOwner)) return OVERFLOW;
    const fields = response.skipName(start);
    const target = fields + 10;
    const prefixOctets = name.startOf(dnameLabel);
    const targetOctets = response.uint16At(fields + 8);
    if (prefixOctets + targetOctets > MAX_NAME_OCTETS) {
      response.rcode = RCODE.YXDOMAIN;
      return DONE;
    }
    // The prefix keeps the case that the client wrote it in.
    const prefix = owner === HEADER_OCTETS ? response.octets.subarray(HEADER_OCTETS) : name.octets;
    for (let index = 0; index < prefixOctets; index += 1) this.#synthesised[index] = prefix[index]!;
    for (let index = 0; index < targetOctets; index += 1) {
      this.#synthesised[prefixOctets + index] = response.octets[target + index]!;
    }
    const cname = response.position;
    if (!response.writeCname(owner, fields + 4, this.#synthesised, prefixOctets + targetOctets)) return OVERFLOW;
    this.#targetAt = cname + RECORD_FIXED_OCTETS;
    return this.#query.type === TYPE.CNAME || this.#query.type === TYPE.ANY ? DONE : FOLLOW;
  }

  /** A zone cut at or above the name: its NS, and the glue without which they cannot be reached. */
  #refer(node: number, name: LookupName, label: number): number {
    const response = this.#response;
    this.origin = node;
    if (response.counts[SECTION.ANSWER] === 0) response.authoritative = false;
    response.section = SECTION.AUTHORITY;
    const start = response.position;
    const owner = name === this.#query.name ? HEADER_OCTETS + name.startOf(label) : 0;
    if (!response.writeRrset(this.#reader.findRrset(node, TYPE.NS), node, owner)) return OVERFLOW;
    const end = response.position;
    response.section = SECTION.ADDITIONAL;
    // RFC 9471 §2: glue for servers in the delegated domain is required, for its siblings it is welcome.
    if (!this.#writeGlue(start, end, name, label, true)) return OVERFLOW;
    this.#writeGlue(start, end, name, label, false);
    return DONE;
  }

  /**
   * Adds the addresses that the zone has for the targets of the NS records between two offsets.
   * @param required those at or below the cut; else the others
   * @returns whether all fitted
   */
  #writeGlue(start: number, end: number, name: LookupName, cutLabel: number, required: boolean): boolean {
    const response = this.#response;
    const target = this.#additionalName;
    for (let record = start; record < end; ) {
      const rdata = response.skipName(record) + 10;
      target.read(response.octets, rdata, end);
      record = rdata + response.uint16At(rdata - 2);
      if (isAtOrBelow(target, name, cutLabel) !== required) continue;
      const node = this.#findTarget(target, true);
      if (node !== 0 && !this.#writeAddresses(node, rdata)) return false;
    }
    return true;
  }

  /** RFC 1035 §3.3, RFC 2782, RFC 9460 §4.1: addresses that the client will ask for next, as far as they fit. */
  #addAddresses(type: number, start: number, name: LookupName, owner: number): void {
    if (type !== TYPE.MX && type !== TYPE.NS && type !== TYPE.SRV && type !== TYPE.NAPTR) {
      if (type !== TYPE.SVCB && type !== TYPE.HTTPS) return;
    }
    const response = this.#response;
    const end = response.position;
    response.section = SECTION.ADDITIONAL;
    const target = this.#additionalName;
    for (let record = start; record < end; ) {
      const rdata = record + RECORD_FIXED_OCTETS;
      record = rdata + response.uint16At(rdata - 2);
      const targetAt = this.#targetOf(type, rdata);
      // RFC 9460 §2.5.2: "." as the target of a ServiceMode record is its owner.
      const isOwner = response.octets[targetAt] === 0 && (type === TYPE.SVCB || type === TYPE.HTTPS);
      if (!isOwner) target.read(response.octets, targetAt, end);
      const node = this.#findTarget(isOwner ? name : target, false);
      if (node === 0) continue;
      const nameAt = isOwner ? owner : targetAt;
      if (type === TYPE.NAPTR) this.#writeAdditional(node, TYPE.SRV, nameAt);
      this.#writeAddresses(node, nameAt);
    }
  }

  /** Where in a record's RDATA the name stands whose addresses are wanted. */
  #targetOf(type: number, rdata: number): number {
    if (type === TYPE.NS) return rdata;
    if (type === TYPE.SRV) return rdata + 6;
    if (type !== TYPE.NAPTR) return rdata + 2;
    // RFC 3403 §4.1: order and preference, then three character strings.
    let position = rdata + 4;
    for (let strings = 0; strings < 3; strings += 1) position += this.#response.octets[position]! + 1;
    return position;
  }

  /** The node of a name in the current zone: below cuts as well when glue is wanted, else only where it is authoritative. */
  #findTarget(name: LookupName, glue: boolean): number {
    const reader = this.#reader;
    const apexLabel = this.#apexLabelIn(name);
    if (apexLabel < 0) return 0;
    let node = reader.apexNode(this.#zone);
    let hash = reader.zoneSeed(this.#zone);
    for (let label = apexLabel - 1; label >= 0; label -= 1) {
      if (!glue && (reader.flags(node) & (FLAG.CUT | FLAG.DNAME)) !== 0) return 0;
      hash = reader.childHash(hash, name, label);
      node = reader.findNode(this.#zone, hash, name, label, apexLabel);
      if (node === 0) return 0;
    }
    return !glue && (reader.flags(node) & FLAG.CUT) !== 0 ? 0 : node;
  }

  #writeAddresses(node: number, nameAt: number): boolean {
    for (let index = 0; index < this.#addedCount; index += 1) if (this.#added[index] === node) return true;
    if (this.#addedCount < MAX_REMEMBERED) this.#added[this.#addedCount++] = node;
    const addressesFit = this.#writeAdditional(node, TYPE.A, nameAt);
    return this.#writeAdditional(node, TYPE.AAAA, nameAt) && addressesFit;
  }

  #writeAdditional(node: number, type: number, nameAt: number): boolean {
    const rrset = this.#reader.findRrset(node, type);
    return rrset === 0 || this.#response.writeRrset(rrset, node, nameAt > MAX_POINTER ? 0 : nameAt);
  }

  /** The label of a name at which the current zone's apex begins; −1 when the name is not at or below it. */
  #apexLabelIn(name: LookupName): number {
    const { words, octets } = this.#reader.memory;
    const apexOctets = words[(this.#zone >> 2) + ZONE.APEX_LENGTH]!;
    const start = name.length - apexOctets;
    for (let label = 0; label <= name.labelCount; label += 1) {
      const at = name.startOf(label);
      if (at < start) continue;
      if (at > start) return -1;
      const apex = this.#zone + ZONE.APEX * 4;
      for (let index = 0; index < apexOctets; index += 1) {
        if (octets[apex + index] !== name.octets[start + index]) return -1;
      }
      return label;
    }
    return -1;
  }
}

/** Whether a name is at or below the one that begins at a label of another. */
function isAtOrBelow(name: LookupName, other: LookupName, otherLabel: number): boolean {
  const otherStart = other.startOf(otherLabel);
  const length = other.length - otherStart;
  const start = name.length - length;
  for (let label = 0; label <= name.labelCount; label += 1) {
    const at = name.startOf(label);
    if (at < start) continue;
    if (at > start) return false;
    for (let index = 0; index < length; index += 1) {
      if (name.octets[start + index] !== other.octets[otherStart + index]) return false;
    }
    return true;
  }
  return false;
}
