import { expect, test } from "vitest";
import { canonicalBlock } from "../../../../services/core/dns/address-block.ts";

test.each([
  ["192.0.2.0/24", "192.0.2.0/24"],
  ["192.0.2.1", "192.0.2.1/32"],
  ["0.0.0.0/0", "0.0.0.0/0"],
  ["2001:DB8::/32", "2001:db8::/32"],
  ["2001:db8::1", "2001:db8::1/128"],
  ["192.0.2.1/24", undefined],
  ["2001:db8::1/32", undefined],
  ["192.0.2.0/33", undefined],
  ["192.0.2", undefined],
  ["1", undefined],
  ["fe80::1%eth0", undefined],
  ["example.org", undefined],
  ["", undefined],
])("%j is the block %j", (text, block) => {
  expect(canonicalBlock(text)).toBe(block);
});
