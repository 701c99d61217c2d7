import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { decideRetry, nextAttempt, readRetrySchedule } from "../../../../services/core/mail/retry.ts";

const data: unknown = JSON.parse(readFileSync(new URL("../../../../config/retry.json", import.meta.url), "utf8"));
const schedule = { waitSeconds: [300, 600, 1200], giveUpHours: 72, jitter: 0.1 };
const middle = () => 0.5;
const acceptedAt = new Date("2026-03-01T00:00:00Z");

test("the shipped schedule is lawful, and is the documented default", () => {
  expect(readRetrySchedule(data)).toEqual({
    ok: true,
    value: { waitSeconds: [300, 600, 1200, 2400, 3600, 7200, 14400], giveUpHours: 72, jitter: 0.1 },
  });
});

test.each([
  [1, 300_000],
  [2, 600_000],
  [3, 1_200_000],
  [4, 1_200_000],
  [500, 1_200_000],
])("after %i attempts the wait is %i ms", (attemptsMade, expected) => {
  expect(nextAttempt(attemptsMade, schedule, middle)).toBe(expected);
});

test("waits are jittered by a tenth either way", () => {
  expect(nextAttempt(1, schedule, () => 0)).toBe(270_000);
  expect(nextAttempt(1, schedule, () => 0.999_999_999)).toBe(330_000);
});

test("before the first attempt there is nothing to wait for", () => {
  expect(() => nextAttempt(0, schedule, middle)).toThrow(RangeError);
});

test.each([
  ["2026-03-01T00:01:00Z", 1, { kind: "retry", at: new Date("2026-03-01T00:06:00Z") }],
  ["2026-03-03T23:50:00Z", 30, { kind: "retry", at: new Date("2026-03-04T00:00:00Z") }],
  ["2026-03-04T00:00:00Z", 31, { kind: "give-up" }],
  ["2026-04-01T00:00:00Z", 1, { kind: "give-up" }],
])("at %s after %i attempts", (now, attemptsMade, expected) => {
  expect(decideRetry({ attemptsMade, acceptedAt, now: new Date(now) }, schedule, middle)).toEqual(expected);
});

test.each([
  null,
  {},
  { ...schedule, waitSeconds: [] },
  { ...schedule, waitSeconds: [0] },
  { ...schedule, waitSeconds: ["300"] },
  { ...schedule, giveUpHours: -1 },
  { ...schedule, giveUpHours: Number.POSITIVE_INFINITY },
  { ...schedule, jitter: 1 },
  { ...schedule, jitter: Number.NaN },
])("%j is no schedule", (unlawful) => {
  expect(readRetrySchedule(unlawful).ok).toBe(false);
});
