import { expect, test } from "vitest";
import { ok } from "../../../../services/core/result.ts";
import { RecordSearchTurns } from "../../../../services/operations/dns/record-search-turns.ts";

test("one of a client, two of a reseller and three in all are at work; the rest wait for them", async () => {
  const turns = new RecordSearchTurns();
  const running: string[] = [];
  const ends: (() => void)[] = [];
  const search = (key: string, group: string) =>
    turns.run({ key, group }, async () => {
      running.push(key);
      await new Promise<void>((end) => ends.push(end));
      return ok(key);
    });
  const all = [search("a1", "a"), search("a1", "a"), search("a2", "a"), search("a3", "a"), search("b1", "b")];
  all.push(search("c1", "c"));
  expect(running).toEqual(["a1", "a2", "b1"]);
  for (let ended = 0; ended < all.length; ended += 1) {
    ends[ended]!();
    await expect.poll(() => running.length).toBe(Math.min(all.length, ended + 4));
  }
  expect((await Promise.all(all)).every((result) => result.ok)).toBe(true);
  expect(running.toSorted()).toEqual(["a1", "a1", "a2", "a3", "b1", "c1"]);
});
