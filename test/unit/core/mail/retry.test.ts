import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { chooseSchedule, decideRetry, nextAttempt, readRetryDefaults } from "../../../../services/core/mail/retry.ts";

const data: unknown = JSON.parse(readFileSync(new URL("../../../../config/retry.json", import.meta.url), "utf8"));
const shipped = {
  waitSeconds: [300, 600, 1200, 2400, 3600, 7200, 14400],
  sandboxWaitSeconds: [2, 4, 8],
  giveUpHours: 72,
  jitter: 0.1,
};
const schedule = { waitSeconds: [300, 600, 1200], giveUpHours: 72, jitter: 0.1 };
const middle = () => 0.5;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

test("the shipped schedule is lawful, and is the documented default", () => {
  expect(readRetryDefaults(data)).toEqual({ ok: true, value: shipped });
});

const UNSET = { isSandbox: false, waitSeconds: null, giveUpHours: null };

test.each([
  [UNSET, shipped.waitSeconds, 72],
  [{ ...UNSET, isSandbox: true }, [2, 4, 8], 72],
  [{ ...UNSET, waitSeconds: [1] }, [1], 72],
  [{ isSandbox: true, waitSeconds: [1], giveUpHours: 24 }, [1], 24],
])("a deployment that says %j", (settings, waitSeconds, giveUpHours) => {
  expect(chooseSchedule(shipped, settings)).toEqual({ waitSeconds, giveUpHours, jitter: 0.1 });
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
  [MINUTE_MS, 1, { kind: "retry", afterMs: 5 * MINUTE_MS }],
  [72 * HOUR_MS - 10 * MINUTE_MS, 30, { kind: "retry", afterMs: 10 * MINUTE_MS }],
  [72 * HOUR_MS, 31, { kind: "give-up" }],
  [31 * 24 * HOUR_MS, 1, { kind: "give-up" }],
])("at an age of %i ms after %i attempts", (ageMs, attemptsMade, expected) => {
  expect(decideRetry({ attemptsMade, ageMs }, schedule, middle)).toEqual(expected);
});

test.each([
  null,
  {},
  schedule,
  { ...shipped, waitSeconds: [] },
  { ...shipped, waitSeconds: [0] },
  { ...shipped, waitSeconds: ["300"] },
  { ...shipped, sandboxWaitSeconds: [-2] },
  { ...shipped, giveUpHours: -1 },
  { ...shipped, giveUpHours: Number.POSITIVE_INFINITY },
  { ...shipped, jitter: 1 },
  { ...shipped, jitter: Number.NaN },
])("%j is no schedule", (unlawful) => {
  expect(readRetryDefaults(unlawful).ok).toBe(false);
});
