import { expect, it } from "vitest";
import { isPublicSuffix } from "../../../../services/core/dns/public-suffix.ts";
import { nameOf } from "./support.ts";

it.each([
  // One label, listed or not.
  ["com", true],
  ["COM.", true],
  ["corp", true],
  ["localhost", true],
  ["test", true],
  ["_dmarc", true],
  ["constructor", true],
  ["__proto__", true],
  // The list's ICANN part.
  ["co.uk", true],
  ["bank.co.uk", false],
  ["example.org", false],
  // Wildcards and exceptions: *.ck, !www.ck; *.kawasaki.jp, !city.kawasaki.jp.
  ["anything.ck", true],
  ["constructor.ck", true],
  ["*.ck", true],
  ["_service.ck", true],
  ["www.ck", false],
  ["shop.anything.ck", false],
  ["city.kawasaki.jp", false],
  ["other.kawasaki.jp", true],
  // Its private part.
  ["github.io", true],
  ["somebody.github.io", false],
  ["s3.amazonaws.com", true],
  ["amazonaws.com", false],
  // U-labels and A-labels.
  ["公司.cn", true],
  ["xn--55qx5d.cn", true],
  ["例子.公司.cn", false],
  ["рф", true],
  // Special names (RFC 6761, RFC 8375), and what nobody has listed.
  ["home.arpa", true],
  ["lan.home.arpa", false],
  ["foo.test", false],
  ["host.internal", false],
  ["example.example", false],
  // Reverse names.
  ["arpa", true],
  ["in-addr.arpa", true],
  ["ip6.arpa", true],
  ["2.0.192.in-addr.arpa", false],
  ["2.ip6.arpa", true],
  ["F.IP6.ARPA.", true],
  ["a.2.ip6.arpa", true],
  ["0.0.2.ip6.arpa", true],
  ["b.d.0.1.0.0.2.ip6.arpa", true],
  ["8.b.d.0.1.0.0.2.ip6.arpa", false],
  ["0.8.b.d.0.1.0.0.2.ip6.arpa", false],
  ["2.ip6.arpa.test", false],
  ["x.arpa", false],
  // Digits are labels, never an address.
  ["192.0.2.1", false],
  // Labels that no host name has.
  ["a/b.co.uk", false],
  ["a\\.b.uk", false],
])("%s: %s", (name, isSuffix) => {
  expect(isPublicSuffix(nameOf(name))).toBe(isSuffix);
});
