import { expect, test } from "vitest";
import { counted } from "../../../services/core/counted.ts";

test.each([
  [0, "0 addresses"],
  [1, "1 address"],
  [2, "2 addresses"],
])("%i", (count, text) => {
  expect(counted(count, "address", "addresses")).toBe(text);
});
