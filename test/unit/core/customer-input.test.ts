import { expect, test } from "vitest";
import { readNewSenderDomain, readSenderDomain, readTimeZone } from "../../../services/core/customer-input.ts";

test.each([
  ["UTC", "UTC"],
  ["america/lima", "America/Lima"],
  ["America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"],
  ["Asia/Kolkata", "Asia/Kolkata"],
  ["Europe/Nowhere", undefined],
  ["", undefined],
])("the time zone %j is %j", (given, name) => {
  const zone = readTimeZone(given);
  expect(zone.ok ? zone.value : undefined).toBe(name);
});

test.each([
  ["Mail.Example.org.", "mail.example.org"],
  ["ñandú.example.org", "xn--and-6ma2c.example.org"],
])("the sender domain %j is %j", (given, domain) => {
  expect(readSenderDomain(given)).toEqual({ ok: true, value: domain });
});

test.each([
  [218, true],
  [219, false],
])("a sender domain of %i characters may be added: %j", (length, isAdded) => {
  const labels = [63, 63, 63, length - 63 * 3 - 3 - 5].map((characters) => "d".repeat(characters));
  const domain = [...labels, "test"].join(".");
  expect(domain).toHaveLength(length);
  expect(readNewSenderDomain(domain).ok).toBe(isAdded);
  // What is there can be named, and removed.
  expect(readSenderDomain(domain).ok).toBe(true);
});

test.each(["", ".", "a..b", ".example.org", "example.org..", "ana@example.org"])("%j is no domain name", (given) => {
  const domain = readSenderDomain(given);
  expect(domain.ok ? domain.value : domain.error).toMatchObject({
    field: "domain",
    reason: { code: "no-domain-name" },
  });
});
