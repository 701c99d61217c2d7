import { expect, test } from "vitest";
import { isHttpUrl, parseHttpUrl, parseUrl } from "../../../services/core/url.ts";

test("a host beyond ASCII is one however often the function has run", () => {
  const ofHost = (host: string) => parseUrl(`https://${host}/`)?.hostname;
  for (let call = 0; call < 50_000; call += 1)
    if (ofHost("example.org") !== "example.org") throw new Error("other host");
  expect(ofHost("ñandú.example")).toBe("xn--and-6ma2c.example");
});

test.each([
  ["https://example.org/a b", "https://example.org/a%20b"],
  ["HTTP://ñandú.example", "http://xn--and-6ma2c.example/"],
  ["ftp://example.org/", undefined],
  ["//example.org/", undefined],
  ["", undefined],
])("%j as an http URL is %j", (text, href) => {
  expect(parseHttpUrl(text)?.href).toBe(href);
});

test.each([
  ["https://example.org/a b", true],
  ["http://127.0.0.1/\r\nX: y", false],
  ["http://127.0.0.1/\n", false],
  ["http://exa\tmple.org/", false],
  ["ftp://example.org/", false],
])("%j may be named as a URL: %j", (text, may) => expect(isHttpUrl(text)).toBe(may));

test("a relative URL is resolved", () => {
  expect(parseUrl("../b", new URL("https://example.org/a/c"))?.href).toBe("https://example.org/b");
  expect(parseUrl("https://[", new URL("https://example.org/"))).toBeUndefined();
});
