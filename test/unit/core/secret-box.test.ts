import { expect, test } from "vitest";
import { KeyRing } from "../../../services/core/key-ring.ts";
import { open, seal } from "../../../services/core/secret-box.ts";

const KEY_RING = KeyRing.ofSecret("a secret of the deployment");

test("what was sealed opens again", () => {
  const sealed = seal(KEY_RING, "dkim-key", "-----BEGIN PRIVATE KEY-----");
  expect(sealed).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(open(KEY_RING, "dkim-key", sealed)).toEqual({ ok: true, value: Buffer.from("-----BEGIN PRIVATE KEY-----") });
  expect(open(KEY_RING, "dkim-key", seal(KEY_RING, "dkim-key", ""))).toEqual({ ok: true, value: Buffer.alloc(0) });
});

test("the same plaintext is never sealed the same way twice", () => {
  expect(seal(KEY_RING, "dkim-key", "key")).not.toBe(seal(KEY_RING, "dkim-key", "key"));
});

test("another secret or purpose does not open it", () => {
  const sealed = seal(KEY_RING, "dkim-key", "key");
  expect(open(KeyRing.ofSecret("another secret"), "dkim-key", sealed)).toEqual({ ok: false, error: "forged" });
  expect(open(KEY_RING, "tsig-key", sealed)).toEqual({ ok: false, error: "forged" });
});

test("no octet can be changed", () => {
  const octets = Buffer.from(seal(KEY_RING, "dkim-key", "key"), "base64url");
  for (let i = 0; i < octets.length; i++) {
    const altered = Buffer.from(octets);
    altered[i] = (altered[i] as number) ^ 1;
    expect(open(KEY_RING, "dkim-key", altered.toString("base64url"))).toEqual({
      ok: false,
      error: i === 0 ? "malformed" : "forged",
    });
  }
});

test.each(["", "AQ", "not base64!", "A".repeat(30)])("%j is not sealed text", (text) => {
  expect(open(KEY_RING, "dkim-key", text)).toEqual({ ok: false, error: "malformed" });
});
