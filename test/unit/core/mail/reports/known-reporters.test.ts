import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isDomainWithin } from "../../../../../services/core/mail/reports/domain-within.ts";
import { claimedReporter, type KnownReporter } from "../../../../../services/core/mail/reports/known-reporters.ts";

const KNOWN: readonly KnownReporter[] = JSON.parse(readFileSync("config/known-reporters.json", "utf8"));

describe("config/known-reporters.json", () => {
  it.each(KNOWN)(
    "$name: its reports come from the domain that signs them or one below it, and it says what was found",
    (one) => {
      expect(isDomainWithin(one.address.split("@")[1]!, one.domain)).toBe(true);
      expect(one.address).toBe(one.address.toLowerCase());
      expect(one.found).toMatch(/\.$/);
    },
  );
});

describe("the reporter that a message claims to come from", () => {
  const from = "From: noreply-dmarc-support@google.com";
  const signature = "DKIM-Signature: v=1; d=google.com; s=s; bh=x; b=y";
  const claimed = (...fields: readonly string[]) =>
    claimedReporter(Buffer.from(`${fields.join("\r\n")}\r\n\r\nbody`))?.name;
  it.each([
    ["as it is written", [from, signature], "Google"],
    ["with a name", ['From: "DMARC" <NoReply-DMARC-Support@Google.com>', signature], "Google"],
    ["without a signature", [from], undefined],
    ["with two senders", [from, from, signature], undefined],
    ["with two addresses", [`${from}, a@example.org`, signature], undefined],
    ["with a part of the body unsigned", [from, `${signature}; l=3`], undefined],
    ["with more signatures than reports have", [from, ...Array.from({ length: 6 }, () => signature)], undefined],
    ["of an address beside it", ["From: someone@google.com", signature], undefined],
    ["of an address that ends like it", ["From: x.noreply-dmarc-support@google.com", signature], undefined],
  ] as const)("%s", (_how, fields, name) => {
    expect(claimed(...fields)).toBe(name);
  });
});
