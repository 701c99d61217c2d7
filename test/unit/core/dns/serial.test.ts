import { describe, expect, it } from "vitest";
import {
  addSerial,
  compareSerial,
  initialSerial,
  nextSerial,
  serialIsAhead,
  serialWarnings,
} from "../../../../services/core/dns/serial.ts";

const today = new Date("2026-11-20T23:59:59Z");

describe("compareSerial", () => {
  it.each([
    [1, 1, 0],
    [2, 1, 1],
    [1, 2, -1],
    [0, 4_294_967_295, 1],
    [4_294_967_295, 0, -1],
    [2_147_483_647, 0, 1],
    [2_147_483_648, 0, undefined],
    [0, 2_147_483_648, undefined],
    [2_147_483_649, 0, -1],
    [100, 4_294_967_200, 1],
  ])("%d against %d: %s", (a, b, expected) => {
    expect(compareSerial(a, b)).toBe(expected);
    expect(serialIsAhead(a, b)).toBe(expected === 1);
  });
});

describe("serialWarnings", () => {
  it.each([
    [1, 2, false],
    [1, 1_073_741_824, false],
    [1, 1_073_741_825, true],
    [1, 2_147_483_648, true],
    [4_294_967_295, 1_073_741_822, false],
    [4_294_967_295, 1_073_741_823, true],
  ])("from %d to %d: %s", (has, next, isTold) => {
    expect(serialWarnings(has, next).map(({ code }) => code)).toEqual(isTold ? ["serial-leaps"] : []);
  });
});

describe("addSerial", () => {
  it("goes around", () => {
    expect(addSerial(4_294_967_295, 1)).toBe(0);
    expect(addSerial(4_294_967_290, 10)).toBe(4);
    expect(addSerial(7, 0)).toBe(7);
  });

  it("throws on an increment that would not be ahead", () => {
    expect(() => addSerial(1, 2 ** 31)).toThrow(RangeError);
    expect(() => addSerial(1, -1)).toThrow(RangeError);
  });
});

describe("nextSerial", () => {
  it.each([
    ["numeric", 1, 1, 2],
    ["numeric", 4_294_967_295, 1, 0],
    ["numeric", 5, 50_000, 50_005],
    ["numeric", 5, 0, 5],
    ["calendar", 2_026_112_000, 1, 2_026_112_001],
    ["calendar", 2_026_112_098, 1, 2_026_112_099],
    ["calendar", 2_026_112_000, 99, 2_026_112_099],
    // The day before, and a plain number: today's first.
    ["calendar", 2_026_111_999, 1, 2_026_112_000],
    ["calendar", 1, 1, 2_026_112_000],
    ["calendar", 2_026_111_905, 100, 2_026_112_099],
    // Ahead of today: by one.
    ["calendar", 2_026_112_100, 1, 2_026_112_101],
    ["calendar", 2_026_112_100, 3, 2_026_112_103],
    ["calendar", 4_000_000_000, 1, 4_000_000_001],
    // 4,294,967,295 is more than 2^31 − 1 behind today in sequence space, so today is not ahead of it.
    ["calendar", 4_294_967_295, 1, 2_026_112_000],
  ] as const)("%s %d after %d changes", (serialType, current, changes, expected) => {
    expect(nextSerial(current, serialType, today, changes)).toEqual({ ok: true, value: expected });
  });

  it.each([
    [2_026_112_099, 1],
    [2_026_112_000, 100],
    [2_026_112_050, 50],
    [2_026_111_900, 101],
  ])("refuses %d after %d changes: the day is full", (current, changes) => {
    expect(nextSerial(current, "calendar", today, changes)).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining("100 changes a day") },
    });
  });
});

describe("initialSerial", () => {
  it.each([
    ["numeric", undefined, 1],
    ["numeric", 0, 0],
    ["numeric", 4_294_967_295, 4_294_967_295],
    ["calendar", undefined, 2_026_112_000],
    ["calendar", 2_026_112_007, 2_026_112_007],
    ["calendar", 2_026_112_099, 2_026_112_099],
    ["calendar", 2_020_022_900, 2_020_022_900],
  ] as const)("%s %s", (serialType, given, expected) => {
    expect(initialSerial(serialType, today, given)).toEqual({ ok: true, value: expected });
  });

  it.each([
    [1, "YYYYMMDDSS"],
    [2_021_022_900, "YYYYMMDDSS"],
    [2_026_130_100, "YYYYMMDDSS"],
    [2_026_112_100, "future"],
  ])("refuses a calendar zone's %d", (given, message) => {
    expect(initialSerial("calendar", today, given)).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining(message) },
    });
  });
});
