import { expect, test } from "vitest";
import { addToGroup, groupBy } from "../../../services/core/groups.ts";

test("groups keep the order of their values", () => {
  const groups = groupBy([5, 2, 3, 8], (value) => value % 2);
  expect([...groups]).toEqual([
    [1, [5, 3]],
    [0, [2, 8]],
  ]);
  addToGroup(groups, 1, 7);
  addToGroup(groups, 2, 9);
  expect([groups.get(1), groups.get(2), groups.get(3)]).toEqual([[5, 3, 7], [9], undefined]);
});
