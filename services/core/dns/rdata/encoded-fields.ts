import { sentence } from "../../sentences.ts";
import { isMetaType, portableMnemonic, TYPE, typeCode, typeMnemonic } from "../rr-types.ts";
import { numberOf, writeOr } from "./basic-fields.ts";
import { type Field, MISSING, type TextForm, wordField } from "./field.ts";

/** Hexadecimal digits up to the end; blanks may part them. */
export function hexField(name: string): Field {
  return {
    name,
    layout: "rest",
    parse(tokens, out) {
      const text = joinTokens(tokens.takeRest());
      if (text === "") return MISSING;
      return writeOr(out, parseHex(text), sentence("part-not-hexadecimal", { text: abridge(text) }));
    },
    format: (octets) => (octets.length === 0 ? undefined : formatHex(octets)),
  };
}

/** Base64 up to the end; blanks may part it (RFC 4648 §4). */
export function base64Field(name: string, options: { readonly mayBeEmpty?: boolean } = {}): Field {
  return {
    name,
    layout: "rest",
    parse(tokens, out) {
      const text = joinTokens(tokens.takeRest());
      if (text === "" && !options.mayBeEmpty) return MISSING;
      return writeOr(out, parseBase64(text), sentence("part-not-base64", { text: abridge(text) }));
    },
    format(octets) {
      if (octets.length === 0 && !options.mayBeEmpty) return undefined;
      return formatBase64(octets);
    },
  };
}

/** The salt of NSEC3: hexadecimal with a length octet, `-` for none (RFC 5155 §3.3). */
export function saltField(name: string): Field {
  return wordField(name, "counted", {
    parse(text, out) {
      const salt = text === "-" ? new Uint8Array(0) : parseHex(text);
      if (salt === undefined || salt.length > 255) return sentence("no-salt", { text: abridge(text) });
      out.u8(salt.length);
      out.bytes(salt);
      return undefined;
    },
    format: (octets) => (octets.length === 1 ? "-" : formatHex(octets.subarray(1))),
  });
}

/** A hashed owner name: base32 with the extended hex alphabet, unpadded, with a length octet (RFC 5155 §3.3). */
export function base32Field(name: string): Field {
  return wordField(name, "counted", {
    parse(text, out) {
      const octets = parseBase32Hex(text);
      if (octets === undefined || octets.length === 0 || octets.length > 255)
        return sentence("no-base32", { text: abridge(text) });
      out.u8(octets.length);
      out.bytes(octets);
      return undefined;
    },
    format: (octets) => (octets.length === 1 ? undefined : formatBase32Hex(octets.subarray(1))),
  });
}

/** An extended unique identifier: octets in hexadecimal, parted by hyphens (RFC 7043). */
export function euiField(name: string, octetCount: 6 | 8): Field {
  const pattern = new RegExp(`^(?:[0-9a-f]{2}-){${octetCount - 1}}[0-9a-f]{2}$`, "i");
  return wordField(name, octetCount, {
    parse(text, out) {
      const octets = pattern.test(text) ? parseHex(text.replaceAll("-", "")) : undefined;
      return writeOr(out, octets, sentence("hyphened-octets", { text, count: octetCount }));
    },
    format: (octets) => Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join("-"),
  });
}

/** Four groups of 16 bits in hexadecimal, parted by colons (RFC 6742 §2.1). */
export function locatorField(name: string): Field {
  return wordField(name, 8, {
    parse(text, out) {
      const groups = text.split(":");
      if (groups.length !== 4 || !groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) {
        return sentence("no-locator", { text });
      }
      for (const group of groups) out.u16(Number.parseInt(group, 16));
      return undefined;
    },
    format: (octets) =>
      [0, 2, 4, 6]
        .map((start) =>
          numberOf(octets.subarray(start, start + 2))
            .toString(16)
            .padStart(4, "0"),
        )
        .join(":"),
  });
}

/** A type by mnemonic or TYPEnnn. */
export function typeField(name: string): Field {
  return wordField(name, 2, {
    parse(text, out) {
      const code = typeCode(text);
      if (code === undefined) return sentence("no-record-type", { text });
      out.u16(code);
      return undefined;
    },
    format: (octets, form) => typeText(numberOf(octets), form),
  });
}

/** A signature's time: `YYYYMMDDHHmmSS` in UTC, or seconds since 1970 (RFC 4034 §3.2). */
export function timeField(name: string): Field {
  return wordField(name, 4, {
    parse(text, out) {
      const seconds = /^\d{14}$/.test(text)
        ? secondsOfTimestamp(text)
        : /^\d{1,10}$/.test(text)
          ? Number(text)
          : undefined;
      if (seconds === undefined || seconds > 0xffff_ffff) return sentence("no-time", { text });
      out.u32(seconds);
      return undefined;
    },
    format: (octets) => new Date(numberOf(octets) * 1000).toISOString().replace(/\D/g, "").slice(0, 14),
  });
}

/** The types that exist at a name, as windows of bits (RFC 4034 §4.1.2). */
export function typeBitmapField(name: string): Field {
  return {
    name,
    layout: "rest",
    parse(tokens, out) {
      const codes = new Set<number>();
      for (const { text } of tokens.takeRest()) {
        const code = typeCode(text);
        if (code === undefined || !isBitmapType(code)) return sentence("no-data-type", { type: text });
        codes.add(code);
      }
      out.bytes(encodeTypeBitmap(codes));
      return undefined;
    },
    format(octets, form) {
      const codes = decodeTypeBitmap(octets);
      return codes?.every(isBitmapType) ? codes.map((code) => typeText(code, form)).join(" ") : undefined;
    },
  };
}

