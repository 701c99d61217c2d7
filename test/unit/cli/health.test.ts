import { expect, it } from "vitest";
import { readServedZones, readUnreadable } from "../../../services/cli/health.ts";

const gauge = (name: string, ...values: { value: number; labels?: Record<string, string> }[]) => ({
  name: `palomar_dns_${name}`,
  type: "gauge",
  values: values.map((value) => ({ labels: {}, ...value })),
});
const families = (loaded: number, served: number, expected: number, ...leftOut: string[]) => [
  gauge("zones_loaded", { value: loaded }),
  gauge("zones", { value: served }),
  gauge("zones_expected", { value: expected }),
  gauge("zone_left_out_octets", ...leftOut.map((zone) => ({ value: 1, labels: { zone, answer: "servfail" } }))),
];

it("says what is served of what ought to be, and that a server without zones is not ready", () => {
  expect(readServedZones([])).toEqual({ problems: [] });
  expect(readServedZones(families(1, 3, 3))).toEqual({
    problems: [],
    served: { served: 3, expected: 3, left_out: [] },
  });
  const one = readServedZones(families(1, 2, 3, "big.example."));
  expect(one).toEqual({ problems: [], served: { served: 2, expected: 3, left_out: ["big.example."] } });
  expect(readServedZones(families(0, 0, 0)).problems).toEqual(["dns-server has not loaded its zones"]);
  expect(readServedZones(families(1, 0, 3)).problems).toEqual([
    "dns-server answers for none of the zones that it should: 3",
  ]);
  expect(readServedZones(families(1, 0, 0)).problems).toEqual([]);
});

it("says which zones, and what of the transfer access, cannot be read", () => {
  expect(readUnreadable(families(1, 3, 3))).toEqual([]);
  const zone = gauge("zone_unreadable", { value: 1, labels: { zone: "bad.example." } });
  const access = gauge("transfer_access_unreadable", { value: 1, labels: { what: "ACL x of reseller y: why" } });
  expect(readUnreadable([zone, access])).toEqual([
    "zone bad.example. cannot be read: zone-corrupt in the log says why",
    "transfers: ACL x of reseller y: why",
  ]);
});
