import { RCODE, TYPE } from "../../core/dns/rr-types.ts";
import { HEADER_OCTETS, type Query } from "../message/query.ts";
import { EXTENDED_ERROR, MAX_POINTER, type Response, SECTION } from "../message/response.ts";
import { EXCEPTION, FLAG, RECORD_FIXED_OCTETS } from "../zone-database/layout.ts";
import { LookupName } from "../zone-database/lookup-name.ts";
import type { ZoneDatabaseReader } from "../zone-database/reader.ts";
import { AdditionalData } from "./additional.ts";
import type { Authority } from "./authority.ts";
import { DenialProofs, DeniedName } from "./denial-proofs.ts";
import { DnameAnswers, REDIRECTION } from "./dname-answers.ts";

/** Aliases followed for one query; a chain or a loop ends there. */
const MAX_ALIASES = 16;

/** What a step of the algorithm comes to. */
const DONE = 0;
/** The name is an alias; `#targetAt` says where its target stands. */
const FOLLOW = 1;
/** The answer or a part of it that cannot be left out does not fit. */
const OVERFLOW = 2;

/**
 * Answers queries from the zone database: RFC 1034 §4.3.2 as clarified by RFC 2181, 2308, 4592, 6604, 6672, 8482 and 9471,
 * with signatures and proofs for those who take them: RFC 4035 §3.1, RFC 5155 §7.2.
 * One object per thread; nothing is allocated per query.
 */
export class Answerer {
  readonly #reader: ZoneDatabaseReader;
  /** The query's name and the aliases' targets, in the chain's order. */
  readonly #chain: LookupName[];
  readonly #additional: AdditionalData;
  readonly #proofs: DenialProofs;
  /** The name at hand, as far as the walk has come. */
  readonly #denied = new DeniedName();
  readonly #dnames: DnameAnswers;
  #targetAt = 0;
  /** Class of the answer for response rate limiting: the node or zone that it comes from. Each query begins with 0, for none. */
  origin = 0;
  /** What was shown of the first zone when it was entered (`ZoneDatabaseReader.publishedOf`). */
  published = 0;
  /** Whether the answer comes from no other zone than the first, if from any. */
  comesFromOneZone = true;
  /** Set by `answer` when the zone is one that only some may ask, and nobody has said yet whether this client may. */
  needsAuthority = false;

  #query!: Query;
  #response!: Response;
  #zone = 0;
  #apexLabel = 0;
  #streamed = false;

