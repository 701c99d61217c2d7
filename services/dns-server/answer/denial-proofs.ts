import { TYPE } from "../../core/dns/rr-types.ts";
import { type Response, SECTION } from "../message/response.ts";
import { IndexReader } from "../zone-database/index-reader.ts";
import { DENIAL, FLAG } from "../zone-database/layout.ts";
import { LookupName } from "../zone-database/lookup-name.ts";
import type { ZoneDatabaseReader } from "../zone-database/reader.ts";
import { Nsec3Hash } from "./nsec3-hash.ts";

/** Wildcards that one answer can have met: one for each name of its chain. */
const MAX_EXPANSIONS = 17;
/** A proof takes three records at most. */
const MAX_PROOFS = MAX_EXPANSIONS * 3;

/** A name about which something is denied. */
export class DeniedName {
  name!: LookupName;
  /** The zone that denies, the version of it, and where in the name its apex begins. */
  zone = 0;
  apex = 0;
  apexLabel = 0;
  /** Where the closest encloser begins, when the name does not exist (RFC 4592 §3.3.1); −1 when it does. */
  encloserLabel = -1;

  copy(other: DeniedName): void {
    this.name = other.name;
    this.zone = other.zone;
    this.apex = other.apex;
    this.apexLabel = other.apexLabel;
    this.encloserLabel = other.encloserLabel;
  }
}

/**
 * Writes what proves a negative answer, into the authority section (RFC 4035 §3.1.3, RFC 5155 §7.2), each record once.
 * One object per thread; nothing is allocated per query. What returns a boolean says whether it fitted.
 */
export class DenialProofs {
  readonly #reader: ZoneDatabaseReader;
  readonly #index: IndexReader;
  readonly #hash = new Nsec3Hash();
  readonly #wildcard = new LookupName();
  /** Wildcards that stood for names of the chain: what proves them comes behind the whole answer section. */
  readonly #expansions = Array.from({ length: MAX_EXPANSIONS }, () => new DeniedName());
  #expansionCount = 0;
  /** Nodes whose proofs are written, by `identityOf`. */
  readonly #written = new Int32Array(MAX_PROOFS);
  #writtenCount = 0;
  #encloser = 0;
  #response!: Response;

  constructor(reader: ZoneDatabaseReader) {
    this.#reader = reader;
    this.#index = new IndexReader(reader);
  }

  /** Before each answer. */
  begin(response: Response): void {
    this.#response = response;
    this.#expansionCount = 0;
    this.#writtenCount = 0;
  }

