import { domainToASCII } from "node:url";
import { describe, expect, test } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { decodePunycode, encodePunycode } from "../../services/core/mail/idna-punycode.ts";
import { fc } from "../support/property.ts";

const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: "grapheme" }),
  fc.string({
    unit: fc.constantFrom("a", "@", ".", "-", "xn--", " ", "\r\n", "<", ">", '"', "\0", "ñ", "א", "\u200D", "\uD800"),
  }),
);
const likelyAddress = fc.tuple(anyText, anyText).map(([local, domain]) => `${local}@${domain}.example`);

describe("validation of any text", () => {
  test("an accepted address can end neither a command nor a header", () => {
    fc.assert(
      fc.property(fc.oneof(anyText, likelyAddress), fc.boolean(), (text, allowSmtputf8) => {
        const result = validateAddress(text, { allowSmtputf8 });
        if (!result.ok) return result.error.message.endsWith(".");
        const { key, text: normalised, asciiDomain, needsSmtputf8 } = result.value;
        expect(key + normalised).not.toMatch(/[\s<>"(),:;\\[\]\x00-\x1F\x7F]/);
        expect(asciiDomain).toMatch(/^[a-z0-9.-]+$/);
        expect(needsSmtputf8).toBe(/[^\x00-\x7F]/.test(key));
        return true;
      }),
      { numRuns: 5_000 },
    );
  });

  test("its normalised form is the same address", () => {
    fc.assert(
      fc.property(likelyAddress, (text) => {
        const first = validateAddress(text, { allowSmtputf8: true });
        if (!first.ok) return true;
        const again = validateAddress(first.value.text, { allowSmtputf8: true });
        return again.ok && again.value.key === first.value.key && again.value.text === first.value.text;
      }),
      { numRuns: 5_000 },
    );
  });

  test("most fields of the likely kind are accepted somewhere", () => {
    const accepted = fc
      .sample(fc.tuple(fc.emailAddress(), fc.boolean()), 500)
      .filter(([text]) => validateAddress(text, { allowSmtputf8: false }).ok);
    expect(accepted.length).toBeGreaterThan(400);
  });
});

describe("Punycode", () => {
  const label = fc.string({ unit: fc.constantFrom("a", "z", "0", "ñ", "中", "文", "б", "ا", "😀", "ﬀ"), minLength: 1 });

  test("decoding undoes encoding", () => {
    fc.assert(fc.property(label, (text) => decodePunycode(encodePunycode(text)) === text));
  });

  test("agrees with the runtime's URL parser", () => {
    const lowerCaseLabel = fc.string({
      unit: fc.constantFrom("a", "b", "ñ", "中", "文", "ü", "б", "д"),
      minLength: 1,
      maxLength: 20,
    });
    fc.assert(
      fc.property(lowerCaseLabel, (text) => {
        const expected = /[^a-z]/.test(text) ? `xn--${encodePunycode(text)}` : text;
        return domainToASCII(`${text}.example`) === `${expected}.example`;
      }),
    );
  });

  test("any text decodes or is refused", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("-", "a", "b", "z", "0", "9", "A", "ñ") }), (text) => {
        const decoded = decodePunycode(text);
        return decoded === null || typeof decoded === "string";
      }),
      { numRuns: 2_000 },
    );
  });
});
