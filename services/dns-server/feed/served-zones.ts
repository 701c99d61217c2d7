import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { ZoneReferences } from "./zone-references.ts";

/** A zone that is answered. */
export interface ServedZone {
  readonly apex: Uint8Array;
  readonly version: number;
}

/**
 * The zones that are answered, in whatever version, by their ids in the database. There may be ten millions: all that is kept of
 * each here is its reference, and the rest is in the zone database.
 */
export class ServedZones {
  readonly #writer: ZoneDatabaseWriter;
  readonly #references = new ZoneReferences();

  constructor(writer: ZoneDatabaseWriter) {
    this.#writer = writer;
  }

  get size(): number {
    return this.#references.size;
  }

  has(id: number): boolean {
    return this.#references.get(id) !== 0;
  }

  get(id: number): ServedZone | undefined {
    const reference = this.#references.get(id);
    if (reference === 0) return undefined;
    return { apex: this.#writer.apexOf(reference), version: this.#writer.versionOf(reference) };
  }

  versionOf(id: number): number | undefined {
    const reference = this.#references.get(id);
    return reference === 0 ? undefined : this.#writer.versionOf(reference);
  }

  ids(): Iterable<number> {
    return this.#references.ids();
  }

  /**
   * Notes that a zone has been published, as a version.
   * @param reference its own, where the caller knows it
   */
  set(id: number, { apex, version }: ServedZone, reference: number = this.#writer.publishedZone(apex)): void {
    this.#references.set(id, reference);
    this.#writer.setVersion(reference, version);
  }

  /** Notes that all zones are of a version. */
  setAll(version: number): void {
    for (const id of this.#references.ids()) this.#writer.setVersion(this.#references.get(id), version);
  }

  /** @returns whether it was there */
  delete(id: number): boolean {
    return this.#references.delete(id);
  }
}
