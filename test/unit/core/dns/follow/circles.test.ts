import { expect, test } from "vitest";
import { findCircles } from "../../../../../services/core/dns/follow/circles.ts";

// a and b lead to each other; c leads to them, d only away from them, e to itself.
const steps = new Map([
  ["a", ["b", "b", "away"]],
  ["b", ["d", "a"]],
  ["c", ["a", "e"]],
  ["d", ["away"]],
  ["e", ["e"]],
]);

test.each([
  ["a", "b", true],
  ["b", "a", true],
  ["b", "d", false],
  ["c", "a", false],
  ["c", "e", false],
  ["e", "e", true],
  ["a", "away", false],
])("the step from %s to %s is on a circle: %s", (from, to, is) => {
  expect(findCircles(steps)(from, to)).toBe(is);
});
