import { describe, expect, test } from "vitest";
import { charsetDecoder } from "../../../../services/core/mail/charset.ts";

/** @see https://encoding.spec.whatwg.org/index-windows-1252.txt */
const FROM_0X80 = [
  ...[
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
  ],
  ...[
    0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e,
    0x178,
  ],
];

describe("a charset by its label", () => {
  test.each(["windows-1252", "CP1252", "iso-8859-1", "latin1", "us-ascii", " x-cp1252 "])(
    "%s has a character for each of the 256 octets",
    (label) => {
      for (const fatal of [true, false]) {
        const decoder = charsetDecoder(label, { fatal })!;
        for (let octet = 0; octet < 256; octet++) {
          const expected = octet >= 0x80 && octet < 0xa0 ? FROM_0X80[octet - 0x80]! : octet;
          expect(decoder.decode(Uint8Array.of(octet)).codePointAt(0), `0x${octet.toString(16)}`).toBe(expected);
        }
      }
    },
  );

  test.each([
    ["windows-1250", 0x9a, "š"],
    ["iso-8859-15", 0xa4, "€"],
    ["koi8-r", 0xf0, "П"],
  ])("%s is another", (label, octet, character) => {
    expect(charsetDecoder(label)!.decode(Uint8Array.of(octet))).toBe(character);
  });

  test("a view of a larger buffer is read alone", () => {
    expect(charsetDecoder("cp1252")!.decode(new Uint8Array([0x41, 0x80, 0x42]).subarray(1, 2))).toBe("€");
  });

  test("octets that are none of its own are refused where that is asked for", () => {
    expect(() => charsetDecoder("utf-8", { fatal: true })!.decode(Uint8Array.of(0xff))).toThrow(TypeError);
  });

  test("a label that names none", () => {
    expect(charsetDecoder("x-klingon")).toBeUndefined();
  });
});
