import { expect, test } from "vitest";
import { LargeDifferences } from "../../../../services/dns-server/transfer/large-differences.ts";

test("a reseller has two places, all together have six, and what has ended leaves its own", () => {
  const differences = new LargeDifferences();
  const [first, second, third] = ["a", "a", "a"].map((reseller) => differences.for(reseller));
  expect([first!.take(), second!.take(), third!.take()]).toEqual([true, true, false]);
  expect(["b", "b", "c", "c", "d"].map((reseller) => differences.for(reseller).take())).toEqual([
    ...[true, true, true, true, false],
  ]);
  third!.end();
  expect(differences.for("d").take()).toBe(false);
  first!.end();
  expect(differences.for("d").take()).toBe(true);
});
