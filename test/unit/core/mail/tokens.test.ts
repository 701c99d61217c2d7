import { describe, expect, test } from "vitest";
import {
  makeBounceToken,
  makeMessageId,
  makeToken,
  readBounceToken,
  readToken,
} from "../../../../services/core/mail/tokens.ts";

const SECRET = "a secret of the deployment";
const NOW = new Date("2026-03-01T12:00:00Z");
const EXPIRES_AT = new Date("2026-03-31T12:00:00Z");

describe("bounce token", () => {
  test.each([0n, 1n, 255n, 256n, 2n ** 63n, 2n ** 64n - 1n])("carries delivery %s and comes back", (deliveryId) => {
    const localPart = makeBounceToken(SECRET, { deliveryId, expiresAt: EXPIRES_AT });
    expect(localPart).toMatch(/^b\+[a-z2-7]+\.[a-z2-7]+$/);
    expect(localPart.length).toBeLessThanOrEqual(64);
    expect(readBounceToken(SECRET, localPart, NOW)).toMatchObject({ ok: true, value: { deliveryId } });
    expect(readBounceToken(SECRET, localPart.toUpperCase(), NOW)).toMatchObject({ ok: true, value: { deliveryId } });
  });

  test("a decimal string is the same as a bigint", () => {
    expect(makeBounceToken(SECRET, { deliveryId: "4711", expiresAt: EXPIRES_AT })).toBe(
      makeBounceToken(SECRET, { deliveryId: 4711n, expiresAt: EXPIRES_AT }),
    );
  });

  test("an id that does not fit is a bug of the caller", () => {
    expect(() => makeBounceToken(SECRET, { deliveryId: -1n, expiresAt: EXPIRES_AT })).toThrow(RangeError);
    expect(() => makeBounceToken(SECRET, { deliveryId: 2n ** 64n, expiresAt: EXPIRES_AT })).toThrow(RangeError);
  });

  test("it holds through its last day and then expires", () => {
    const localPart = makeBounceToken(SECRET, { deliveryId: 1n, expiresAt: EXPIRES_AT });
    expect(readBounceToken(SECRET, localPart, EXPIRES_AT).ok).toBe(true);
    expect(readBounceToken(SECRET, localPart, new Date("2026-04-01T00:00:00.001Z"))).toEqual({
      ok: false,
      error: "expired",
    });
  });

  test("no other character in any place is accepted", () => {
    const localPart = makeBounceToken(SECRET, { deliveryId: 4711n, expiresAt: EXPIRES_AT });
    for (let i = 0; i < localPart.length; i++) {
      for (const replacement of ["a", "q", "7", ".", "+", ""]) {
        if (localPart[i] === replacement) continue;
        const altered = localPart.slice(0, i) + replacement + localPart.slice(i + 1);
        expect(readBounceToken(SECRET, altered, NOW).ok, altered).toBe(false);
      }
    }
  });

  test("another deployment's token is forged", () => {
    const localPart = makeBounceToken("another secret", { deliveryId: 1n, expiresAt: EXPIRES_AT });
    expect(readBounceToken(SECRET, localPart, NOW)).toEqual({ ok: false, error: "forged" });
  });

  test.each([
    "",
    "postmaster",
    "b+",
    "b+a.b",
    "b+aaaa.aaaaaaaaaaaaaaaaaaaaaaa",
    `b+${"a".repeat(60)}.${"a".repeat(24)}`,
  ])("%j is not one of ours", (localPart) => {
    expect(readBounceToken(SECRET, localPart, NOW)).toEqual({ ok: false, error: "malformed" });
  });
});

describe("opaque token", () => {
  test("returns its payload", () => {
    const token = makeToken(SECRET, "click", Buffer.from([0, 1, 255]));
    expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(readToken(SECRET, "click", token)).toEqual({ ok: true, value: Buffer.from([0, 1, 255]) });
    expect(readToken(SECRET, "click", makeToken(SECRET, "click", ""))).toEqual({ ok: true, value: Buffer.alloc(0) });
  });

  test("serves one purpose and one secret only", () => {
    const token = makeToken(SECRET, "click", "12:3");
    expect(readToken(SECRET, "unsubscribe", token)).toEqual({ ok: false, error: "forged" });
    expect(readToken("another secret", "click", token)).toEqual({ ok: false, error: "forged" });
  });

  test("is refused when altered, cut or no token at all", () => {
    const token = makeToken(SECRET, "click", "12:3");
    expect(readToken(SECRET, "click", `A${token.slice(1)}`)).toEqual({ ok: false, error: "forged" });
    expect(readToken(SECRET, "click", `${token}AA`)).toEqual({ ok: false, error: "malformed" });
    expect(readToken(SECRET, "click", token.slice(0, 10))).toEqual({ ok: false, error: "malformed" });
    expect(readToken(SECRET, "click", `${token}!`)).toEqual({ ok: false, error: "malformed" });
    expect(readToken(SECRET, "click", "")).toEqual({ ok: false, error: "malformed" });
  });
});

test("a delivery has one Message-ID, in the sender's domain, and no other delivery has it", () => {
  const messageId = makeMessageId(SECRET, 1n, "example.org");
  expect(messageId).toMatch(/^<[a-z2-7]{24}@example\.org>$/);
  expect(makeMessageId(SECRET, "1", "example.org")).toBe(messageId);
  expect(makeMessageId(SECRET, 2n, "example.org")).not.toBe(messageId);
});