  /** A wildcard stands for the name: to be proved by `writeExpansions`. */
  noteExpansion(denied: DeniedName): void {
    if (this.#isWanted(denied.zone)) this.#expansions[this.#expansionCount++]!.copy(denied);
  }

  /** That no closer match than the wildcard exists, for all names of the chain (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6). */
  writeExpansions(): boolean {
    if (this.#expansionCount === 0) return true;
    const { apex } = this.#reader;
    const { zone } = this.#response;
    let fits = true;
    for (let index = 0; index < this.#expansionCount && fits; index += 1) {
      const denied = this.#expansions[index]!;
      this.#enter(denied.zone, denied.apex);
      fits = this.#usesNsec3(denied.zone)
        ? this.#writeNextCloser(denied, denied.encloserLabel)
        : this.#writeNsec(denied, denied.name);
    }
    this.#enter(zone, apex);
    this.#expansionCount = 0;
    return fits;
  }

  /** The name does not exist, and no wildcard stands for it (RFC 4035 §3.1.3.2, RFC 5155 §7.2.2). */
  writeNameError(denied: DeniedName): boolean {
    if (!this.#isWanted(denied.zone)) return true;
    if (this.#usesNsec3(denied.zone)) {
      const encloser = this.#provableEncloser(denied, denied.encloserLabel);
      if (encloser < 0) return true;
      this.#wildcard.readWildcard(denied.name, encloser);
      if (!this.#writeEncloser(denied, encloser)) return false;
      this.#hash.hashKnown(this.#reader.segment, denied.zone, this.#wildcard, 0);
      return this.#writeCovering();
    }
    this.#wildcard.readWildcard(denied.name, denied.encloserLabel);
    return this.#writeNsec(denied, denied.name) && this.#writeNsec(denied, this.#wildcard);
  }

  /**
   * The name that begins at a label exists, and has no records of the type (RFC 4035 §3.1.3.1, RFC 5155 §7.2.3 and
   * §7.2.4); for a cut, that it has no DS (RFC 4035 §3.1.4, RFC 5155 §7.2.7).
   * @param node the name's
   */
  writeNoData(denied: DeniedName, node: number, label: number): boolean {
    if (!this.#isWanted(denied.zone)) return true;
    if (!this.#usesNsec3(denied.zone)) return this.#writeNsecOf(denied, node);
    const match = this.#matching(denied, denied.name, label);
    if (match !== 0) return this.#write(match, TYPE.NSEC3);
    // With opt-out unsigned delegations, and the empty non-terminals that they alone make, have no record.
    const encloser = label < denied.apexLabel ? this.#provableEncloser(denied, label + 1) : -1;
    return encloser < 0 || this.#writeEncloser(denied, encloser);
  }

  /**
   * A wildcard stands for the name, and has no records of the type (RFC 4035 §3.1.3.4, RFC 5155 §7.2.5).
   * @param node the wildcard's
   */
  writeWildcardNoData(denied: DeniedName, node: number): boolean {
    if (!this.#isWanted(denied.zone)) return true;
    this.#wildcard.readWildcard(denied.name, denied.encloserLabel);
    if (!this.#usesNsec3(denied.zone)) {
      const isNsec = (this.#reader.flags(node) & FLAG.NSEC) !== 0;
      const own = isNsec ? this.#write(node, TYPE.NSEC) : this.#writeNsec(denied, this.#wildcard);
      return own && this.#writeNsec(denied, denied.name);
    }
    const encloser = this.#provableEncloser(denied, denied.encloserLabel);
    if (encloser < 0) return true;
    if (!this.#writeEncloser(denied, encloser)) return false;
    const match = this.#matching(denied, this.#wildcard, 0);
    return match === 0 || this.#write(match, TYPE.NSEC3);
  }

  #isWanted(zone: number): boolean {
    return this.#response.dnssecOk && this.#reader.isSigned(zone);
  }

  #usesNsec3(zone: number): boolean {
    return this.#reader.denialOf(zone) > DENIAL.NSEC;
  }

  #enter(zone: number, apex: number): void {
    this.#reader.reopen(zone, apex);
    this.#response.enterZone(zone, 0);
  }

  /** The NSEC of a name that exists, or, of an empty non-terminal, the one that spans it (RFC 4035 §3.1.3.1). */
  #writeNsecOf(denied: DeniedName, node: number): boolean {
    const hasNsec = (this.#reader.flags(node) & FLAG.NSEC) !== 0;
    return hasNsec ? this.#write(node, TYPE.NSEC) : this.#writeNsec(denied, denied.name);
  }

  /** The NSEC that spans a name which does not exist. */
  #writeNsec({ name: { labelCount }, apexLabel }: DeniedName, name: LookupName): boolean {
    const node = this.#index.find(name, name.labelCount - (labelCount - apexLabel));
    return node === 0 || this.#write(node, TYPE.NSEC);
  }

  /**
   * The label of the closest ancestor, from one on, whose hash is in the zone, the node with it in `#encloser`; −1 when
   * the zone's chain has not even its apex.
   */
  #provableEncloser(denied: DeniedName, from: number): number {
    for (let label = from; label <= denied.apexLabel; label += 1) {
      this.#encloser = this.#matching(denied, denied.name, label);
      if (this.#encloser !== 0) return label;
    }
    return -1;
  }

  /** The encloser found last, and that the name one label longer does not exist (RFC 5155 §7.2.1). */
  #writeEncloser(denied: DeniedName, label: number): boolean {
    return this.#write(this.#encloser, TYPE.NSEC3) && this.#writeNextCloser(denied, label);
  }

  /** That no name exists which is one label longer than the encloser at a label. */
  #writeNextCloser({ zone, name }: DeniedName, label: number): boolean {
    this.#hash.hash(this.#reader.segment, zone, name, label - 1);
    return this.#writeCovering();
  }

  /** The node whose owner is the hash of a name; 0 for none. */
  #matching({ zone }: DeniedName, name: LookupName, label: number): number {
    const { name: hashed } = this.#hash;
    this.#hash.hashKnown(this.#reader.segment, zone, name, label);
    const node = this.#index.find(hashed, 1);
    return node !== 0 && this.#index.compareName(node, hashed, 1) === 0 ? node : 0;
  }

  /** The NSEC3 whose span has the last hash. */
  #writeCovering(): boolean {
    const node = this.#index.find(this.#hash.name, 1) || this.#index.last();
    return node === 0 || this.#write(node, TYPE.NSEC3);
  }

  #write(node: number, type: number): boolean {
    const written = this.#reader.identityOf(node);
    for (let index = 0; index < this.#writtenCount; index += 1) if (this.#written[index] === written) return true;
    this.#written[this.#writtenCount++] = written;
    const rrset = this.#reader.findRrset(node, type);
    this.#response.section = SECTION.AUTHORITY;
    return rrset === 0 || this.#response.writeSigned(rrset, node, 0);
  }
}
