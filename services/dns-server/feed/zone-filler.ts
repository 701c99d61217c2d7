import { MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import { NameDraft } from "../zone-database/name-draft.ts";
import { type CompiledRecord, CorruptRecordError } from "../zone-database/stored-rrset.ts";
import { isBelowApex, isSameName } from "./stored-names.ts";

/** What takes the names of a zone, as `ZoneDatabaseWriter` does. */
export interface NameBuilder {
  beginName(zone: number, draft: NameDraft): void;
  endName(zone: number, owner: Uint8Array, nameLength: number, draft: NameDraft): void;
}

/** A record in place, among octets that are valid only while it is handled. */
export interface RecordInPlace {
  readonly octets: Uint8Array;
  readonly ownerStart: number;
  readonly ownerOctets: number;
  readonly type: number;
  readonly ttl: number;
  readonly rdataStart: number;
  readonly rdataOctets: number;
}

/**
 * Fills a zone that nobody sees yet with records that come one by one, those of a name together: the SOA
 * first, the others of a name by ascending type.
 */
export class ZoneFiller {
  readonly #builder: NameBuilder;
  readonly #draft = new NameDraft();
  #zone = 0;
  /** The name at hand: so many octets, of which those in front of the apex are the name relative to it. */
  readonly #owner = new Uint8Array(MAX_NAME_OCTETS);
  #ownerOctets = 0;
  #apex: Uint8Array = new Uint8Array(0);

  constructor(builder: NameBuilder) {
    this.#builder = builder;
  }

  /** Begins with a zone's apex, whose records come first. */
  begin(zone: number, apex: Uint8Array): void {
    this.#zone = zone;
    this.#apex = apex;
    this.#setOwner(apex, 0, apex.length);
    this.#builder.beginName(zone, this.#draft);
  }

  /** Adds a record at the name at hand. */
  addHere({ type, ttl, rdata }: CompiledRecord): void {
    this.#draft.add(type, ttl, rdata, 0, rdata.length);
  }

  /** Adds a record at its owner. @throws CorruptRecordError where that is no name below the apex */
  add({ octets, ownerStart, ownerOctets, type, ttl, rdataStart, rdataOctets }: RecordInPlace): void {
    if (ownerOctets !== this.#ownerOctets || !isSameName(this.#owner, octets, ownerStart, ownerOctets)) {
      if (!isBelowApex(this.#apex, octets, ownerStart, ownerOctets))
        throw new CorruptRecordError("an owner is no name of its zone");
      this.end();
      this.#setOwner(octets, ownerStart, ownerOctets);
      this.#builder.beginName(this.#zone, this.#draft);
    }
    this.#draft.add(type, ttl, octets, rdataStart, rdataStart + rdataOctets);
  }

  /** Ends the name at hand, to be called behind the zone's last record. */
  end(): void {
    this.#builder.endName(this.#zone, this.#owner, this.#ownerOctets - this.#apex.length, this.#draft);
  }

  #setOwner(octets: Uint8Array, start: number, length: number): void {
    for (let index = 0; index < length; index += 1) this.#owner[index] = octets[start + index]!;
    this.#ownerOctets = length;
  }
}
