import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { domainDoesNotExist, type EmailAddress, validateAddress } from "../../../../services/core/mail/address.ts";
import { processorMs } from "../../../support/processor-time.ts";
import { saying } from "../../../support/said.ts";

interface Vector {
  input: string;
  allow_smtputf8: boolean;
  mode: "syntax" | "deliverability";
  ok: boolean;
  error?: string;
  normalized?: string;
}

const vectors: Vector[] = JSON.parse(
  readFileSync(new URL("../../../golden/mail/validator-vectors.json", import.meta.url), "utf8"),
);
const syntaxVectors = vectors.filter(({ mode }) => mode === "syntax");
const deliverabilityVectors = vectors.filter(({ mode }) => mode === "deliverability");

describe("vectors of python-email-validator 1.1.3", () => {
  test("there are vectors of both modes", () => {
    expect(syntaxVectors.length).toBeGreaterThan(100);
    expect(deliverabilityVectors.length).toBeGreaterThan(5);
  });

  test.each(syntaxVectors)("$input (SMTPUTF8 $allow_smtputf8)", ({ input, allow_smtputf8, ...expected }) => {
    const result = validateAddress(input, { allowSmtputf8: allow_smtputf8 });
    expect(result.ok ? result.value.text : result.error.message).toBe(
      expected.ok ? expected.normalized : expected.error,
    );
    expect(result.ok).toBe(expected.ok);
  });

  test.each(deliverabilityVectors)("$input: syntax is right; the sentence for a missing domain", (vector) => {
    const result = validateAddress(vector.input, { allowSmtputf8: vector.allow_smtputf8 });
    if (!result.ok) throw new Error(result.error.message);
    if (vector.ok) expect(result.value.text).toBe(vector.normalized);
    else expect(domainDoesNotExist(result.value.domain).message).toBe(vector.error);
  });
});

describe("a valid address", () => {
  test.each<[string, Partial<EmailAddress>]>([
    [
      "Ana.G@EXAMPLE.org",
      {
        local: "Ana.G",
        domain: "example.org",
        asciiDomain: "example.org",
        key: "Ana.G@example.org",
        needsSmtputf8: false,
      },
    ],
    [
      "ana@BÜCHER.example",
      {
        domain: "bücher.example",
        asciiDomain: "xn--bcher-kva.example",
        text: "ana@bücher.example",
        asGiven: "ana@bücher.example",
        key: "ana@xn--bcher-kva.example",
        needsSmtputf8: false,
      },
    ],
    [
      "ana@XN--BCHER-KVA.example",
      { text: "ana@bücher.example", asGiven: "ana@xn--bcher-kva.example", key: "ana@xn--bcher-kva.example" },
    ],
    ["an\u0303a@example.org", { local: "aña", text: "aña@example.org", needsSmtputf8: true }],
    ["ana@example\u3002org", { text: "ana@example.org" }],
    ["ana@exam\u00ADple.org", { text: "ana@example.org" }],
  ])("%s", (text, expected) => {
    expect(validateAddress(text, { allowSmtputf8: true })).toMatchObject({ ok: true, value: expected });
  });
});

