import { describe, expect, it } from "vitest";
import { signatureWindow } from "../../../../services/core/dns/dnssec/policy.ts";
import { signingPolicy } from "../../../../services/platform/config/dnssec-policy.ts";

const DAY_SECONDS = 86_400;

describe("config/dnssec.json", () => {
  it("has signatures made anew well before the first of them ends", () => {
    const { validitySeconds, refreshSeconds, jitterSeconds, inceptionOffsetSeconds } = signingPolicy.signatures;
    expect(validitySeconds - jitterSeconds).toBeGreaterThan(refreshSeconds);
    // A stack that was off for a week finds its zones still valid.
    expect(refreshSeconds).toBeGreaterThanOrEqual(7 * DAY_SECONDS);
    expect(inceptionOffsetSeconds).toBeGreaterThanOrEqual(3_600);
  });

  it("replaces by itself only what needs no parent", () => {
    expect(signingPolicy.lifetimeSeconds).toEqual({ csk: null, ksk: null, zsk: 90 * DAY_SECONDS });
    expect(signingPolicy.algorithm).toBe(13);
  });
});

it("a signature holds from a little before until its validity, less its jitter", () => {
  const now = new Date("2026-03-01T00:00:00Z");
  const seconds = now.getTime() / 1000;
  const { validitySeconds, jitterSeconds, inceptionOffsetSeconds } = signingPolicy.signatures;
  const inception = seconds - inceptionOffsetSeconds;
  expect(signatureWindow(signingPolicy, now, 0)).toEqual({ inception, expiration: seconds + validitySeconds });
  const least = seconds + validitySeconds - jitterSeconds / 2;
  expect(signatureWindow(signingPolicy, now, 0.5)).toEqual({ inception, expiration: least });
});
