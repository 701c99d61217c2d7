import { expect, test } from "vitest";
import { recentMap } from "../../../services/core/recent-map.ts";

test("keeps what is used, and at most so many", () => {
  const map = recentMap<number, string>(10);
  map.set(0, "used");
  for (let key = 1; key < 1_000; key += 1) {
    map.set(key, `value ${key}`);
    expect(map.get(0)).toBe("used");
    expect(map.get(key)).toBe(`value ${key}`);
    expect(map.size).toBeLessThanOrEqual(10);
  }
  expect(map.get(1)).toBeUndefined();
  expect(map.get(998)).toBe("value 998");
});

test("has each key once, and forgets what is deleted", () => {
  const map = recentMap<string, number>(6);
  map.set("a", 1);
  map.set("b", 1);
  map.set("c", 1);
  map.set("a", 2);
  expect([map.get("a"), map.size]).toEqual([2, 3]);
  map.delete("b");
  map.delete("a");
  expect([map.get("a"), map.get("b"), map.get("c"), map.size]).toEqual([undefined, undefined, 1, 1]);
});
