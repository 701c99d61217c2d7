import { describe, expect, test } from "vitest";
import { formatTimestamp, parseTimestamp } from "../../../../services/core/mail/timestamps.ts";

describe("parseTimestamp", () => {
  test.each([
    ["2026-11-20_12:00:00", "UTC", "2026-11-20T12:00:00.000Z"],
    ["2026-11-20T12:00:00", "UTC", "2026-11-20T12:00:00.000Z"],
    ["2024-02-29T23:59:59", "UTC", "2024-02-29T23:59:59.000Z"],
    ["2026-07-01_00:00:00", "Europe/Madrid", "2026-06-30T22:00:00.000Z"],
    ["2026-12-01_00:00:00", "Europe/Madrid", "2026-11-30T23:00:00.000Z"],
    ["2026-01-01_00:00:00", "Asia/Kathmandu", "2025-12-31T18:15:00.000Z"],
    // Clocks go from 02:00 to 03:00 in Madrid on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25.
    ["2026-03-29_01:59:59", "Europe/Madrid", "2026-03-29T00:59:59.000Z"],
    ["2026-03-29_02:00:00", "Europe/Madrid", "2026-03-29T01:00:00.000Z"],
    ["2026-03-29_02:30:00", "Europe/Madrid", "2026-03-29T01:00:00.000Z"],
    ["2026-03-29_02:59:59", "Europe/Madrid", "2026-03-29T01:00:00.000Z"],
    ["2026-03-29_03:00:00", "Europe/Madrid", "2026-03-29T01:00:00.000Z"],
    ["2026-10-04_02:10:00", "Australia/Lord_Howe", "2026-10-03T15:30:00.000Z"],
    // A whole day was skipped.
    ["2011-12-30_00:00:00", "Pacific/Apia", "2011-12-30T10:00:00.000Z"],
    ["2011-12-30_23:59:59", "Pacific/Apia", "2011-12-30T10:00:00.000Z"],
    ["2026-10-25_02:30:00", "Europe/Madrid", "2026-10-25T00:30:00.000Z"],
    ["2026-10-25_03:00:00", "Europe/Madrid", "2026-10-25T02:00:00.000Z"],
    // What clients write for "ever since" and "for ever"; clocks then showed the sun's time.
    ["0001-01-01_00:00:00", "UTC", "0001-01-01T00:00:00.000Z"],
    ["0001-01-01T00:00:00", "America/Argentina/Buenos_Aires", "0001-01-01T03:53:48.000Z"],
    ["0001-01-01T00:00:00", "Asia/Kathmandu", "0000-12-31T18:18:44.000Z"],
    ["0999-06-01T12:00:00", "America/Argentina/Buenos_Aires", "0999-06-01T15:53:48.000Z"],
    ["9999-12-31_23:59:59", "UTC", "9999-12-31T23:59:59.000Z"],
    ["9999-12-31T23:59:59", "America/Argentina/Buenos_Aires", "+010000-01-01T02:59:59.000Z"],
    ["9999-12-31T23:59:59", "Asia/Kathmandu", "9999-12-31T18:14:59.000Z"],
  ])("%s in %s is %s", (text, timeZone, expected) => {
    expect(parseTimestamp(text, timeZone)?.toISOString()).toBe(expected);
  });

  test.each([
    ["2026-10-25_02:30:00", "Europe/Madrid", "2026-10-25T01:30:00.000Z"],
    ["2026-10-25_03:00:00", "Europe/Madrid", "2026-10-25T02:00:00.000Z"],
    ["2026-10-25_01:59:59", "Europe/Madrid", "2026-10-24T23:59:59.000Z"],
    ["2026-03-29_02:00:00", "Europe/Madrid", "2026-03-29T00:59:59.000Z"],
    ["2026-03-29_02:59:59", "Europe/Madrid", "2026-03-29T00:59:59.000Z"],
    ["2026-03-29_03:00:00", "Europe/Madrid", "2026-03-29T01:00:00.000Z"],
    ["2011-12-30_12:00:00", "Pacific/Apia", "2011-12-30T09:59:59.000Z"],
    ["2026-11-20_12:00:00", "UTC", "2026-11-20T12:00:00.000Z"],
    ["9999-12-31T23:59:59", "America/Argentina/Buenos_Aires", "+010000-01-01T02:59:59.000Z"],
    ["9999-12-31T23:59:59", "Asia/Kathmandu", "9999-12-31T18:14:59.000Z"],
  ])("the last %s in %s is %s", (text, timeZone, expected) => {
    expect(parseTimestamp(text, timeZone, "last")?.toISOString()).toBe(expected);
  });

  test.each([
    "",
    "2026-11-20",
    "2026-11-20 12:00:00",
    "2026-11-20T12:00:00Z",
    "2026-11-20T12:00:00.5",
    "2026-11-20T24:00:00",
    "2026-11-20T12:60:00",
    "2026-13-01T00:00:00",
    "2026-02-29T00:00:00",
    "0000-12-31T00:00:00",
    "2026-11-00T00:00:00",
    "2026-11-31_00:00:00",
    "x2026-11-20T12:00:00",
  ])("%j is none", (text) => {
    expect(parseTimestamp(text, "UTC")).toBeUndefined();
  });
});

describe("formatTimestamp", () => {
  test.each([
    ["2026-11-20T12:00:00.999Z", "UTC", "2026-11-20T12:00:00"],
    ["2026-11-20T23:00:00Z", "Europe/Madrid", "2026-11-21T00:00:00"],
    ["2026-01-01T02:30:00Z", "America/Argentina/Buenos_Aires", "2025-12-31T23:30:00"],
    ["0099-01-01T12:00:00Z", "America/Argentina/Buenos_Aires", "0099-01-01T08:06:12"],
  ])("%s in %s is %s", (moment, timeZone, expected) => {
    expect(formatTimestamp(new Date(moment), timeZone)).toBe(expected);
  });
});
