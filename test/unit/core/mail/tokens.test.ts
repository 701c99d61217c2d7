import { describe, expect, test } from "vitest";
import { KeyRing } from "../../../../services/core/key-ring.ts";
import {
  bounceTokenExpiry,
  makeBounceToken,
  makeMessageId,
  makeToken,
  readBounceToken,
  readMessageName,
  readToken,
} from "../../../../services/core/mail/tokens.ts";

const KEY_RING = KeyRing.ofSecret("a secret of the deployment");
const NOW = new Date("2026-03-01T12:00:00Z");
const EXPIRES_AT = new Date("2026-03-31T12:00:00Z");

describe("bounce token", () => {
  test.each([0, 1, 255, 256, 2 ** 48, Number.MAX_SAFE_INTEGER])("carries delivery %s and comes back", (deliveryId) => {
    const localPart = makeBounceToken(KEY_RING, { deliveryId, expiresAt: EXPIRES_AT });
    expect(localPart).toMatch(/^b\+[a-z2-7]+\.[a-z2-7]+$/);
    expect(localPart.length).toBeLessThanOrEqual(64);
    expect(readBounceToken(KEY_RING, localPart, NOW)).toMatchObject({ ok: true, value: { deliveryId } });
    expect(readBounceToken(KEY_RING, localPart.toUpperCase(), NOW)).toMatchObject({ ok: true, value: { deliveryId } });
  });

  test.each([
    ["2026-03-01T23:59:00Z", "2026-03-02T00:01:00Z", true],
    ["2026-03-01T12:00:00Z", "2026-03-06T11:59:00Z", true],
    ["2026-03-01T12:00:00Z", "2026-03-06T12:01:00Z", false],
  ])("of %s it is that of %s: %s", (acceptedAt, now, isSame) => {
    const at = (moment: string) => bounceTokenExpiry(new Date(acceptedAt), new Date(moment)).getTime();
    expect(at(now) === at(acceptedAt)).toBe(isSame);
    const days = (at(now) - Date.parse(now)) / 86_400_000;
    expect(days).toBeGreaterThanOrEqual(30);
    expect(days).toBeLessThanOrEqual(35);
  });

  test("an id that does not fit is a bug of the caller", () => {
    expect(() => makeBounceToken(KEY_RING, { deliveryId: -1, expiresAt: EXPIRES_AT })).toThrow(RangeError);
    expect(() => makeBounceToken(KEY_RING, { deliveryId: 2 ** 53, expiresAt: EXPIRES_AT })).toThrow(RangeError);
  });

  test("it holds through its last day and then expires", () => {
    const localPart = makeBounceToken(KEY_RING, { deliveryId: 1, expiresAt: EXPIRES_AT });
    expect(readBounceToken(KEY_RING, localPart, EXPIRES_AT).ok).toBe(true);
    expect(readBounceToken(KEY_RING, localPart, new Date("2026-04-01T00:00:00.001Z"))).toEqual({
      ok: false,
      error: "expired",
    });
  });

  test("no other character in any place is accepted", () => {
    const localPart = makeBounceToken(KEY_RING, { deliveryId: 4711, expiresAt: EXPIRES_AT });
    for (let i = 0; i < localPart.length; i++) {
      for (const replacement of ["a", "q", "7", ".", "+", ""]) {
        if (localPart[i] === replacement) continue;
        const altered = localPart.slice(0, i) + replacement + localPart.slice(i + 1);
        expect(readBounceToken(KEY_RING, altered, NOW).ok, altered).toBe(false);
      }
    }
  });

  test("another deployment's token is forged", () => {
    const localPart = makeBounceToken(KeyRing.ofSecret("another secret"), { deliveryId: 1, expiresAt: EXPIRES_AT });
    expect(readBounceToken(KEY_RING, localPart, NOW)).toEqual({ ok: false, error: "forged" });
  });

  test.each([
    "",
    "postmaster",
    "b+",
    "b+a.b",
    "b+aaaa.aaaaaaaaaaaaaaaaaaaaaaa",
    `b+${"a".repeat(60)}.${"a".repeat(24)}`,
  ])("%j is not one of ours", (localPart) => {
    expect(readBounceToken(KEY_RING, localPart, NOW)).toEqual({ ok: false, error: "malformed" });
  });
});

describe("opaque token", () => {
  test("returns its payload", () => {
    const token = makeToken(KEY_RING, "tracking-click", Buffer.from([0, 1, 255]));
    expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(readToken(KEY_RING, "tracking-click", token)).toEqual({ ok: true, value: Buffer.from([0, 1, 255]) });
    expect(readToken(KEY_RING, "tracking-click", makeToken(KEY_RING, "tracking-click", ""))).toEqual({
      ok: true,
      value: Buffer.alloc(0),
    });
  });

  test("serves one purpose and one secret only", () => {
    const token = makeToken(KEY_RING, "tracking-click", "12:3");
    expect(readToken(KEY_RING, "tracking-unsubscribe", token)).toEqual({ ok: false, error: "forged" });
    expect(readToken(KeyRing.ofSecret("another secret"), "tracking-click", token)).toEqual({
      ok: false,
      error: "forged",
    });
  });

  test("is refused when altered, cut or no token at all", () => {
    const token = makeToken(KEY_RING, "tracking-click", "12:3");
    expect(readToken(KEY_RING, "tracking-click", `A${token.slice(1)}`)).toEqual({ ok: false, error: "forged" });
    expect(readToken(KEY_RING, "tracking-click", `${token}AA`)).toEqual({ ok: false, error: "malformed" });
    expect(readToken(KEY_RING, "tracking-click", token.slice(0, 10))).toEqual({ ok: false, error: "malformed" });
    expect(readToken(KEY_RING, "tracking-click", `${token}!`)).toEqual({ ok: false, error: "malformed" });
    expect(readToken(KEY_RING, "tracking-click", "")).toEqual({ ok: false, error: "malformed" });
  });
});

test("a delivery has one Message-ID, in the sender's domain, and no other delivery has it", () => {
  const first = { of: "delivery", id: 1 } as const;
  const messageId = makeMessageId(KEY_RING, first, "example.org");
  expect(messageId).toMatch(/^<dae\.[a-z2-7]{24}@example\.org>$/);
  expect(makeMessageId(KEY_RING, first, "example.org")).toBe(messageId);
  expect(makeMessageId(KEY_RING, { of: "delivery", id: 2 }, "example.org")).not.toBe(messageId);
});

test("a Message-ID and a return path say what they are of, whatever became of their case", () => {
  for (const id of [1, 255, 256, 10_000_000_007, Number.MAX_SAFE_INTEGER]) {
    for (const of of ["delivery", "message"] as const) {
      const messageId = makeMessageId(KEY_RING, { of, id }, "example.org");
      expect(readMessageName(messageId)).toEqual({ of, id });
      expect(readMessageName(messageId.toUpperCase().slice(1, -1))).toEqual({ of, id });
    }
    const token = makeBounceToken(KEY_RING, { deliveryId: id, expiresAt: new Date("2026-02-01") });
    expect(readMessageName(token)).toEqual({ of: "delivery", id });
    expect(readMessageName(`<${token}@bounces.example.org>`)).toEqual({ of: "delivery", id });
  }
  for (const text of [
    "",
    "<1234@example.org>",
    "<d.aaaaaaaaaaaaaaaaaaaaaaaa@example.org>",
    "b+aa.x",
    "dae.@example.org",
  ]) {
    expect(readMessageName(text)).toBeUndefined();
  }
});
