import { expect, it } from "vitest";
import { addQueryParameter, isPersonalTarget, resolveTarget } from "../../../../services/core/mail/tracking-target.ts";

const values = (fields: Readonly<Record<string, string>>) => ({
  system: new Map(),
  customFields: new Map(Object.entries(fields)),
  builtIns: new Map(),
  globals: new Map(),
});

it.each([
  ["https://example.org", "https://example.org"],
  ["https://EXAMPLE.org/a?b=c&d=%20#e", "https://EXAMPLE.org/a?b=c&d=%20#e"],
  ["https://example.org/ñ?q=a b", "https://example.org/%C3%B1?q=a%20b"],
  ["https://ñandú.example/", "https://xn--and-6ma2c.example/"],
  ["https://example.org/a\r\nSet-Cookie: x", "https://example.org/aSet-Cookie:%20x"],
  ['https://example.org/"><script>', "https://example.org/%22%3E%3Cscript%3E"],
])("resolves %s", (target, location) => {
  expect(resolveTarget(target, undefined)).toEqual({ ok: true, value: location });
});

it("puts the recipient's values into personal targets", () => {
  const target = "https://example.org/?n=XYZNOMBREXYZ&c=XYZCOLORXYZ";
  expect(isPersonalTarget(target)).toBe(true);
  expect(resolveTarget(target, values({ NOMBRE: "Ana María", COLOR: "" }))).toEqual({
    ok: true,
    value: "https://example.org/?n=Ana%20Mar%C3%ADa&c=",
  });
});

it.each(["javascript:alert(1)", "//example.org", "", "https://"])("refuses %j", (target) => {
  expect(resolveTarget(target, undefined)).toEqual({ ok: false, error: "not-a-url" });
});

it.each([
  ["https://example.org/", "https://example.org/?pmt=T"],
  ["https://example.org/?a=1", "https://example.org/?a=1&pmt=T"],
  ["https://example.org/?", "https://example.org/?pmt=T"],
  ["https://example.org/?a=1&", "https://example.org/?a=1&pmt=T"],
  ["https://example.org/?q=what?", "https://example.org/?q=what?&pmt=T"],
  ["https://example.org/??", "https://example.org/??&pmt=T"],
  ["https://example.org/a&", "https://example.org/a&?pmt=T"],
  ["https://example.org/#f?x", "https://example.org/?pmt=T#f?x"],
  ["https://example.org/?q=what?#f?&", "https://example.org/?q=what?&pmt=T#f?&"],
  ["https://example.org/?#f", "https://example.org/?pmt=T#f"],
  ["https://example.org/?a=1#f", "https://example.org/?a=1&pmt=T#f"],
])("adds a parameter to %s", (url, expected) => {
  expect(addQueryParameter(url, "pmt", "T")).toBe(expected);
});

it("refuses what values make longer than any server takes", () => {
  const target = `https://www.example.org/?q=${"XYZCOLORXYZ".repeat(100)}`;
  expect(resolveTarget(target, values({ COLOR: "x".repeat(50) })).ok).toBe(true);
  expect(resolveTarget(target, values({ COLOR: "x".repeat(50_000) }))).toEqual({ ok: false, error: "not-a-url" });
});
