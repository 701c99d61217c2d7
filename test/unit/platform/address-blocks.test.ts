import { expect, test } from "vitest";
import { sourceOf } from "../../../services/platform/address-blocks.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:0:1::1", "2001:db8:0:1::"],
  ["2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::"],
  ["2001:db8:0:2::1", "2001:db8:0:2::"],
  ["", ""],
])("%s counts for %s", (address, source) => expect(sourceOf(address)).toBe(source));
