import { expect, test } from "vitest";
import { generalWords, hadSession } from "../../../../services/core/mail/delivery-attempt.ts";
import { attemptPath } from "../../../support/attempts.ts";

test.each([
  ["250 2.0.0 Ok: queued as 4F2xYz0123", "250 2.0.0 Ok: queued as *"],
  [
    "550 5.1.1 <ana@example.org>: Recipient address rejected: User unknown",
    "550 5.1.1 * Recipient address rejected: User unknown",
  ],
  ["550 5.1.1 ana... User unknown", "550 5.1.1 * User unknown"],
  ["550 sorry, no mailbox here by that name (ANA)", "550 sorry, no mailbox here by that name *"],
  ["451 4.7.1 192.0.2.1 2001:db8::1 greylisted", "451 4.7.1 * greylisted"],
  ["connect ECONNREFUSED 192.0.2.1:25", "connect ECONNREFUSED *"],
  [`550 ${"x".repeat(41)} ok`, "550 * ok"],
  [`550 ${"word ".repeat(100)}`, `550 ${"word ".repeat(39)}w`],
  ["421", "421"],
  ["", ""],
])("in general, %j says %j", (words, general) => {
  expect(generalWords(words, "Ana@example.org")).toBe(general);
});

test.each([
  ["connect", false],
  ["ehlo", false],
  ["starttls", false],
  ["mail", true],
  ["rcpt", true],
  ["message", true],
  ["", true],
])("an attempt that failed at %j had a session: %s", (stage, expected) => {
  expect(hadSession(attemptPath, stage)).toBe(expected);
  expect(hadSession(null, stage)).toBe(false);
});
