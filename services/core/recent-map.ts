import QuickLru from "quick-lru";

/** A map of at most so many entries, which forgets those that were not used lately. */
export type RecentMap<K, V> = QuickLru<K, V>;

/** @param most entries in all, two or more; at least half of them are kept */
export function recentMap<K, V>(most: number): RecentMap<K, V> {
  // It holds up to twice its maxSize.
  return new QuickLru<K, V>({ maxSize: Math.floor(most / 2) });
}
