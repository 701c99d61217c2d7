import { TYPE } from "../../core/dns/rr-types.ts";
import { MAX_POINTER, type Response, SECTION } from "../message/response.ts";
import { FLAG, RECORD_FIXED_OCTETS } from "../zone-database/layout.ts";
import { LookupName } from "../zone-database/lookup-name.ts";
import type { ZoneDatabaseReader } from "../zone-database/reader.ts";

/** Names that an answer remembers having added the addresses of, so that none come twice. */
const MAX_REMEMBERED = 256;

/** Types whose RDATA names hosts. */
const POINTS_TO_HOSTS: ReadonlySet<number> = new Set([TYPE.NS, TYPE.MX, TYPE.SRV, TYPE.NAPTR, TYPE.SVCB, TYPE.HTTPS]);

/** A zone cut: the name from one of its labels on. */
interface Cut {
  readonly name: LookupName;
  readonly label: number;
}

/** Offsets of an RRset in the message. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Fills the additional section: glue, and the addresses of what an answer points to. Allocates nothing per query. */
export class AdditionalData {
  readonly #reader: ZoneDatabaseReader;
  readonly #target = new LookupName();
  /** Nodes whose addresses have been added. */
  readonly #added = new Int32Array(MAX_REMEMBERED);
  #addedCount = 0;
  #response!: Response;

  constructor(reader: ZoneDatabaseReader) {
    this.#reader = reader;
  }

  /** Before each answer. */
  begin(response: Response): void {
    this.#response = response;
    this.#addedCount = 0;
  }

  /**
   * Adds the addresses that a zone has for the targets of the NS records between two offsets.
   * @param required those at or below the cut; else the others
   * @returns whether all fitted
   */
  writeGlue(zone: number, servers: Span, cut: Cut, required: boolean): boolean {
    const response = this.#response;
    const target = this.#target;
    response.section = SECTION.ADDITIONAL;
    for (let record = servers.start; record < servers.end; ) {
      const rdata = response.skipName(record) + 10;
      target.read(response.octets, rdata, servers.end);
      record = rdata + response.uint16At(rdata - 2);
      if (target.isAtOrBelow(cut.name, cut.label) !== required) continue;
      const node = this.#findTarget(zone, target, true);
      if (node !== 0 && this.#isNew(node) && !this.#writeAddresses(node, rdata)) return false;
    }
    return true;
  }

  /**
   * Adds what the client will ask for next, as far as it fits: addresses, the SRV records that a NAPTR leads to, and the
   * bindings of another owner (RFC 1035 §3.3, RFC 2782, RFC 3403 §4.2, RFC 9460 §4.1).
   * @param answer offsets of the answer's RRset
   * @param owner the RRset's owner, and where in the message it stands
   */
  addAddresses(zone: number, type: number, answer: Span, owner: { name: LookupName; at: number }): void {
    if (!POINTS_TO_HOSTS.has(type)) return;
    const response = this.#response;
    const { start, end } = answer;
    response.section = SECTION.ADDITIONAL;
    const target = this.#target;
    for (let record = start; record < end; ) {
      const rdata = record + RECORD_FIXED_OCTETS;
      record = rdata + response.uint16At(rdata - 2);
      const targetAt = this.#targetOf(type, rdata);
      // RFC 9460 §2.5.2: "." as the target of a ServiceMode record is its owner.
      const isBinding = type === TYPE.SVCB || type === TYPE.HTTPS;
      const isOwner = isBinding && response.octets[targetAt] === 0;
      if (!isOwner) target.read(response.octets, targetAt, end);
      const node = this.#findTarget(zone, isOwner ? owner.name : target, false);
      if (node === 0 || !this.#isNew(node)) continue;
      const nameAt = isOwner ? owner.at : targetAt;
      if (type === TYPE.NAPTR) this.#writeAdditional(node, TYPE.SRV, nameAt);
      if (isBinding && !isOwner && !target.equals(owner.name)) this.#writeAdditional(node, type, nameAt);
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

  /** The node of a name in a zone: below cuts as well when glue is wanted, else only where the zone is authoritative. */
  #findTarget(zone: number, name: LookupName, glue: boolean): number {
    const reader = this.#reader;
    const apexLabel = reader.apexLabelIn(zone, name);
    if (apexLabel < 0) return 0;
    let node = reader.apex;
    let hash = reader.zoneSeed(zone);
    for (let label = apexLabel - 1; label >= 0; label -= 1) {
      if (!glue && (reader.flags(node) & (FLAG.CUT | FLAG.DNAME)) !== 0) return 0;
      hash = reader.childHash(hash, name, label);
      node = reader.findNode(zone, hash, name, label, apexLabel);
      if (node === 0) return 0;
    }
    return !glue && (reader.flags(node) & FLAG.CUT) !== 0 ? 0 : node;
  }

  /** Whether nothing of the node has been added yet: no RRset comes twice. */
  #isNew(node: number): boolean {
    for (let index = 0; index < this.#addedCount; index += 1) if (this.#added[index] === node) return false;
    if (this.#addedCount < MAX_REMEMBERED) this.#added[this.#addedCount++] = node;
    return true;
  }

  #writeAddresses(node: number, nameAt: number): boolean {
    const addressesFit = this.#writeAdditional(node, TYPE.A, nameAt);
    return this.#writeAdditional(node, TYPE.AAAA, nameAt) && addressesFit;
  }

  #writeAdditional(node: number, type: number, nameAt: number): boolean {
    const rrset = this.#reader.findRrset(node, type);
    const owner = nameAt > MAX_POINTER ? 0 : nameAt;
    if (rrset === 0) return true;
    if (!this.#response.writeRrset(rrset, node, owner)) return false;
    // RFC 4035 §3.1.1: where there is no room for them, the records may go without their signatures.
    this.#response.writeSignatures(rrset, node, owner);
    return true;
  }
}
