import { expect, test } from "vitest";
import { judgeBounces } from "../../../services/delivery/bounce-spike.ts";

const rule = { leastTried: 100, hardBouncePercent: 10 };
const none = { tried: 0, bounced: 0 };

test.each([
  [{ tried: 99, bounced: 99 }, none, false],
  [{ tried: 100, bounced: 9 }, none, false],
  [{ tried: 100, bounced: 10 }, none, true],
  [{ tried: 5_000, bounced: 499 }, none, false],
  [{ tried: 5_000, bounced: 500 }, none, true],
  // A person let it go on with the first thousand known to be bad.
  [{ tried: 1_099, bounced: 500 }, { tried: 1_000, bounced: 500 }, false],
  [{ tried: 1_100, bounced: 509 }, { tried: 1_000, bounced: 500 }, false],
  [{ tried: 1_100, bounced: 510 }, { tried: 1_000, bounced: 500 }, true],
])("%o after %o: a spike is %s", (counts, judged, isSpike) => {
  expect(judgeBounces(counts, judged, rule) !== undefined).toBe(isSpike);
});

test("says how many of how many", () => {
  expect(judgeBounces({ tried: 200, bounced: 50 }, none, rule)?.message).toBe(
    "rebotes: 50 de 200 destinatarios (limite 10 %)",
  );
});
