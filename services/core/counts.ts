/** How many there are of each key; what comes to none is forgotten. */
export class Counts<Key> {
  readonly #counts = new Map<Key, number>();

  /** Keys of which there is any. */
  get size(): number {
    return this.#counts.size;
  }

  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** @param more below 0: fewer @returns how many there are then */
  add(key: Key, more: number): number {
    const count = this.of(key) + more;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
    return count;
  }

  [Symbol.iterator](): IterableIterator<[Key, number]> {
    return this.#counts.entries();
  }
}
