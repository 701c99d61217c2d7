/** Ids that share a page: half a cache line of references. */
const PAGE_IDS = 8;
const FIRST_PAGES = 64;

/**
 * Where zones are in the zone database, by their ids in the database. Ids come from a sequence, so that most have neighbours: with a
 * page for so many, a zone takes a third of what it takes in a `Map`. Ids that are far apart have pages of their own, and take
 * twice as much as there.
 */
export class ZoneReferences {
  #size = 0;
  /** By the number that all ids of a page begin with, its place. */
  readonly #pages = new Map<number, number>();
  /** The references of all pages; 0 for none. */
  #references = new Int32Array(FIRST_PAGES * PAGE_IDS);
  /** How many each page has. */
  #counts = new Uint8Array(FIRST_PAGES);
  /** Pages that are empty. */
  readonly #free: number[] = [];
  /** Pages that have been in use. */
  #used = 0;
  /** The page at hand, as ids that follow one another ask for the same. */
  #lastNumber = -1;
  #lastPage = 0;

  get size(): number {
    return this.#size;
  }

  /** @returns 0 for none */
  get(id: number): number {
    const page = this.#pageOf(id);
    return page < 0 ? 0 : this.#references[page * PAGE_IDS + (id % PAGE_IDS)]!;
  }

  /** @param reference not 0 */
  set(id: number, reference: number): void {
    let page = this.#pageOf(id);
    if (page < 0) page = this.#addPage(id);
    const place = page * PAGE_IDS + (id % PAGE_IDS);
    if (this.#references[place] === 0) {
      this.#counts[page]! += 1;
      this.#size += 1;
    }
    this.#references[place] = reference;
  }

  /** @returns whether it was there */
  delete(id: number): boolean {
    const page = this.#pageOf(id);
    const place = page * PAGE_IDS + (id % PAGE_IDS);
    if (page < 0 || this.#references[place] === 0) return false;
    this.#references[place] = 0;
    this.#counts[page]! -= 1;
    this.#size -= 1;
    if (this.#counts[page] === 0) {
      this.#pages.delete(Math.floor(id / PAGE_IDS));
      this.#free.push(page);
      this.#lastNumber = -1;
    }
    return true;
  }

  /** All ids, those of a page in order; they are not to change meanwhile. */
  *ids(): Generator<number> {
    for (const [number, page] of this.#pages) {
      const first = page * PAGE_IDS;
      for (let index = 0; index < PAGE_IDS; index += 1) {
        if (this.#references[first + index] !== 0) yield number * PAGE_IDS + index;
      }
    }
  }

  /** @returns −1 for none */
  #pageOf(id: number): number {
    const number = Math.floor(id / PAGE_IDS);
    if (number === this.#lastNumber) return this.#lastPage;
    const page = this.#pages.get(number);
    if (page === undefined) return -1;
    this.#lastNumber = number;
    this.#lastPage = page;
    return page;
  }

  #addPage(id: number): number {
    const page = this.#free.pop() ?? this.#used++;
    if (page === this.#counts.length) this.#grow();
    this.#pages.set(Math.floor(id / PAGE_IDS), page);
    return page;
  }

  #grow(): void {
    const references = new Int32Array(2 * this.#references.length);
    references.set(this.#references);
    this.#references = references;
    const counts = new Uint8Array(2 * this.#counts.length);
    counts.set(this.#counts);
    this.#counts = counts;
  }
}
