import { LookupName } from "./lookup-name.ts";
import type { ZoneDatabaseReader } from "./reader.ts";

/**
 * A name of a zone, relative to the apex, with the hashes by which the node table has it and its ancestors. One object,
 * filled anew for each.
 */
export class LocatedName {
  readonly lookup = new LookupName();
  /** The label at which the zone's apex begins. */
  apexLabel = 0;
  readonly #reader: ZoneDatabaseReader;
  /** By label; that of the apex is the zone's seed. */
  readonly #hashes = new Int32Array(129);
  #zone = 0;

  constructor(reader: ZoneDatabaseReader) {
    this.#reader = reader;
  }

  /**
   * @param octets have the name from `start` on
   * @param nameLength octets of it in front of the apex
   */
  read(zone: number, octets: Uint8Array, start: number, nameLength: number): void {
    this.#zone = zone;
    this.lookup.readRelative(octets, start, nameLength);
    this.apexLabel = this.lookup.labelCount;
    this.#hashes[this.apexLabel] = this.#reader.zoneSeed(zone);
    for (let label = this.apexLabel - 1; label >= 0; label -= 1) {
      this.#hashes[label] = this.#reader.childHash(this.#hashes[label + 1]!, this.lookup, label);
    }
  }

  /** The hash of the name at a label. */
  hashAt(label: number): number {
    return this.#hashes[label]!;
  }

  /** The node of the name at a label below the apex, as the reader sees it; 0 for none. */
  findNode(label: number): number {
    return this.#reader.findNode(this.#zone, this.#hashes[label]!, this.lookup, label, this.apexLabel);
  }

  /** What the table has for the name at a label, which may be a `CHANGE`; 0 for nothing. */
  findEntry(label: number): number {
    return this.#reader.findEntry(this.#zone, this.#hashes[label]!, this.lookup, label, this.apexLabel);
  }
}
