import { describe, expect, it } from "vitest";
import { makeApiKey } from "../../../services/core/api-key.ts";
import { estimateKeyBits, judgeChosenKey } from "../../../services/core/chosen-key.ts";
import { saying } from "../../support/said.ts";

describe("keys that are taken", () => {
  it.each([
    ["acme-api-key-0001", 91],
    ["0123456789abcdef", 82],
    ["mycompanykey2026x", 87],
    ["company-key-of-acme", 111],
    ["Tr0ub4dor&3-Correct", 118],
    ["31415926535897932384", 66],
    ["correcthorsebatterystaple", 108],
  ])("%s: %i bits", (key, bits) => {
    expect(Math.floor(estimateKeyBits(key))).toBe(bits);
    expect(judgeChosenKey("apikey", key)).toEqual({ ok: true, value: key });
  });

  it("are all that we make", () => {
    for (let made = 0; made < 200; made += 1) expect(estimateKeyBits(makeApiKey())).toBeGreaterThan(200);
  });
});

describe("keys that are refused", () => {
  it.each([
    ["aaaaaaaaaaaaaaaa", 4],
    ["keykeykeykeykeykey", 18],
    ["0123456789012345", 36],
    ["1111222233334444", 13],
    ["aabbccddeeffgghh", 37],
    ["passwordpassword", 37],
    ["ababababababababababababab", 14],
    ["company1company1company1", 46],
    ["7".repeat(100_000), 3],
    ["ab".repeat(50_000), 14],
  ])("%.30s: %i bits", (key, bits) => {
    expect(judgeChosenKey("apikey", key)).toEqual({
      ok: false,
      error: {
        kind: "invalid-field",
        field: "apikey",
        reason: saying(`is too easy to guess: an estimated ${bits} of the 64 bits that it needs`),
      },
    });
  });

  it.each(["", "k", "acme-key", "0123456789abcde"])("%j is too short", (key) => {
    expect(judgeChosenKey("key", key)).toMatchObject({
      error: { kind: "invalid-field", field: "key", reason: saying("must have at least 16 characters") },
    });
  });
});
