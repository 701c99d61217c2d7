import { describe, expect, test } from "vitest";
import { validateAddress } from "../../../../services/core/mail/address.ts";
import { redacted, redactOctets, redactText } from "../../../../services/core/mail/redaction.ts";

describe("what stands for an erased address", () => {
  test.each([
    ["ana@example.org", "xxxxx@x.invalid"],
    [`${"a".repeat(64)}@${"b".repeat(60)}.example.org`, `${"x".repeat(127)}@x.invalid`],
    ["ana@abc.de", "xx@invalid"],
    ["a@abcd.de", "x@invalid"],
    ["a@ab.cde", "xxx@test"],
    ["a@b.co", "x@test"],
    ["a@b.c", "x@x.x"],
  ])("of %s", (address, expected) => {
    expect(redacted(address)).toBe(expected);
    expect(redacted(address)).toHaveLength(address.length);
  });

  test("is an address in a name that nobody can have", () => {
    const mask = redacted("ana@example.org");
    expect(mask).toMatch(/@x\.invalid$/);
    expect(validateAddress(mask, { allowSmtputf8: false }).ok).toBe(true);
  });
});

describe("an address is redacted", () => {
  const gone = "xxxxx@x.invalid";
  test.each([
    ["ana@example.org"],
    ["<ana@example.org>,"],
    ["mailto:ana@example.org?subject=x"],
    ["Write to ana@example.org."],
    ['{"text":"To:\\nana@example.org"}'],
    ["«ana@example.org», “ana@example.org”"],
    ["Ask _ana@example.org_ -- or --ana@example.org--"],
    ["https://example.net/?who=ana@example.org&x=%20ana@example.org"],
    ["Write to ana@example.org.Thanks"],
    ['{"html":"\\u003cana@example.org\\u003e"}'],
    ["=C2=ABana@example.org=C2=BB"],
    ["<a href=3D'https://example.net/?who=3Dana@example.org'>"],
  ])("in %s", (text) => {
    expect(redactText(text, ["ana@example.org"])).toBe(text.replaceAll("ana@example.org", gone));
    expect(redactOctets(Buffer.from(text), ["ana@example.org"]).toString()).toBe(
      text.replaceAll("ana@example.org", gone),
    );
  });

  test.each([
    ["mariana@example.org"],
    ["maría.ana@example.org"],
    ["m-ana@example.org"],
    ["john--ana@example.org"],
    ["https://example.net/?who=deana@example.org&u=12ana@example.org&v=%61ana@example.org"],
    ["ana@example.org.ar"],
    ["ana@example.organic"],
    ["ana@example.org-chart.example"],
  ])("and not %s, which is another one", (text) => {
    expect(redactText(text, ["ana@example.org"])).toBe(text);
    expect(redactOctets(Buffer.from(text), ["ana@example.org"])).toEqual(Buffer.from(text));
  });
});
