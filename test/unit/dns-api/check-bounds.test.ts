import { expect, test } from "vitest";
import { CheckBounds } from "../../../services/dns-api/follow/check-bounds.ts";

const POLICY = {
  aTenantASecond: 3,
  aResellerASecond: 5,
  anAddressASecond: 2,
  newOfATenantMs: 50,
  newOfAnAddressMs: 1_000,
};

test("a second has so many checks of a company, and of an address whoever has it checked", () => {
  const bounds = new CheckBounds(POLICY);
  const taken = (tenant: string, address: string, nowMs: number) =>
    bounds.take({ tenant, reseller: `r${tenant}`, address }, nowMs);
  expect([taken("1", "192.0.2.1", 0), taken("2", "192.0.2.1", 10), taken("3", "192.0.2.1", 20)]).toEqual([
    true,
    true,
    false,
  ]);
  expect([taken("1", "192.0.2.2", 30), taken("1", "192.0.2.3", 40), taken("1", "192.0.2.4", 50)]).toEqual([
    true,
    true,
    false,
  ]);
  expect(taken("1", "192.0.2.1", 1_000)).toBe(true);
});

test("a second has so many checks of a reseller, however many companies it is made of", () => {
  const bounds = new CheckBounds(POLICY);
  const taken = (tenant: number, reseller: string) =>
    bounds.take({ tenant: `${tenant}`, reseller, address: `192.0.2.${tenant}` }, 0);
  expect([1, 2, 3, 4, 5, 6].map((tenant) => taken(tenant, "many"))).toEqual([true, true, true, true, true, false]);
  expect(taken(7, "another")).toBe(true);
});

test("places that are new are looked at one after the other, the ports of one address more slowly", () => {
  const bounds = new CheckBounds(POLICY);
  expect(["192.0.2.1", "192.0.2.2", "192.0.2.3"].map((address) => bounds.firstCheckAt("1", address, 10_000))).toEqual([
    10_000, 10_050, 10_100,
  ]);
  expect([1, 2, 3].map(() => bounds.firstCheckAt("1", "192.0.2.9", 20_000))).toEqual([20_000, 21_000, 22_000]);
  expect(bounds.firstCheckAt("2", "192.0.2.9", 20_000)).toBe(23_000);
  expect(bounds.firstCheckAt("2", "192.0.2.10", 20_000)).toBe(20_050);
});

test("a scan of 65,535 ports takes most of a day", () => {
  const bounds = new CheckBounds({ ...POLICY, newOfATenantMs: 50 });
  let last = 0;
  for (let port = 1; port <= 65_535; port += 1) last = bounds.firstCheckAt("1", "192.0.2.1", 0);
  expect(last).toBeGreaterThan(18 * 3_600_000);
});
