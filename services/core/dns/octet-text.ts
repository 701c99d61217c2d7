import { sentence } from "../sentences.ts";

/**
 * The octets of a text in presentation format: escapes resolved, all else in UTF-8.
 * @returns undefined when an escape is malformed
 * @see RFC 1035 §5.1
 */
export function octetsOfText(text: string): Uint8Array | undefined {
  if (!text.includes("\\")) return Buffer.from(text, "utf8");
  // An escape stands for fewer octets than it has characters.
  const octets = Buffer.alloc(Buffer.byteLength(text, "utf8"));
  let written = 0;
  let plainStart = 0;
  for (let position = text.indexOf("\\"); position >= 0; position = text.indexOf("\\", plainStart)) {
    const escaped = readEscape(text, position);
    if (escaped === undefined) return undefined;
    if (position > plainStart) written += octets.write(text.slice(plainStart, position), written, "utf8");
    octets[written++] = escaped.octet;
    plainStart = position + escaped.length;
  }
  written += octets.write(text.slice(plainStart), written, "utf8");
  return octets.subarray(0, written);
}

/** The octets as a quoted string, with escapes where they are needed. */
export function quotedText(octets: Uint8Array): string {
  if (octets.length > FEW_OCTETS) {
    // Octet by octet a long text would be a rope of as many strings.
    const text = Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1");
    if (PLAIN_TEXT.test(text)) return `"${text}"`;
  }
  let text = '"';
  for (const octet of octets) text += QUOTED_OCTET_TEXT[octet];
  return `${text}"`;
}

/** So many octets are told one by one sooner than all at once. */
const FEW_OCTETS = 32;

/** Printable ASCII without what ends a quoted string or begins an escape. */
const PLAIN_TEXT = /^[ !#-[\]-~]*$/;

const QUOTED_OCTET_TEXT: readonly string[] = Array.from({ length: 256 }, (_, octet) => {
  const character = String.fromCharCode(octet);
  if (character === '"' || character === "\\") return `\\${character}`;
  return octet >= 0x20 && octet < 0x7f ? character : `\\${String(octet).padStart(3, "0")}`;
});

/** What is said of an escape that is neither `\DDD` (000 to 255) nor a backslash before a character. */
export const BAD_ESCAPE = sentence("bad-escape");

/**
 * The octet that the escape at `position` (its backslash) stands for, and how many characters it takes;
 * undefined when it is malformed. The escaped character must be ASCII.
 * @see RFC 1035 §5.1
 */
export function readEscape(text: string, position: number): { octet: number; length: number } | undefined {
  const next = text.charCodeAt(position + 1);
  if (Number.isNaN(next) || next > 0x7f) return undefined;
  if (!isDigit(next)) return { octet: next, length: 2 };
  const digits = text.slice(position + 1, position + 4);
  if (!/^\d{3}$/.test(digits) || Number(digits) > 255) return undefined;
  return { octet: Number(digits), length: 4 };
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