function typeText(code: number, form: TextForm): string {
  return form === "master-file" ? portableMnemonic(code) : typeMnemonic(code);
}

/** RFC 4034 §4.1.2 has no bits for meta types, except NXNAME, which exists for bitmaps alone. */
function isBitmapType(code: number): boolean {
  return !isMetaType(code) || code === TYPE.NXNAME;
}

/** The window blocks of a set of types (RFC 4034 §4.1.2). */
export function encodeTypeBitmap(codes: Iterable<number>): Uint8Array {
  const windows = new Map<number, Uint8Array>();
  for (const code of codes) {
    const window = code >> 8;
    const bits = windows.get(window) ?? new Uint8Array(32);
    windows.set(window, bits);
    bits[(code & 0xff) >> 3]! |= 0x80 >> (code & 7);
  }
  const blocks = [...windows].sort(([a], [b]) => a - b);
  return Buffer.concat(
    blocks.map(([window, bits]) => {
      const length = bits.findLastIndex((octet) => octet !== 0) + 1;
      return Buffer.concat([Uint8Array.of(window, length), bits.subarray(0, length)]);
    }),
  );
}

/** The types in window blocks, ascending; undefined when the blocks are not as RFC 4034 §4.1.2 has them. */
function decodeTypeBitmap(octets: Uint8Array): number[] | undefined {
  const codes: number[] = [];
  let previousWindow = -1;
  for (let offset = 0; offset < octets.length; ) {
    const window = octets[offset]!;
    const length = octets[offset + 1];
    if (window <= previousWindow || length === undefined || length < 1 || length > 32) return undefined;
    const bits = octets.subarray(offset + 2, offset + 2 + length);
    if (bits.length < length || bits[length - 1] === 0) return undefined;
    bits.forEach((octet, index) => {
      for (let bit = 0; bit < 8; bit += 1) if (octet & (0x80 >> bit)) codes.push(window * 256 + index * 8 + bit);
    });
    previousWindow = window;
    offset += 2 + length;
  }
  return codes;
}

/** Octets of an even number of hexadecimal digits, or undefined. */
export function parseHex(text: string): Uint8Array | undefined {
  return /^(?:[0-9a-f]{2})*$/i.test(text) ? Buffer.from(text, "hex") : undefined;
}

/** Upper-case hexadecimal, as fingerprints and digests are printed. */
export function formatHex(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("hex").toUpperCase();
}

/** Base64 with padding. */
export function formatBase64(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("base64");
}

/** Octets of padded base64 (RFC 4648 §4), or undefined. */
export function parseBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  return Buffer.from(text, "base64");
}

const BASE32_HEX_DIGITS = "0123456789abcdefghijklmnopqrstuv";

/** Octets of unpadded base32 with the extended hex alphabet, in any case (RFC 4648 §7), or undefined. */
export function parseBase32Hex(text: string): Uint8Array | undefined {
  const octets: number[] = [];
  let bits = 0;
  let bitCount = 0;
  for (const digit of text.toLowerCase()) {
    const value = BASE32_HEX_DIGITS.indexOf(digit);
    if (value < 0) return undefined;
    bits = ((bits << 5) | value) & 0xfff;
    bitCount += 5;
    if (bitCount >= 8) {
      bitCount -= 8;
      octets.push((bits >> bitCount) & 0xff);
    }
  }
  // What is left over must be padding: less than a digit, and zero (RFC 4648 §3.5).
  return bitCount < 5 && (bits & ((1 << bitCount) - 1)) === 0 ? Uint8Array.from(octets) : undefined;
}

/** Base32 with the extended hex alphabet, lower case, unpadded (RFC 4648 §7): how hashed owner names are written. */
export function formatBase32Hex(octets: Uint8Array): string {
  let text = "";
  let bits = 0;
  let bitCount = 0;
  for (const octet of octets) {
    bits = ((bits << 8) | octet) & 0xfff;
    bitCount += 8;
    while (bitCount >= 5) {
      bitCount -= 5;
      text += BASE32_HEX_DIGITS[(bits >> bitCount) & 31];
    }
  }
  return bitCount === 0 ? text : text + BASE32_HEX_DIGITS[(bits << (5 - bitCount)) & 31];
}

function secondsOfTimestamp(text: string): number | undefined {
  const [, date, hours, minutes, seconds] = /^(\d{8})(\d\d)(\d\d)(\d\d)$/.exec(text)!;
  const iso = `${date!.slice(0, 4)}-${date!.slice(4, 6)}-${date!.slice(6)}T${hours}:${minutes}:${seconds}Z`;
  const time = Date.parse(iso);
  // Date.parse lets 31 February pass for 3 March.
  return Number.isNaN(time) || !new Date(time).toISOString().startsWith(iso.slice(0, 10)) ? undefined : time / 1000;
}

function joinTokens(tokens: readonly { readonly text: string }[]): string {
  return tokens.map((token) => token.text).join("");
}

function abridge(text: string): string {
  return text.length <= 32 ? text : `${text.slice(0, 32)}…`;
}
