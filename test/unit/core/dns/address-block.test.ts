import { describe, expect, test } from "vitest";
import {
  canonicalBlock,
  formatAddressBlock,
  isInBlock,
  knownAddressBlock,
  readAddressBlock,
  readBlockAround,
} from "../../../../services/core/dns/address-block.ts";
import { parseIpAddress } from "../../../../services/core/dns/ip-address.ts";

test.each([
  ["192.0.2.0/24", "192.0.2.0/24"],
  ["192.0.2.1", "192.0.2.1/32"],
  ["0.0.0.0/0", "0.0.0.0/0"],
  ["::/0", "::/0"],
  ["2001:DB8::/32", "2001:db8::/32"],
  ["2001:db8::1", "2001:db8::1/128"],
  ["::FFFF:c000:201", "::ffff:192.0.2.1/128"],
  // Of IPv4-compatible addresses nothing is IPv4.
  ["::192.0.2.1", "::c000:201/128"],
  ["192.0.2.1/24", undefined],
  ["2001:db8::1/32", undefined],
  ["::ffff:192.0.2.0/95", undefined],
  ["192.0.2.0/33", undefined],
  ["192.0.2.0/", undefined],
  ["192.0.2.0/24/24", undefined],
  ["192.0.2", undefined],
  ["1", undefined],
  ["fe80::1%eth0", undefined],
  ["example.org", undefined],
  ["", undefined],
])("%j is the block %j", (text, block) => {
  expect(canonicalBlock(text)).toBe(block);
});

describe("a block that clients are looked for in", () => {
  test.each([
    ["::ffff:192.0.2.1", "192.0.2.1/32"],
    ["::ffff:0:0/96", "0.0.0.0/0"],
    ["::ffff:192.0.2.0/120", "192.0.2.0/24"],
    ["::ffff:c000:201", "192.0.2.1/32"],
    ["0:0:0:0:0:FFFF:192.0.2.1", "192.0.2.1/32"],
  ])("is not written %j", (text, ipv4) => {
    const message = `${text} is about IPv4 addresses: write it as an IPv4 block, ${ipv4}`;
    for (const read of [readAddressBlock, readBlockAround]) {
      expect(read(text)).toMatchObject({ ok: false, error: { code: "mapped-addresses", message } });
    }
  });

  test.each([
    ["192.0.2.1/24", "192.0.2.0/24"],
    ["192.0.2.255/25", "192.0.2.128/25"],
    ["2001:db8::1/33", "2001:db8::/33"],
    ["::192.0.2.1", "::c000:201/128"],
  ])("lies around %j: %j", (text, block) => {
    const read = readBlockAround(text);
    expect(read.ok && formatAddressBlock(read.value)).toBe(block);
  });
});

test.each([
  ["192.0.2.0/24", "192.0.2.255", true],
  ["192.0.2.0/24", "192.0.3.0", false],
  ["192.0.2.128/25", "192.0.2.127", false],
  ["0.0.0.0/0", "203.0.113.9", true],
  ["::/0", "2001:db8::1", true],
  ["::/0", "192.0.2.1", false],
  ["2001:db8::/33", "2001:db8:7fff::1", true],
  ["2001:db8::/33", "2001:db8:8000::1", false],
  ["2001:db8::1", "2001:db8::1", true],
  ["::192.0.2.1", "192.0.2.1", false],
])("%s and %s: %s", (block, address, contained) => {
  expect(isInBlock(parseIpAddress(address)!, knownAddressBlock(block))).toBe(contained);
});
