import { expect, test } from "vitest";
import { hashPassword, makePassword, passwordMatches } from "../../../services/core/password.ts";

test("a password matches its own hash alone, however its letters are composed", async () => {
  const stored = await hashPassword("contrase\u00f1a");
  expect(await passwordMatches("contrasen\u0303a", stored)).toBe(true);
  expect(await passwordMatches("contrasena", stored)).toBe(false);
  expect(await hashPassword("contrase\u00f1a")).not.toBe(stored);
});

test("passwords that are made differ", () => {
  expect(makePassword()).toMatch(/^[\w-]{20}$/);
  expect(makePassword()).not.toBe(makePassword());
});

const SALT_AND_HASH = `c2FsdA$${Buffer.alloc(32).toString("base64url")}`;

test.each([
  "",
  "scrypt",
  "scrypt$16$8$1$c2FsdA$c2hvcnQ",
  `bcrypt$16$8$1$${SALT_AND_HASH}`,
  `scrypt$abc$8$1$${SALT_AND_HASH}`,
  `scrypt$3$8$1$${SALT_AND_HASH}`,
  `scrypt$16$0$1$${SALT_AND_HASH}`,
  `scrypt$16$8$-1$${SALT_AND_HASH}`,
  `scrypt$16$8$${2 ** 31}$${SALT_AND_HASH}`,
  `scrypt$${2 ** 20}$8$1$${SALT_AND_HASH}`,
  `scrypt$${2 ** 31}$8$1$${SALT_AND_HASH}`,
])("the unreadable hash %j matches nothing", async (stored) => {
  expect(await passwordMatches("a password", stored)).toBe(false);
});
