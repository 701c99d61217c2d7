import { expect, test } from "vitest";
import { valueSteps } from "../../../../services/console/web/src/components/value-steps.ts";

test.each([
  [0, 1, "1"],
  [1, 0.1, "0.1"],
])("two values with %i digits never read alike", (fractionDigits, least, shown) => {
  const steps = valueSteps(fractionDigits);
  expect(steps.slice(0, 4)).toEqual([least, 2 * least, 5 * least, 10 * least]);
  expect(steps.at(-1)).toBe(5e12);
  expect(least.toFixed(fractionDigits)).toBe(shown);
});
