import type { ZoneSummary } from "../../store/dns/zone-states.ts";

/** A version of a zone that cannot be read. */
interface UnreadableZone {
  /** Where something stands for it in the zone database. */
  readonly apex: Uint8Array;
  readonly version: number;
  /** Whether it is to be left alone until there is another version. */
  isTried: boolean;
}

/** The zones whose latest versions cannot be read, as the database has no such record or name. */
export class UnreadableZones {
  readonly #entries = new Map<number, UnreadableZone>();

  /** Notes that a version cannot be read. @returns whether that is news */
  add({ id, apex, version }: Pick<ZoneSummary, "id" | "apex" | "version">): boolean {
    const isNews = this.#entries.get(id)?.version !== version;
    this.#entries.set(id, { apex, version, isTried: true });
    return isNews;
  }

  /** Whether this version has been tried. */
  isTried({ id, version }: Pick<ZoneSummary, "id" | "version">): boolean {
    const entry = this.#entries.get(id);
    return entry?.version === version && entry.isTried;
  }

  /** Has all be tried again, in the versions that they are of as well. */
  tryAgain(): void {
    for (const entry of this.#entries.values()) entry.isTried = false;
  }

  has(id: number): boolean {
    return this.#entries.has(id);
  }

  get(id: number): Pick<ZoneSummary, "apex"> | undefined {
    return this.#entries.get(id);
  }

  *apexes(): Iterable<Uint8Array> {
    for (const { apex } of this.#entries.values()) yield apex;
  }

  ids(): Iterable<number> {
    return this.#entries.keys();
  }

  delete(id: number): void {
    this.#entries.delete(id);
  }
}
