import { describe, expect, it } from "vitest";
import {
  findExceeded,
  limitsOf,
  NO_USAGE,
  QUOTA_NAMES,
  quotaExceeded,
  quotaExceededForNow,
  readQuotaSetting,
  reserveOf,
} from "../../../../services/core/dns/quotas.ts";
import type { SentenceRefusal } from "../../../../services/core/refusal.ts";
import { quotaDefaults, quotaNamesOf } from "../../../../services/platform/config/quotas.ts";

it.each([
  ["just fits", { records: 10 }, { records: 8 }, { records: 2 }, undefined],
  ["one too many", { records: 10 }, { records: 9 }, { records: 2 }, "records"],
  ["over already, and not growing", { records: 10 }, { records: 12 }, { records: 0 }, undefined],
  ["over already, and shrinking", { records: 10 }, { records: 12 }, { records: -1 }, undefined],
  [
    "shrinks in one, grows in the other",
    { octets: 10 },
    { octets: 10, records: 5 },
    { octets: 1, records: -5 },
    "octets",
  ],
  ["no bound", {}, { records: 1e9 }, { records: 1e9 }, undefined],
  ["nothing allowed", { zones: 0 }, {}, { zones: 1 }, "zones"],
])("judges a change: %s", (_, limits, used, added, exceeded) => {
  expect(findExceeded(limits, { ...NO_USAGE, ...used }, { ...NO_USAGE, ...added })).toBe(exceeded);
});

it.each([
  [1_000_000, 1, 64],
  [1_000, 1, 64],
  [100, 1, 12],
  [7, 1, 0],
  [1_000, 100, 1],
  [-5, 1, 0],
  [1_000, 0, 64],
])("of %i free records %i zones get a reserve of %i each", (free, zones, reserve) => {
  expect(reserveOf("records", free, zones)).toBe(reserve);
});

it("all reserves together are an eighth of what is free at most", () => {
  for (const zones of [1, 10, 1_000, 100_000]) {
    for (const free of [0, 10, 999, 100_000]) {
      expect(reserveOf("octets", free, zones) * zones).toBeLessThanOrEqual(free / 8);
    }
  }
});

it.each([
  ["zones=10", { name: "zones", value: 10 }],
  ["octets=0", { name: "octets", value: 0 }],
  ["records=default", { name: "records", value: null }],
  ["records_per_change=0", undefined],
  ["zones=-1", undefined],
  ["zones=1.5", undefined],
  ["zones", undefined],
  ["zones=1=2", undefined],
  ["tokenz=1", undefined],
  ["acls=1", undefined],
])("reads the setting %s", (text, expected) => {
  expect(readQuotaSetting(text, quotaNamesOf("company"))).toEqual(expected);
});

describe("sentences", () => {
  it("carry a code and values", () => {
    const refusal = quotaExceeded({ company: "acme" }, "records", { allowed: 10, used: 9, wanted: 2 });
    expect(refusal).toMatchObject({
      kind: "unacceptable",
      code: "quota-exceeded",
      values: { quota: "records", holder: "company acme", allowed: "10", used: "9", wanted: "2" },
    });
    expect((refusal as SentenceRefusal).message).toBe(
      "quota exceeded: records of company acme: 10 allowed, 9 in use, 2 more wanted",
    );
    const forNow = quotaExceededForNow({ reseller: "one" }, "changes_per_minute", { allowed: 6, retryAfterSeconds: 7 });
    expect(forNow).toMatchObject({ kind: "rate-limited", code: "quota-exceeded-for-now", retryAfterSeconds: 7 });
  });
});

describe("the defaults", () => {
  it("leave what the API's users need", () => {
    for (const kind of ["company", "reseller"] as const) {
      expect(quotaDefaults[kind].zones).toBeGreaterThan(100_000);
      expect(quotaDefaults[kind].records).toBeGreaterThan(1_250_000);
      expect(quotaDefaults[kind].records_per_change).toBeGreaterThanOrEqual(1_250_000);
    }
  });

  it("give one company an eighth of the zone database at most, and one reseller half", () => {
    const zoneDatabase = 2 ** 31;
    expect(quotaDefaults.company.octets).toBeLessThanOrEqual(zoneDatabase / 8);
    expect(quotaDefaults.reseller.octets).toBeLessThanOrEqual(zoneDatabase / 2);
  });

  it("bound every quota that there is", () => {
    expect(Object.keys(quotaDefaults.reseller).sort()).toEqual([...QUOTA_NAMES].sort());
    expect(limitsOf(quotaDefaults.company, { zones: 3 })).toEqual({ ...quotaDefaults.company, zones: 3 });
  });
});
