import { RCODE, TYPE } from "../core/dns/rr-types.ts";
import { AdditionalData } from "./additional.ts";
import { FLAG, RECORD_FIXED_OCTETS, ZONE } from "./picture/layout.ts";
import { LookupName } from "./picture/lookup-name.ts";
import type { PictureReader } from "./picture/reader.ts";
import type { Authority } from "./pipeline.ts";
import { HEADER_OCTETS, type Query } from "./query.ts";
import { EXTENDED_ERROR, MAX_POINTER, type Response, SECTION } from "./response.ts";

/** Aliases followed for one query; a chain or a loop ends there. */
const MAX_ALIASES = 16;
const MAX_NAME_OCTETS = 255;

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
  readonly #additional: AdditionalData;
  readonly #synthesised = new Uint8Array(MAX_NAME_OCTETS);
  /** DNAMEs in the answer, and where their fields are. */
  readonly #dnames = new Int32Array(MAX_ALIASES + 1);
  readonly #dnamesAt = new Int32Array(MAX_ALIASES + 1);
  #dnameCount = 0;
  #targetAt = 0;
  /** Class of the answer for response rate limiting: the node or zone that it comes from. */
  origin = 0;
  /** Set by `answer` when the zone is one that only some may ask, and nobody has said yet whether this client may. */
  needsAuthority = false;

  #query!: Query;
  #response!: Response;
  #zone = 0;
  #apexLabel = 0;
  #streamed = false;

  constructor(reader: PictureReader) {
    this.#reader = reader;
    this.#additional = new AdditionalData(reader);
    this.#chain = Array.from({ length: MAX_ALIASES + 1 }, () => new LookupName());
  }

  /**
   * Writes the records of the answer, its rcode and AA.
   * @param streamed whether it goes over TCP, where ANY is answered in full
   * @param authority says whether the client may ask a restricted zone
   * @returns whether it fitted; if not, the response holds what fitted and must be truncated
   */
  answer(query: Query, response: Response, streamed: boolean, authority?: Authority): boolean {
    this.#query = query;
    this.#response = response;
    this.#streamed = streamed;
    this.origin = 0;
    this.#additional.begin(response);
    this.#dnameCount = 0;
    this.needsAuthority = false;
    if (!this.#enterFirstZone()) {
      response.rcode = RCODE.REFUSED;
      response.extendedError = EXTENDED_ERROR.NOT_AUTHORITATIVE;
      return true;
    }
    if (this.#reader.isRestricted(this.#zone) && !authority?.mayRead(this.#reader.apexOf(this.#zone))) {
      this.needsAuthority = authority === undefined;
      response.rcode = RCODE.REFUSED;
      response.extendedError = EXTENDED_ERROR.PROHIBITED;
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
    if (this.#reader.apexLabelIn(this.#zone, target) < 0) return false;
    if (target.equals(this.#query.name)) return false;
    for (let index = 1; index < aliases; index += 1) if (target.equals(this.#chain[index]!)) return false;
    const zone = this.#reader.findZone(target);
    // A public name leads into no restricted zone; within one, whoever asks has been let in.
    if (zone === 0 || (zone !== this.#zone && this.#reader.isRestricted(zone))) return false;
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
      this.#additional.addAddresses(this.#zone, type, start, { name, at: owner });
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
    const response = this.#response;
    this.origin = node;
    const fields = this.#writeDname(node, owner === HEADER_OCTETS ? HEADER_OCTETS + name.startOf(dnameLabel) : 0);
    if (fields === 0) return OVERFLOW;
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

  /**
   * Writes a DNAME, unless a loop has led back to one that is in the answer.
   * @returns offset of its fields behind the owner; 0 when it does not fit
   */
  #writeDname(node: number, owner: number): number {
    for (let index = 0; index < this.#dnameCount; index += 1) {
      if (this.#dnames[index] === node) return this.#dnamesAt[index]!;
    }
    const response = this.#response;
    const start = response.position;
    if (!response.writeRrset(this.#reader.findRrset(node, TYPE.DNAME), node, owner)) return 0;
    const fields = response.skipName(start);
    this.#dnames[this.#dnameCount] = node;
    this.#dnamesAt[this.#dnameCount] = fields;
    this.#dnameCount += 1;
    return fields;
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
    // RFC 9471 §2: glue for servers in the delegated domain is required, for its siblings it is welcome.
    if (!this.#additional.writeGlue(this.#zone, { start, end }, { name, label }, true)) return OVERFLOW;
    this.#additional.writeGlue(this.#zone, { start, end }, { name, label }, false);
    return DONE;
  }
}
