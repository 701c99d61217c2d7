import { expect, test } from "vitest";
import { deriveKey, open, seal } from "../../../services/core/secret-box.ts";

const SECRET = "a secret of the deployment";

test("what was sealed opens again", () => {
  const sealed = seal(SECRET, "dkim", "-----BEGIN PRIVATE KEY-----");
  expect(sealed).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(open(SECRET, "dkim", sealed)).toEqual({ ok: true, value: Buffer.from("-----BEGIN PRIVATE KEY-----") });
  expect(open(SECRET, "dkim", seal(SECRET, "dkim", ""))).toEqual({ ok: true, value: Buffer.alloc(0) });
});

test("the same plaintext is never sealed the same way twice", () => {
  expect(seal(SECRET, "dkim", "key")).not.toBe(seal(SECRET, "dkim", "key"));
});

test("another secret or purpose does not open it", () => {
  const sealed = seal(SECRET, "dkim", "key");
  expect(open("another secret", "dkim", sealed)).toEqual({ ok: false, error: "forged" });
  expect(open(SECRET, "tsig", sealed)).toEqual({ ok: false, error: "forged" });
});

test("no octet can be changed", () => {
  const octets = Buffer.from(seal(SECRET, "dkim", "key"), "base64url");
  for (let i = 0; i < octets.length; i++) {
    const altered = Buffer.from(octets);
    altered[i] = (altered[i] as number) ^ 1;
    expect(open(SECRET, "dkim", altered.toString("base64url"))).toEqual({
      ok: false,
      error: i === 0 ? "malformed" : "forged",
    });
  }
});

test.each(["", "AQ", "not base64!", "A".repeat(30)])("%j is not sealed text", (text) => {
  expect(open(SECRET, "dkim", text)).toEqual({ ok: false, error: "malformed" });
});

test("a derived key is stable, 256 bits long, and unlike that of another purpose", () => {
  const key = deriveKey(SECRET, "dkim").export();
  expect(key).toHaveLength(32);
  expect(deriveKey(SECRET, "dkim").export()).toEqual(key);
  expect(deriveKey(SECRET, "tsig").export()).not.toEqual(key);
  expect(deriveKey("another secret", "dkim").export()).not.toEqual(key);
});
