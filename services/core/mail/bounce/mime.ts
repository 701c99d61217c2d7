import { decodeEncodedWords } from "../decode.ts";

/**
 * A part of an inbound message, tolerant of what broken and hostile senders make of MIME.
 * Children are the parts of a multipart, or the one message that a `message/rfc822` part encloses.
 */
export interface MimePart {
  /** Lower case; `text/plain` when absent or malformed (RFC 2045 §5.2). */
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  /** Encoded words decoded, unfolded, in the order of the message; names in lower case. */
  readonly headers: readonly HeaderField[];
  readonly children: readonly MimePart[];
  /** The part's own content without transfer encoding and charset; empty for parts with children. */
  readonly text: string;
}

export interface HeaderField {
  readonly name: string;
  readonly value: string;
}

/**
 * The bounds that keep the cost of any message small. A report is a few kilobytes: what lies beyond a bound
 * is the body of a returned message, or an attack, and is left unread.
 */
export const MIME_LIMITS = {
  depth: 12,
  parts: 200,
  /** A header above this is not read at all; a line counts for 64 octets at least. */
  headOctets: 1024 * 1024,
  headerOctets: 128 * 1024,
  /** Of all parts together. */
  allHeaderOctets: 256 * 1024,
  headerFields: 500,
  fieldCharacters: 8 * 1024,
  textOctets: 256 * 1024,
  htmlCharacters: 64 * 1024,
} as const;

/** The first value of a header field, or "". The name is given in lower case. */
export function headerValue(part: Pick<MimePart, "headers">, name: string): string {
  return part.headers.find((field) => field.name === name)?.value ?? "";
}

/** Reads a header block that stands alone, as `text/rfc822-headers` parts and quoted originals do. */
export function readHeaderBlock(text: string): HeaderField[] {
  return parseHeaders(text.replace(/^\s*\n/, "").split(/\r?\n[ \t]*\r?\n/, 1)[0] ?? "");
}

/** All parts, the outer before the inner, so that the first match is the one nearest to the surface. */
export function* partsByDepth(root: MimePart): Generator<MimePart> {
  const queue = [root];
  for (let part = queue.shift(); part; part = queue.shift()) {
    yield part;
    queue.push(...part.children);
  }
}

/** The fields of a header block, without its blank line, within {@link MIME_LIMITS}. */
export function parseHeaders(block: string): HeaderField[] {
  const fields: { name: string; value: string }[] = [];
  for (const line of block.split(/\r?\n/)) {
    const last = fields.at(-1);
    if (/^[ \t]/.test(line)) {
      if (last && last.value.length < MIME_LIMITS.fieldCharacters) last.value += ` ${line.trim()}`;
      continue;
    }
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).trimEnd().toLowerCase();
    if (colon < 1 || !/^[\x21-\x7e]{1,200}$/.test(name)) continue;
    if (fields.length >= MIME_LIMITS.headerFields) break;
    fields.push({ name, value: line.slice(colon + 1, colon + 1 + MIME_LIMITS.fieldCharacters).trim() });
  }
  return fields.map(({ name, value }) => ({
    name,
    value: decodeEncodedWords(value).slice(0, MIME_LIMITS.fieldCharacters),
  }));
}
