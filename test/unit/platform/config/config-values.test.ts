import { expect, test } from "vitest";
import { httpUrl, splitHostPort } from "../../../../services/platform/config/config-values.ts";

test.each([
  ["192.0.2.1:53", { host: "192.0.2.1", port: 53 }],
  ["ns.example.net:5300", { host: "ns.example.net", port: 5300 }],
  ["[2001:db8::1]:53", { host: "2001:db8::1", port: 53 }],
])("%s is parted", (text, parts) => expect(splitHostPort(text)).toEqual(parts));

test("a URL with controls is none", () => {
  expect(httpUrl("https://track.example.org/")).toEqual({ ok: true, value: "https://track.example.org" });
  expect(httpUrl("https://track.example.org/\nx").ok).toBe(false);
});
