/** A message as octets: its header fields and its body, read and changed without touching anything else. */
import { isAscii, isUtf8 } from "node:buffer";

/** One header field as it stands, folding and final CRLF included; octets are kept as latin1 characters. */
export interface RawField {
  /** In lower case. */
  readonly name: string;
  readonly raw: string;
}

/** The two halves of a message; the empty line between them belongs to neither. */
export interface MessageParts {
  readonly fields: readonly RawField[];
  readonly body: Buffer;
}

const END_OF_HEADER = Buffer.from("\r\n\r\n", "latin1");
const CR = 0x0d;
const LF = 0x0a;

/**
 * Split a message whose lines end in CRLF.
 * A header line that is no field is kept, under the empty name. A message without an empty line has no body.
 * @see RFC 5322 §2.1
 */
export function splitMessage(message: Buffer): MessageParts {
  const length = headerLength(message);
  return { fields: readFields(message.toString("latin1", 0, length)), body: message.subarray(length + 2) };
}

/** Octets of the header, the CRLF of its last field included and the empty line behind it not. */
export function headerLength(message: Buffer): number {
  if (message.length >= 2 && message[0] === CR && message[1] === LF) return 0;
  const end = message.indexOf(END_OF_HEADER);
  return end < 0 ? message.length : end + 2;
}

const OF_ADDRESSES = /^(?:resent-)?(?:from|sender|reply-to|to|cc)$/i;

/**
 * Whether the header has an address beyond ASCII: it leaves with SMTPUTF8 or not at all. Other fields in UTF-8 say nothing
 * that anybody answers to; they leave as they came, as other servers have it. Octets that are not UTF-8 make no address.
 * @see RFC 6531 §3.5, RFC 6532 §3
 */
export function hasInternationalAddress(message: Buffer): boolean {
  const header = message.subarray(0, headerLength(message));
  if (isAscii(header) || !isUtf8(header)) return false;
  const fields = readFields(header.toString("latin1")).filter(({ name }) => OF_ADDRESSES.test(name));
  return fields.some(({ raw }) =>
    raw.split(/[\s<>,;:"()]+/).some((word) => word.includes("@") && BEYOND_ASCII.test(word)),
  );
}

const BEYOND_ASCII = /[^\x00-\x7f]/;

/** Put a message together again. */
export function joinMessage({ fields, body }: MessageParts): Buffer {
  const header = fields.map(({ raw }) => raw).join("");
  return Buffer.concat([Buffer.from(`${header}\r\n`, "latin1"), body]);
}

/** Value of a field: unfolded, without the white space around it (RFC 5322 §2.2.3). */
export function fieldValue({ raw }: RawField): string {
  const unfolded = raw.slice(raw.indexOf(":") + 1).replaceAll("\r\n", "");
  // Not trim(): in latin1 the last octet of "à" is a no-break space. Not a pattern: long runs would cost their square.
  let start = 0;
  let end = unfolded.length;
  while (start < end && isWhiteSpace(unfolded[start])) start++;
  while (end > start && isWhiteSpace(unfolded[end - 1])) end--;
  return unfolded.slice(start, end);
}

/**
 * Every line break as CRLF, for messages that come from elsewhere. To be done before signing.
 * @returns the same buffer when nothing had to change
 */
export function normaliseLineEndings(message: Buffer): Buffer {
  const strayBreaks = countStrayBreaks(message);
  if (strayBreaks === 0) return message;
  const output = Buffer.allocUnsafe(message.length + strayBreaks);
  let length = 0;
  for (let i = 0; i < message.length; i++) {
    const octet = message[i] as number;
    if (octet !== CR && octet !== LF) {
      output[length++] = octet;
      continue;
    }
    output[length++] = CR;
    output[length++] = LF;
    if (octet === CR && message[i + 1] === LF) i++;
  }
  return output;
}

/** How many CRs and LFs stand alone; none may leave by SMTP (RFC 5321 §2.3.8). */
export function countStrayBreaks(message: Buffer): number {
  let count = 0;
  for (let i = message.indexOf(LF); i >= 0; i = message.indexOf(LF, i + 1)) {
    if (message[i - 1] !== CR) count++;
  }
  for (let i = message.indexOf(CR); i >= 0; i = message.indexOf(CR, i + 1)) {
    if (message[i + 1] !== LF) count++;
  }
  return count;
}

function isWhiteSpace(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

function readFields(header: string): RawField[] {
  const fields: RawField[] = [];
  let start = 0;
  while (start < header.length) {
    let end = header.indexOf("\r\n", start);
    while (end >= 0 && (header[end + 2] === " " || header[end + 2] === "\t")) end = header.indexOf("\r\n", end + 2);
    const next = end < 0 ? header.length : end + 2;
    const raw = header.slice(start, next);
    fields.push({ name: /^([!-9;-~]+)[ \t]*:/.exec(raw)?.[1]?.toLowerCase() ?? "", raw });
    start = next;
  }
  return fields;
}
