import { expect, it } from "vitest";
import { ZoneReferences } from "../../../../services/dns-server/feed/zone-references.ts";

/** Numbers that are the same in each run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state >>> 0;
  };
}

/** Ids as a sequence gives them, as several sequences give them, and such as have one place in the table. */
it.each([
  ["in order", (n: number) => n % 3_000],
  ["of several sequences", (n: number) => (n % 4) * 2 ** 48 + (n % 1_009)],
  ["far apart", (n: number) => (n % 700) * 2 ** 14],
])("has what a map has, whatever comes and goes: ids %s", (_what, idOf) => {
  const next = numbers(7);
  const references = new ZoneReferences();
  const map = new Map<number, number>();
  for (let step = 0; step < 30_000; step += 1) {
    const id = idOf(next() >>> 8);
    if (next() % 3 > 0) {
      references.set(id, step + 1);
      map.set(id, step + 1);
    } else expect(references.delete(id)).toBe(map.delete(id));
    const other = idOf(next() >>> 8);
    if (references.get(other) !== (map.get(other) ?? 0)) throw new Error(`step ${step}: ${other}`);
  }
  expect(references.size).toBe(map.size);
  expect([...references.ids()].sort((a, b) => a - b)).toEqual([...map.keys()].sort((a, b) => a - b));
  for (const [id, reference] of map) expect(references.get(id)).toBe(reference);
});