describe("further refusals", () => {
  test("a character that normalises to a semicolon", () => {
    expect(validateAddress("a\u037Eb@example.org", { allowSmtputf8: true })).toEqual({
      ok: false,
      error: saying("The email address contains invalid characters before the @-sign: ;."),
    });
  });

  test.each([
    ["\u202Ea", "U+202E"],
    ["a\u2066b\u061C", "U+061C, U+2066"],
    ["a\u0085b", "U+0085"],
    ["a\u00A0b", "U+00A0"],
    ["a\u2028b", "U+2028"],
  ])("%j cannot be read, even where it may be international", (local, characters) => {
    expect(validateAddress(`${local}@example.org`, { allowSmtputf8: true })).toEqual({
      ok: false,
      error: saying(`The email address contains invalid characters before the @-sign: ${characters}.`),
    });
    expect(validateAddress(`${local}@example.org`, { allowSmtputf8: false })).toEqual({
      ok: false,
      error: saying("Internationalized characters before the @-sign are not supported."),
    });
  });

  const aLabel = "xn--bcher-kva";
  test.each([
    [
      "a@xn--.example",
      "The domain name xn--.example contains invalid characters (Malformed A-label, no Punycode eligible content found).",
    ],
    [
      "a@xn--a-.example",
      "The domain name xn--a-.example contains invalid characters (A-label must not end with a hyphen).",
    ],
    [
      "a@xn---bbk.example",
      "The domain name xn---bbk.example contains invalid characters (A-label is not the canonical Punycode encoding of its U-label).",
    ],
    [
      "a@ab--c.example",
      "The domain name ab--c.example contains invalid characters (Label has disallowed hyphens in 3rd and 4th position).",
    ],
    [
      "a@\u0301a.example",
      "The domain name \u0301a.example contains invalid characters (Label begins with an illegal combining character).",
    ],
    [
      "a@a\u00B7b.example",
      "The domain name a\u00B7b.example contains invalid characters (Codepoint U+00B7 not allowed at position 2 in 'a\u00B7b').",
    ],
    [
      "a@a\u200Db.example",
      "The domain name a\u200Db.example contains invalid characters (Joiner U+200D not allowed at position 2 in 'a\\u200db').",
    ],
    [
      "a@1\u05D0.example",
      "The domain name 1\u05D0.example contains invalid characters (First codepoint in label '1\u05D0' must be directionality L, R or AL).",
    ],
    [
      "a@\u05D0a.example",
      "The domain name \u05D0a.example contains invalid characters (Invalid direction for codepoint at position 2 in a right-to-left label).",
    ],
    [
      "a@a\u05D0.example",
      "The domain name a\u05D0.example contains invalid characters (Invalid direction for codepoint at position 2 in a left-to-right label).",
    ],
    [
      "a@\u0628\u0663\u0033.example",
      "The domain name \u0628\u06633.example contains invalid characters (Can not mix numeral types in a right-to-left label).",
    ],
    [
      "a@\u0628\u0663\u06F3.example",
      "The domain name \u0628\u0663\u06F3.example contains invalid characters (Codepoint U+0663 not allowed at position 2 in '\u0628\u0663\u06F3').",
    ],
    [
      "a@it's.example",
      "The domain name it's.example contains invalid characters (Codepoint U+0027 at position 3 of \"it's\" not allowed).",
    ],
    ["a@\u00AD", "The domain name  contains invalid characters (Empty domain)."],
    [`a@${`${aLabel}.`.repeat(17)}example`, null],
    [
      `${"a".repeat(20)}@${"bücher.".repeat(16)}${"x".repeat(8)}.example`,
      "The email address is too long (when converted to IDNA ASCII).",
    ],
    [`a@${"bücher.".repeat(18)}${"x".repeat(30)}.example`, "The email address is too long after the @-sign."],
    ["a\uD800b@example.org", "The email address contains invalid characters before the @-sign: \uD800."],
  ])("%j", (text, error) => {
    const result = validateAddress(text, { allowSmtputf8: false });
    expect(result.ok ? null : result.error.message).toBe(error);
  });

  test("an international address may be too long in octets only", () => {
    expect(
      validateAddress(`${"ñ".repeat(64)}@${"x".repeat(60)}.${"y".repeat(60)}.example`, { allowSmtputf8: true }),
    ).toEqual({
      ok: false,
      error: saying("The email address is too long (when encoded in bytes)."),
    });
  });

  test.each(["ñ", "a", "@", "é.", "\u200D"])("megabytes of %j are refused at once", (piece) => {
    const startedMs = processorMs();
    for (const text of [
      piece.repeat(2_000_000),
      `a@${piece.repeat(2_000_000)}`,
      `${piece.repeat(2_000_000)}@example.org`,
    ]) {
      expect(validateAddress(text, { allowSmtputf8: true }).ok).toBe(false);
    }
    expect(processorMs() - startedMs).toBeLessThan(2_000);
  });
});
