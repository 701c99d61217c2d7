import { type Sentence, sentence } from "../../sentences.ts";
import { formatIpv4, formatIpv6, parseIpv4, parseIpv6 } from "../ip-address.ts";
import { domainNameFromWire, formatDomainName, parseDomainName, portableName } from "../name.ts";
import { BAD_ESCAPE, octetsOfText, quotedText } from "../octet-text.ts";
import { parsePeriodSeconds } from "../period.ts";
import type { WireWriter } from "../wire-writer.ts";
import { type Field, MISSING, wordField } from "./field.ts";

/** Most octets of a character string (RFC 1035 §3.3). */
const MAX_STRING_OCTETS = 255;

/** An unsigned number of 8, 16 or 32 bits; `mnemonics` may stand for numbers in the text. */
export function numberField(
  name: string,
  bits: 8 | 16 | 32,
  mnemonics?: Readonly<Record<string, number>>,
  options: { readonly writeMnemonics?: boolean } = {},
): Field {
  const maximum = 2 ** bits - 1;
  const mnemonicByCode = new Map(
    options.writeMnemonics ? Object.entries(mnemonics ?? {}).map(([text, code]) => [code, text]) : [],
  );
  return wordField(name, bits / 8, {
    parse(text, out) {
      const number = mnemonics?.[text.toUpperCase()] ?? (/^\d{1,10}$/.test(text) ? Number(text) : Number.NaN);
      if (!(number <= maximum)) return sentence("number-from-to", { text, least: 0, most: maximum });
      writeNumber(out, number, bits);
      return undefined;
    },
    format(octets) {
      const number = numberOf(octets);
      return mnemonicByCode.get(number) ?? String(number);
    },
  });
}

/** A time in seconds of 32 bits; the text may have units. */
export function periodField(name: string): Field {
  return wordField(name, 4, {
    parse(text, out) {
      const seconds = parsePeriodSeconds(text, 0xffff_ffff);
      if (seconds === undefined) return sentence("no-seconds", { text });
      out.u32(seconds);
      return undefined;
    },
    format: (octets) => String(numberOf(octets)),
  });
}

/** A domain name. */
export function nameField(name: string, options: { readonly compressible?: boolean } = {}): Field {
  const field = wordField(name, "name", {
    parse(text, out, scope) {
      const parsed = parseDomainName(text, scope.origin);
      if (!parsed.ok) return sentence("bad-domain-name", { text, reason: parsed.error });
      out.uncompressedName(parsed.value);
      return undefined;
    },
    format(octets, form) {
      const parsed = domainNameFromWire(octets);
      if (!parsed.ok) return undefined;
      const text = formatDomainName(parsed.value);
      return form === "master-file" ? portableName(text) : text;
    },
  });
  return { ...field, compressible: options.compressible ?? false };
}

/** An IPv4 address. */
export function ipv4Field(name: string): Field {
  return wordField(name, 4, {
    parse: (text, out) => writeOr(out, parseIpv4(text), sentence("no-ipv4-address", { text })),
    format: formatIpv4,
  });
}

/** An IPv6 address. */
export function ipv6Field(name: string): Field {
  return wordField(name, 16, {
    parse: (text, out) => writeOr(out, parseIpv6(text), sentence("no-ipv6-address", { text })),
    format: formatIpv6,
  });
}

/** One character string, quoted or not (RFC 1035 §3.3). */
export function stringField(name: string): Field {
  return {
    name,
    layout: "counted",
    parse(tokens, out) {
      const token = tokens.take();
      if (token === undefined) return MISSING;
      const octets = octetsOfText(token.text);
      if (octets === undefined) return BAD_ESCAPE;
      if (octets.length > MAX_STRING_OCTETS) return tooLongString(octets.length);
      writeString(out, octets);
      return undefined;
    },
    format: (octets) => quotedText(octets.subarray(1)),
  };
}

/**
 * One or more character strings up to the end: TXT and its like. In a value of the API a string that is too long for
 * one is split, in a master file it is an error.
 */
export function stringsField(name: string): Field {
  return {
    name,
    layout: "rest",
    parse(tokens, out, scope) {
      if (tokens.peek() === undefined) return MISSING;
      for (let token = tokens.take(); token !== undefined; token = tokens.take()) {
        const octets = octetsOfText(token.text);
        if (octets === undefined) return BAD_ESCAPE;
        if (octets.length > MAX_STRING_OCTETS && scope.context === "master-file") return tooLongString(octets.length);
        writeSplitText(out, octets);
      }
      return undefined;
    },
    format(octets) {
      if (octets.length === 0) return undefined;
      const strings: string[] = [];
      for (let offset = 0; offset < octets.length; ) {
        const end = offset + 1 + octets[offset]!;
        if (end > octets.length) return undefined;
        strings.push(quotedText(octets.subarray(offset + 1, end)));
        offset = end;
      }
      return strings.join(" ");
    },
  };
}

/** Writes a text of any length as character strings of at most 255 octets. */
export function writeSplitText(out: WireWriter, octets: Uint8Array): void {
  let start = 0;
  do {
    writeString(out, octets.subarray(start, start + MAX_STRING_OCTETS));
    start += MAX_STRING_OCTETS;
  } while (start < octets.length);
}

/** A text that takes all that is left, without a length of its own: the target of URI, the value of CAA. */
export function textField(name: string, options: { readonly mayBeEmpty: boolean }): Field {
  return {
    name,
    layout: "rest",
    parse(tokens, out) {
      const token = tokens.take();
      if (token === undefined) return MISSING;
      const octets = octetsOfText(token.text);
      if (octets === undefined) return BAD_ESCAPE;
      if (octets.length === 0 && !options.mayBeEmpty) return sentence("part-empty");
      out.bytes(octets);
      return undefined;
    },
    format: (octets) => (octets.length === 0 && !options.mayBeEmpty ? undefined : quotedText(octets)),
  };
}

/** Writes the octets, or gives back the problem when there are none. */
export function writeOr(out: WireWriter, octets: Uint8Array | undefined, problem: Sentence): Sentence | undefined {
  if (octets === undefined) return problem;
  out.bytes(octets);
  return undefined;
}

/** The big-endian number of 1 to 4 octets. */
export function numberOf(octets: Uint8Array): number {
  return octets.reduce((number, octet) => number * 256 + octet, 0);
}

function writeNumber(out: WireWriter, number: number, bits: 8 | 16 | 32): void {
  if (bits === 8) out.u8(number);
  else if (bits === 16) out.u16(number);
  else out.u32(number);
}

function writeString(out: WireWriter, octets: Uint8Array): void {
  out.u8(octets.length);
  out.bytes(octets);
}

function tooLongString(octets: number): Sentence {
  return sentence("string-too-long", { octets, most: MAX_STRING_OCTETS });
}
