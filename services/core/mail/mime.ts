/** Body encodings and attachment parts (RFC 2045, RFC 2183, RFC 2231): everything leaves as 7-bit lines. */
import { isAscii, isUtf8 } from "node:buffer";
import libmime from "libmime";
import type { Steps } from "../steps.ts";
import { isHeaderSafe, plainField } from "./headers.ts";

/** A file to be sent along; its content type follows from its name unless given. */
export interface Attachment {
  readonly filename: string;
  readonly content: Buffer;
  /** With its parameters. */
  readonly contentType?: string;
}

/**
 * Boundaries are constants: `=_` can stand in no quoted-printable or base64 body, and all bodies are one of the two.
 * @see RFC 2045 §6.7, note 5
 */
export const ALTERNATIVE_BOUNDARY = "=_alternative";
export const MIXED_BOUNDARY = "=_mixed";

/** An encoded line, soft break included, has 76 characters at most. */
const MAX_LINE_CHARACTERS = 75;
const BASE64_LINE_CHARACTERS = 76;
const PARAMETER_SECTION_CHARACTERS = 50;
const CR = 0x0d;
const LF = 0x0a;
const TAB = 0x09;
const SPACE = 0x20;
const EQUALS = 0x3d;
const DOT = 0x2e;
const UPPER_F = 0x46;
const HEX = Buffer.from("0123456789ABCDEF", "latin1");
/** Type, subtype, and parameters as RFC 2045 §5.1 has them. */
const CONTENT_TYPE =
  /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+(?: *; *[a-z0-9!#$%&'*+.^_`{|}~-]+=(?:[a-z0-9!#$%&'*+.^_`{|}~-]+|"(?:[ !#-[\]-~]|\\[ -~])*"))*$/i;

/** Every line break becomes CRLF: bare CR and bare LF are never sent (RFC 5321 §2.3.8). */
export function toCrlf(text: string): string {
  return text.replace(/\r\n?|\n/g, "\r\n");
}

/** Quoted-printable octets and the column at which they end. */
interface EncodedChunk {
  readonly octets: Buffer;
  readonly endColumn: number;
}

/** Ends a line that goes on (RFC 2045 §6.7, rule 5): before a value and after it, so that its length moves nothing. */
export const SOFT_BREAK = Buffer.from("=\r\n", "latin1");

/** Of a text, encoded in one step. */
const STEP_OCTETS = 65_536;

/**
 * Quoted-printable with soft breaks, so that a later chunk may go on in the same line. Every line break becomes CRLF, as by
 * {@link toCrlf}.
 * @param startColumn characters already in the current line
 * @see RFC 2045 §6.7
 */
export function encodeQuotedPrintable(text: string, startColumn = 0): EncodedChunk {
  const input = Buffer.from(text, "utf8");
  return encodeSlice(input, { start: 0, end: input.length }, startColumn);
}

/** `encodeQuotedPrintable` in steps, for texts of megabytes. */
export function* encodeQuotedPrintableSteps(text: string, startColumn = 0): Steps<EncodedChunk> {
  const input = Buffer.from(text, "utf8");
  const pieces: Buffer[] = [];
  let endColumn = startColumn;
  for (let start = 0; start < input.length; start += STEP_OCTETS) {
    const piece = encodeSlice(input, { start, end: Math.min(start + STEP_OCTETS, input.length) }, endColumn);
    pieces.push(piece.octets);
    endColumn = piece.endColumn;
    yield;
  }
  return { octets: pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces), endColumn };
}

/** What of the input lies in a slice; what lies around it says how that is encoded. */
function encodeSlice(
  input: Buffer,
  { start, end }: { readonly start: number; readonly end: number },
  startColumn: number,
): EncodedChunk {
  const octets = end - start;
  // Each octet becomes three at most, and each line of at least 73 gains three.
  const output = Buffer.allocUnsafe(octets * 3 + Math.ceil((octets * 3) / 72) * 3 + 3);
  let length = 0;
  let column = startColumn;
  for (let i = start; i < end; i++) {
    const octet = input[i] as number;
    if (octet === CR || octet === LF) {
      // The LF of a CRLF, whose CR has made the break.
      if (octet === LF && input[i - 1] === CR) continue;
      output[length++] = CR;
      output[length++] = LF;
      column = 0;
      continue;
    }
    const width = isLiteral(input, i, column) ? 1 : 3;
    if (column + width > MAX_LINE_CHARACTERS) {
      output[length++] = EQUALS;
      output[length++] = CR;
      output[length++] = LF;
      column = 0;
    }
    // The break has just moved the octet to the start of a line, where other octets need care.
    if (isLiteral(input, i, column)) {
      output[length++] = octet;
      column += 1;
    } else {
      output[length++] = EQUALS;
      output[length++] = HEX[octet >> 4] as number;
      output[length++] = HEX[octet & 15] as number;
      column += 3;
    }
  }
  return { octets: output.subarray(0, length), endColumn: column };
}

/** Base64 in lines of 76 characters, each ended by CRLF (RFC 2045 §6.8). */
export function encodeBase64Lines(content: Buffer): Buffer {
  const encoded = content.toString("base64");
  const lines: string[] = [];
  for (let i = 0; i < encoded.length; i += BASE64_LINE_CHARACTERS) {
    lines.push(encoded.slice(i, i + BASE64_LINE_CHARACTERS));
  }
  return Buffer.from(lines.map((line) => `${line}\r\n`).join(""), "latin1");
}

/** Whether most of a text is beyond ASCII, so that base64 is shorter than quoted-printable. */
export function prefersBase64(text: string): boolean {
  return Buffer.byteLength(text, "utf8") > text.length * 1.25;
}

/** Whether text is a media type, with its parameters if it has any, that may stand in a header. */
export function isContentType(text: string): boolean {
  return CONTENT_TYPE.test(text);
}

/** Whether name and type of an attachment may stand in a header. */
export function isAttachmentSafe({ filename, contentType }: Attachment): boolean {
  return filename !== "" && isHeaderSafe(filename) && (contentType === undefined || isContentType(contentType));
}

/** A whole attachment part: header, empty line, base64 body. The name goes without the folders before it. */
export function attachmentPart(attachment: Attachment): Buffer {
  const header =
    plainField("Content-Type", attachmentType(attachment)) +
    plainField("Content-Transfer-Encoding", "base64") +
    plainField("Content-Disposition", `attachment; ${parameter("filename", baseName(attachment.filename))}`);
  return Buffer.concat([Buffer.from(`${header}\r\n`, "latin1"), encodeBase64Lines(attachment.content)]);
}

/**
 * A header parameter, in sections when it is long and percent-encoded when it is not plain ASCII.
 * @see RFC 2231 §3, §4
 */
export function parameter(name: string, value: string): string {
  // What looks like an encoded word would be taken for one (RFC 2047 §5 forbids them here, readers decode them).
  if (/^[ -~]*$/.test(value) && !value.includes("=?") && value.length <= PARAMETER_SECTION_CHARACTERS) {
    return `${name}="${value.replace(/["\\]/g, "\\$&")}"`;
  }
  const characters = Array.from(value, (character) =>
    /^[A-Za-z0-9!#$&+.^_`{|}~-]$/.test(character) ? character : percentEncode(character),
  );
  const sections = [""];
  for (const character of characters) {
    if ((sections.at(-1) as string).length + character.length > PARAMETER_SECTION_CHARACTERS) sections.push("");
    sections[sections.length - 1] += character;
  }
  if (sections.length === 1) return `${name}*=UTF-8''${sections[0]}`;
  return sections.map((section, i) => `${name}*${i}*=${i === 0 ? "UTF-8''" : ""}${section}`).join("; ");
}

function percentEncode(character: string): string {
  return Buffer.from(character, "utf8").reduce(
    (text, octet) => `${text}%${octet.toString(16).toUpperCase().padStart(2, "0")}`,
    "",
  );
}

/** RFC 2183 §2.3: a name is no path. Either slash parts one, as the sender's system is unknown. */
function baseName(filename: string): string {
  const name = /[^/\\]*(?=[/\\]*$)/.exec(filename)?.[0] ?? "";
  return /^\.*$/.test(name) ? "attachment" : name;
}

function attachmentType({ filename, contentType, content }: Attachment): string {
  const extension = /\.([a-z0-9]{1,10})$/i.exec(filename)?.[1] ?? "";
  const type = contentType ?? libmime.detectMimeType(extension);
  // RFC 2046 §5.2.1: messages and multiparts must not be encoded in base64.
  if (/^(message|multipart)\//i.test(type)) return "application/octet-stream";
  return /^text\//i.test(type) ? type + textParameters(type, content) : type;
}

/** What readers have to know of a text, and its type does not say yet: its character set, and what a calendar is for. */
function textParameters(type: string, content: Buffer): string {
  const isCalendar = /^text\/calendar *(;|$)/i.test(type);
  const given = type.replace(/"(?:[^"\\]|\\.)*"/g, '""').toLowerCase();
  const has = (name: string) => given.split(/ *; */).some((each) => each.startsWith(`${name}=`));
  // RFC 2046 §4.1.2: without it a text is ASCII. RFC 5545 §3.1.4: calendars always say it.
  const needsCharset = !has("charset") && isUtf8(content) && (isCalendar || !isAscii(content));
  const method = isCalendar && !has("method") ? calendarMethod(content) : undefined;
  return (method === undefined ? "" : `; method=${method}`) + (needsCharset ? "; charset=utf-8" : "");
}

/** RFC 6047 §2.4: the method of the calendars of a part, where they have one, and the same. */
function calendarMethod(content: Buffer): string | undefined {
  const unfolded = content.toString("latin1").replace(/\r?\n[ \t]/g, ""); // RFC 5545 §3.1
  const lines = unfolded.matchAll(/^METHOD(?:;[^:\r\n]*)?:([A-Z\d-]+)\r?$/gim);
  const methods = new Set(Array.from(lines, ([, method]) => method!));
  return methods.size === 1 ? [...methods][0] : undefined;
}

/** Octets that stand for themselves; a leading dot and "From " are encoded, since gateways still alter them. */
function isLiteral(input: Buffer, i: number, column: number): boolean {
  const octet = input[i] as number;
  if (octet === SPACE || octet === TAB) {
    return i + 1 < input.length && input[i + 1] !== CR && input[i + 1] !== LF; // RFC 2045 §6.7 (3): no white space at the end of a line
  }
  if (octet < 0x21 || octet > 0x7e || octet === EQUALS) return false;
  if (column > 0) return true;
  return octet !== DOT && !(octet === UPPER_F && input.toString("latin1", i, i + 5) === "From ");
}
