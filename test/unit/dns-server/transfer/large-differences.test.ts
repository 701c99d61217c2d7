import { afterEach, expect, test, vi } from "vitest";
import { LargeDifferences } from "../../../../services/dns-server/transfer/large-differences.ts";

afterEach(() => {
  vi.useRealTimers();
});

const placesOf = (differences: LargeDifferences, resellers: string) =>
  [...resellers].map((reseller) => differences.for(reseller));

test("a reseller has two places, all together have six; who waits has one in turn by reseller, as others end", async () => {
  const differences = new LargeDifferences();
  const taken: string[] = [];
  const places = placesOf(differences, "aaabbbccde");
  const asked = places.map(async (place, index) => taken.push(`${await place.take()} ${index}`));
  const ends = async (index: number) => {
    places[index]!.end();
    await new Promise((resolve) => setImmediate(resolve));
    return taken.splice(0);
  };
  expect(await ends(2)).toEqual(["true 0", "true 1", "true 3", "true 4", "true 6", "true 7"]);
  expect(await ends(6)).toEqual(["true 8"]);
  expect(await ends(6)).toEqual([]);
  expect(await ends(0)).toEqual(["true 2"]);
  expect(await ends(1)).toEqual(["true 9"]);
  expect(await ends(3)).toEqual(["true 5"]);
  await Promise.all(asked);
});

test("who waits for two seconds has no place, and leaves none behind", async () => {
  vi.useFakeTimers();
  const differences = new LargeDifferences();
  const places = placesOf(differences, "aaaa");
  const taken = places.map((place) => place.take());
  await vi.advanceTimersByTimeAsync(1_999);
  places[0]!.end();
  await vi.advanceTimersByTimeAsync(1);
  expect(await Promise.all(taken)).toEqual([true, true, true, false]);
  places[3]!.end();
  const later = differences.for("a").take();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await later).toBe(false);
  places[1]!.end();
  places[2]!.end();
  expect(await Promise.all(placesOf(differences, "aa").map((place) => place.take()))).toEqual([true, true]);
});
