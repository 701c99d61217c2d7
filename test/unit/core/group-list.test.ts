import { expect, it } from "vitest";
import { joinGroupNames, splitGroupNames } from "../../../services/core/mail/group-list.ts";
import { fc } from "../../support/property.ts";

const MOST = 1_000;

it.each([
  [["a b", "c"], "a b|c"],
  [["x|y", "z"], "x\\|y|z"],
  [["ends\\", "b"], "ends\\\\|b"],
  [["\\|"], "\\\\\\|"],
  [[], ""],
])("writes %j as %s, and reads it so", (names, cell) => {
  expect(joinGroupNames(names)).toBe(cell);
  expect(splitGroupNames(cell, MOST)).toEqual(names);
});

it.each([
  ["a||b|", ["a", "b"]],
  ["C:\\in|b\\", ["C:\\in", "b\\"]],
])("reads %s, which somebody wrote by hand, as %j", (cell, names) => {
  expect(splitGroupNames(cell, MOST)).toEqual(names);
});

it("reads whatever it has written", () => {
  const name = fc.array(fc.constantFrom("a", "\\", "|", " "), { minLength: 1 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.array(name), (names) => {
      expect(splitGroupNames(joinGroupNames(names), MOST)).toEqual(names);
    }),
  );
});

it.each([
  ["of one name", "a".repeat(30_000_000), 1],
  ["of a name of backslashes", "\\".repeat(30_000_000), 1],
  ["of more names than there may be", "a|".repeat(15_000_000), MOST + 1],
])("reads a cell of millions of characters %s", (_, cell, names) => {
  expect(splitGroupNames(cell, MOST)).toHaveLength(names);
});