  constructor(reader: ZoneDatabaseReader) {
    this.#reader = reader;
    this.#additional = new AdditionalData(reader);
    this.#proofs = new DenialProofs(reader);
    this.#dnames = new DnameAnswers(reader, MAX_ALIASES + 1);
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
    this.#additional.begin(response);
    this.#proofs.begin(response);
    this.#dnames.begin(response);
    this.needsAuthority = false;
    this.comesFromOneZone = true;
    this.#zone = 0;
    if (!this.#enterFirstZone()) {
      response.rcode = RCODE.REFUSED;
      response.extendedError = EXTENDED_ERROR.NOT_AUTHORITATIVE;
      return true;
    }
    if (this.#reader.exceptionsOf(this.#zone) !== 0 && this.#isExcepted(authority)) return true;
    response.authoritative = true;
    let name = query.name;
    let owner = HEADER_OCTETS;
    for (let aliases = 0; ; ) {
      const outcome = this.#resolve(name, owner);
      if (outcome !== FOLLOW) return outcome === DONE;
      aliases += 1;
      owner = this.#targetAt;
      if (aliases > MAX_ALIASES || owner > MAX_POINTER) return this.#proofs.writeExpansions();
      const target = this.#chain[aliases]!;
      target.read(response.octets, owner, response.position);
      if (!this.#enterTarget(target, aliases)) return this.#proofs.writeExpansions();
      name = target;
    }
  }

  /** Whether the zone is not for this client, or not there to be answered; the response says so then. */
  #isExcepted(authority: Authority | undefined): boolean {
    const reader = this.#reader;
    while ((reader.exceptionsOf(this.#zone) & EXCEPTION.SUSPENDED) !== 0) {
      const above = this.#zoneInPlaceOf(this.#zone, this.#query.name, this.#apexLabel);
      if (above === 0) {
        this.#response.rcode = RCODE.REFUSED;
        this.#response.extendedError = EXTENDED_ERROR.NOT_AUTHORITATIVE;
        return true;
      }
      this.#enterZone(above);
    }
    if (reader.isRestricted(this.#zone) && !authority?.mayRead(reader.apexOf(this.#zone))) {
      this.needsAuthority = authority === undefined;
      this.#response.rcode = RCODE.REFUSED;
      this.#response.extendedError = EXTENDED_ERROR.PROHIBITED;
      return true;
    }
    if ((reader.exceptionsOf(this.#zone) & EXCEPTION.WITHHELD) === 0) return false;
    this.#response.rcode = RCODE.SERVFAIL;
    this.#response.extendedError = EXTENDED_ERROR.NOT_READY;
    return true;
  }

  /** The zone that the answer was in last; 0 when there is none. */
  get zone(): number {
    return this.#zone;
  }

  /** Finds the zone of the question; for a DS query the parent's side of the cut (RFC 4035 §3.1.4.1). */
  #enterFirstZone(): boolean {
    const { name, type } = this.#query;
    let zone = type === TYPE.DS && name.labelCount > 0 ? this.#reader.findZone(name, 1) : 0;
    if (zone === 0) zone = this.#reader.findZone(name);
    if (zone === 0) return false;
    this.#enterZone(zone);
    return true;
  }

  /**
   * The zone that answers in place of a suspended one: that above it, if it is not another reseller's, who would speak for
   * names that are not his.
   * @param apexLabel where in the name the suspended one begins
   * @returns 0 for none
   */
  #zoneInPlaceOf(suspended: number, name: LookupName, apexLabel: number): number {
    const reader = this.#reader;
    const above = reader.findZone(name, apexLabel + 1);
    return above !== 0 && reader.resellerOf(above) === reader.resellerOf(suspended) ? above : 0;
  }

  /** @param zone that was found last */
  #enterZone(zone: number): void {
    const { name } = this.#query;
    this.#zone = zone;
    this.#apexLabel = this.#reader.zoneLabel;
    this.published = this.#reader.publishedOf(zone);
    this.#reader.open(zone);
    const apex = name.startOf(this.#apexLabel);
    this.#response.enterZone(zone, name.lastUpperCase < apex ? HEADER_OCTETS + apex : 0);
  }

  /** Goes on with an alias' target, unless it is in no zone below that of the alias, or was in the chain before. */
  #enterTarget(target: LookupName, aliases: number): boolean {
    if (this.#reader.apexLabelIn(this.#zone, target) < 0) return false;
    if (target.equals(this.#query.name)) return false;
    for (let index = 1; index < aliases; index += 1) if (target.equals(this.#chain[index]!)) return false;
    const reader = this.#reader;
    let zone = reader.findZone(target);
    while (zone !== 0 && (reader.exceptionsOf(zone) & EXCEPTION.SUSPENDED) !== 0)
      zone = this.#zoneInPlaceOf(zone, target, reader.zoneLabel);
    // A public name leads into no restricted zone, nor into a place-holder; within one, whoever asks has been let in.
    if (zone === 0 || (zone !== this.#zone && reader.exceptionsOf(zone) !== 0)) return false;
    if (zone !== this.#zone) {
      reader.open(zone);
      this.comesFromOneZone = false;
    }
    this.#zone = zone;
    this.#apexLabel = reader.zoneLabel;
    this.#response.enterZone(zone, 0);
    return true;
  }

  /** Walks from the apex down to the name: RFC 1034 §4.3.2 step 3, RFC 4592 §3.3.1. */
  #resolve(name: LookupName, owner: number): number {
    const reader = this.#reader;
    const zone = this.#zone;
    const apexLabel = this.#apexLabel;
    const denied = this.#denied;
    let node = reader.apex;
    let hash = reader.zoneSeed(zone);
    denied.name = name;
    denied.zone = zone;
    denied.apex = node;
    denied.apexLabel = apexLabel;
    denied.encloserLabel = -1;
    for (let label = apexLabel - 1; label >= 0; label -= 1) {
      const flags = reader.flags(node);
      if ((flags & FLAG.DNAME) !== 0) return this.#redirect(node, name, label + 1, owner);
      const parentHash = hash;
      hash = reader.childHash(parentHash, name, label);
      const child = reader.findNode(zone, hash, name, label, apexLabel);
      if (child === 0) {
        denied.encloserLabel = label + 1;
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
    this.origin = reader.identityOf(node);
    if (type === TYPE.ANY) return this.#answerAny(node, owner);
    if (type === TYPE.RRSIG) return this.#answerSignatures(node, owner);
    const start = response.position;
    const rrset = reader.findRrset(node, type);
    if (rrset !== 0) {
      if (!response.writeRrset(rrset, node, owner)) return OVERFLOW;
      const end = response.position;
      if (!response.writeSignatures(rrset, node, owner)) return OVERFLOW;
      if (this.#endAnswer() === OVERFLOW) return OVERFLOW;
      this.#additional.addAddresses(this.#zone, type, { start, end }, { name, at: owner });
      return DONE;
    }
    if ((reader.flags(node) & FLAG.CNAME) === 0) return this.#noData(node);
    if (!response.writeSigned(reader.findRrset(node, TYPE.CNAME), node, owner)) return OVERFLOW;
    this.#noteExpansion();
    this.#targetAt = start + RECORD_FIXED_OCTETS;
    return FOLLOW;
  }

  /** Behind the last record of the answer section: that no wildcard of the chain stood for a name that exists. */
  #endAnswer(): number {
    this.#noteExpansion();
    return this.#proofs.writeExpansions() ? DONE : OVERFLOW;
  }

  #noteExpansion(): void {
    if (this.#denied.encloserLabel >= 0) this.#proofs.noteExpansion(this.#denied);
  }

  /** RFC 8482 §4.1: over UDP one RRset, over TCP all that have room; those of DNSSEC are for clients that take them (RFC 3225 §3). */
  #answerAny(node: number, owner: number): number {
    const reader = this.#reader;
    const response = this.#response;
    const hidesDnssec = !response.dnssecOk && reader.isSigned(this.#zone);
    let written = false;
    let rrset = reader.firstRrset(node);
    for (let left = reader.rrsetCount(node); left > 0; left -= 1) {
      const type = reader.rrsetType(rrset);
      if (!hidesDnssec || (type !== TYPE.RRSIG && type !== TYPE.NSEC)) {
        if (!response.writeRrset(rrset, node, owner)) {
          if (!written) return OVERFLOW;
          break;
        }
        written = true;
        if (!this.#streamed) {
          if (!response.writeSignatures(rrset, node, owner)) return OVERFLOW;
          break;
        }
      }
      rrset = reader.nextRrset(rrset);
    }
    return written ? this.#endAnswer() : this.#noData(node);
  }

  /** RRSIG as a QTYPE is another ANY: over UDP the signatures of one RRset, over TCP all that have room (RFC 8482 §7). */
  #answerSignatures(node: number, owner: number): number {
    const reader = this.#reader;
    let written = false;
    let rrset = reader.firstRrset(node);
    for (let left = reader.rrsetCount(node); left > 0; left -= 1) {
      if (reader.rrsetType(rrset) === TYPE.RRSIG) {
        if (!this.#response.writeRrset(rrset, node, owner)) {
          if (!written) return OVERFLOW;
          break;
        }
        written = true;
        if (!this.#streamed) break;
      }
      rrset = reader.nextRrset(rrset);
    }
    return written ? this.#endAnswer() : this.#noData(node);
  }

  /** The name exists, or a wildcard stands for it, without records of the type. */
  #noData(node: number): number {
    if (this.#writeNegativeSoa() === OVERFLOW) return OVERFLOW;
    const denied = this.#denied;
    const isExact = denied.encloserLabel < 0;
    const proofs = this.#proofs;
    const fits = isExact ? proofs.writeNoData(denied, node, 0) : proofs.writeWildcardNoData(denied, node);
    return fits ? DONE : OVERFLOW;
  }

  #nameError(): number {
    this.#response.rcode = RCODE.NXDOMAIN;
    this.origin = this.#zone;
    if (this.#writeNegativeSoa() === OVERFLOW) return OVERFLOW;
    return this.#proofs.writeNameError(this.#denied) ? DONE : OVERFLOW;
  }

  /** The SOA in the authority section, its TTL that of the negative answer (RFC 2308 §3 and §5). */
  #writeNegativeSoa(): number {
    const reader = this.#reader;
    const response = this.#response;
    if (!this.#proofs.writeExpansions()) return OVERFLOW;
    const soa = reader.findRrset(reader.apex, TYPE.SOA);
    const start = response.position;
    response.section = SECTION.AUTHORITY;
    if (soa === 0 || !response.writeSigned(soa, reader.apex, 0)) return OVERFLOW;
    const ttl = reader.negativeTtlOf(this.#zone);
    for (let record = start; record < response.position; ) {
      const fields = response.skipName(record);
      response.setUint32At(fields + 4, ttl);
      record = fields + 10 + response.uint16At(fields + 8);
    }
    return DONE;
  }

  /** A DNAME above the name (RFC 6672 §3.2): the answer goes on with the name that it stands for. */
  #redirect(node: number, name: LookupName, dnameLabel: number, owner: number): number {
    this.origin = this.#reader.identityOf(node);
    const redirection = this.#dnames.write(node, name, dnameLabel, owner);
    if (redirection === REDIRECTION.OVERFLOW) return OVERFLOW;
    if (redirection === REDIRECTION.TOO_LONG) {
      this.#response.rcode = RCODE.YXDOMAIN;
      return this.#endAnswer();
    }
    this.#targetAt = redirection;
    return this.#query.type === TYPE.CNAME || this.#query.type === TYPE.ANY ? this.#endAnswer() : FOLLOW;
  }

  /** A zone cut at or above the name: its NS, and the glue without which they cannot be reached. */
  #refer(node: number, name: LookupName, label: number): number {
    const response = this.#response;
    this.origin = this.#reader.identityOf(node);
    if (response.counts[SECTION.ANSWER] === 0) response.authoritative = false;
    if (!this.#proofs.writeExpansions()) return OVERFLOW;
    response.section = SECTION.AUTHORITY;
    const start = response.position;
    const owner = name === this.#query.name ? HEADER_OCTETS + name.startOf(label) : 0;
    if (!response.writeRrset(this.#reader.findRrset(node, TYPE.NS), node, owner)) return OVERFLOW;
    const end = response.position;
    if (!this.#writeSecurity(node, label, owner === 0 && start <= MAX_POINTER ? start : owner)) return OVERFLOW;
    // RFC 9471 §2: glue for servers in the delegated domain is required, for its siblings it is welcome.
    if (!this.#additional.writeGlue(this.#zone, { start, end }, { name, label }, true)) return OVERFLOW;
    this.#additional.writeGlue(this.#zone, { start, end }, { name, label }, false);
    return DONE;
  }

  /** Whether the delegated zone is signed: its DS, or the proof that it has none (RFC 4035 §3.1.4). */
  #writeSecurity(node: number, label: number, owner: number): boolean {
    if (!this.#response.dnssecOk || !this.#reader.isSigned(this.#zone)) return true;
    const ds = this.#reader.findRrset(node, TYPE.DS);
    return ds === 0 ? this.#proofs.writeNoData(this.#denied, node, label) : this.#response.writeSigned(ds, node, owner);
  }
}
