/**
 * A map of at most so many entries, which forgets those that were not used lately: it has two generations, and when the
 * younger is full it takes the place of the older. What was used since then is kept. Every operation takes constant time,
 * which taking the oldest entry of a large `Map` does not.
 */
export class RecentMap<K, V> {
  readonly #mostOfGeneration: number;
  #young = new Map<K, V>();
  #old = new Map<K, V>();

  /** @param most entries in all, two or more; at least half of them are kept */
  constructor(most: number) {
    this.#mostOfGeneration = Math.floor(most / 2);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  /** Counts as a use. */
  get(key: K): V | undefined {
    const value = this.#young.get(key);
    if (value !== undefined) return value;
    const aged = this.#old.get(key);
    if (aged !== undefined) this.set(key, aged);
    return aged;
  }

  set(key: K, value: V): void {
    this.#old.delete(key);
    if (this.#young.size >= this.#mostOfGeneration && !this.#young.has(key)) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  delete(key: K): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
