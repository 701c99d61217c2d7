import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { LOOPBACK_PROXIES, makeClientAddress } from "../../../../services/platform/http/client-address.ts";

const TRUSTED = ["10.0.0.0/8", "2001:db8::1"];

test.each([
  ["the peer, when it is nobody's proxy", "192.0.2.1", "198.51.100.7", "192.0.2.1"],
  ["whom a trusted proxy names", "10.0.0.1", "198.51.100.7", "198.51.100.7"],
  ["the last that is no proxy of ours", "10.0.0.1", "203.0.113.9, 198.51.100.7, 10.1.1.1", "198.51.100.7"],
  ["the proxy, when it names nobody", "10.0.0.1", undefined, "10.0.0.1"],
  ["the proxy, when it names nonsense", "10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"],
  ["the first, when all are proxies", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
  ["whom a proxy by IPv6 names", "2001:db8::1", "2001:db8::7", "2001:db8::7"],
  ["whom a proxy by a mapped address names", "::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"],
])("is %s", (_, remoteAddress, forwarded, client) => {
  const headers = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
  expect(makeClientAddress(TRUSTED)(request)).toBe(client);
});

test.each([
  ["127.0.0.1", "198.51.100.7"],
  ["::ffff:127.0.0.1", "198.51.100.7"],
  ["::1", "198.51.100.7"],
  ["192.0.2.1", "192.0.2.1"],
])("a proxy on this machine may be one of the trusted: %s stands for %s", (remoteAddress, client) => {
  const request = { socket: { remoteAddress }, headers: { "x-forwarded-for": "203.0.113.9, 198.51.100.7" } };
  expect(makeClientAddress(LOOPBACK_PROXIES)(request as unknown as IncomingMessage)).toBe(client);
});

test("nobody is believed unless somebody was named", () => {
  const request = { socket: { remoteAddress: "127.0.0.1" }, headers: { "x-forwarded-for": "192.0.2.1" } };
  expect(makeClientAddress([])(request as unknown as IncomingMessage)).toBe("127.0.0.1");
});
