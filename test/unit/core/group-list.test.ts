import { expect, it } from "vitest";
import { joinGroupNames, splitGroupNames } from "../../../services/core/mail/group-list.ts";
import { fc } from "../../support/property.ts";

it.each([
  [["a b", "c"], "a b|c"],
  [["x|y", "z"], "x\\|y|z"],
  [["ends\\", "b"], "ends\\\\|b"],
  [["\\|"], "\\\\\\|"],
  [[], ""],
])("writes %j as %s, and reads it so", (names, cell) => {
  expect(joinGroupNames(names)).toBe(cell);
  expect(splitGroupNames(cell)).toEqual(names);
});

it.each([
  ["a||b|", ["a", "b"]],
  ["C:\\in|b\\", ["C:\\in", "b\\"]],
])("reads %s, which somebody wrote by hand, as %j", (cell, names) => {
  expect(splitGroupNames(cell)).toEqual(names);
});

it("reads whatever it has written", () => {
  const name = fc.array(fc.constantFrom("a", "\\", "|", " "), { minLength: 1 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.array(name), (names) => {
      expect(splitGroupNames(joinGroupNames(names))).toEqual(names);
    }),
  );
});
