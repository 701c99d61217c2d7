import { expect, it } from "vitest";
import { databaseAhead } from "../../../../services/dns-server/update/update-queue.ts";

it("knows how far the database's clock is ahead by the answer that took least, and anew when a clock is set", () => {
  let known = Number.NEGATIVE_INFINITY;
  const hear = (saidMs: number, sentMs: number, answeredMs: number) => {
    known = databaseAhead(known, saidMs, { sentMs, answeredMs });
    return known;
  };
  // It is 1,000 ahead, and says so 10 ms after it was asked.
  expect(hear(1_110, 100, 120)).toBe(990);
  expect(hear(1_201, 200, 202)).toBe(999);
  expect(hear(1_500, 300, 700)).toBe(999);
  // Set back by 600.
  expect(hear(1_210, 800, 820)).toBe(410);
  expect(hear(1_301, 900, 902)).toBe(401);
  // Set ahead by 5,000.
  expect(hear(6_410, 1_000, 1_020)).toBe(5_390);
});
