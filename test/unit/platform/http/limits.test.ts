import { describe, expect, it } from "vitest";
import { makeRateLimits, type RateLimits } from "../../../../services/platform/http/limits.ts";

describe("failures", () => {
  const fail = async (limits: RateLimits, address: string, times: number) => {
    for (let failure = 0; failure < times; failure += 1) await limits.countFailure(address);
    return limits.beforeAuthentication(address);
  };

  it("turn a source away from the thirtieth on, and never an exempt loopback", async () => {
    const limits = makeRateLimits(100, false);
    expect(await fail(limits, "192.0.2.1", 29)).toBeUndefined();
    expect(await fail(limits, "192.0.2.1", 1)).toMatchObject({ kind: "rate-limited" });
    expect(await fail(limits, "192.0.2.2", 1)).toBeUndefined();
    expect(await fail(limits, "127.0.0.1", 40)).toBeUndefined();
    expect(await fail(makeRateLimits(100, true), "127.0.0.1", 40)).toMatchObject({ kind: "rate-limited" });
  });

  it("count for all of an IPv6 /64, whose owner has each of its addresses", async () => {
    const limits = makeRateLimits(100, false);
    for (let failure = 0; failure < 30; failure += 1) await limits.countFailure(`2001:db8:0:1::${failure}`);
    expect(await limits.beforeAuthentication("2001:db8:0:1:ffff::1")).toMatchObject({ kind: "rate-limited" });
    expect(await limits.beforeAuthentication("2001:db8:0:2::1")).toBeUndefined();
  });
});
