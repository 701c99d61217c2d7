import { expect, test } from "vitest";
import { makeApiKey } from "../../../services/core/api-key.ts";

test("a key can be the argument of any program", () => {
  const keys = Array.from({ length: 2_000 }, makeApiKey);
  expect(keys.filter((key) => !/^[A-Za-z0-9_][A-Za-z0-9_-]{42}$/.test(key))).toEqual([]);
  expect(new Set(keys).size).toBe(keys.length);
});
