import { Buffer } from "node:buffer";
import { decodeCharset, decodeEncodedWords, decodeQuotedPrintable } from "./decode.ts";

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
  delimiters: 10_000,
  headerOctets: 128 * 1024,
  /** Of all parts together. */
  allHeaderOctets: 256 * 1024,
  headerFields: 500,
  fieldCharacters: 8 * 1024,
  textOctets: 256 * 1024,
  htmlCharacters: 64 * 1024,
} as const;

/**
 * Reads a message of any size into a tree, within {@link MIME_LIMITS}; never throws.
 * mailparser would be the ready-made choice, but it flattens the tree to one text, in which the words of the
 * reporting system can no longer be told from those of the returned message.
 * @see RFC 2045, RFC 2046 §5, RFC 5322 §2.2
 */
export function readMimeMessage(octets: Uint8Array): MimePart {
  const source = withLineFeeds(Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength));
  return readPart(withoutMailboxLine(source), {
    depth: 0,
    defaultType: "text/plain",
    budget: { parts: MIME_LIMITS.parts, headerOctets: MIME_LIMITS.allHeaderOctets },
  });
}

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

interface Position {
  readonly depth: number;
  readonly defaultType: string;
  readonly budget: { parts: number; headerOctets: number };
}

function readPart(source: Buffer, position: Position): MimePart {
  position.budget.parts--;
  const bodyStart = findBodyStart(source);
  const headerOctets = source.subarray(
    0,
    Math.min(bodyStart, MIME_LIMITS.headerOctets, Math.max(0, position.budget.headerOctets)),
  );
  position.budget.headerOctets -= headerOctets.length;
  const headers = parseHeaders(decodeCharset(headerOctets, ""));
  const { type, parameters } = parseContentType(headerValue({ headers }, "content-type"), position.defaultType);
  const encoding = headerValue({ headers }, "content-transfer-encoding")
    .toLowerCase()
    .replace(/[^a-z0-9-].*$/, "");
  const body = source.subarray(bodyStart);
  const children = readChildren(body, { type, encoding, boundary: parameters.get("boundary") }, position);
  const text =
    children.length > 0 || !isReadable(type) ? "" : decodeBody(body, encoding, parameters.get("charset") ?? "");
  return { type, parameters, headers, children, text };
}

interface Composite {
  readonly type: string;
  readonly encoding: string;
  readonly boundary: string | undefined;
}

function readChildren(body: Buffer, { type, encoding, boundary }: Composite, position: Position): MimePart[] {
  if (position.depth >= MIME_LIMITS.depth) return [];
  const { budget } = position;
  const inside = (defaultType: string) => ({ depth: position.depth + 1, defaultType, budget });
  const isMessage = /^message\/(rfc822|global|partial)$/.test(type);
  if (!isMessage && !type.startsWith("multipart/")) return [];
  // RFC 2046 §5.2.1 and RFC 6532 §3.7 forbid or allow an encoding here; senders apply one either way.
  const content = encoding === "base64" || encoding === "quoted-printable" ? decodeTransfer(body, encoding) : body;
  if (isMessage) {
    return budget.parts > 0 ? [readPart(withoutMailboxLine(content), inside("text/plain"))] : [];
  }
  const delimiter = boundary || sniffBoundary(content);
  if (!delimiter) return [];
  const children: MimePart[] = [];
  // RFC 2046 §5.1.5: parts of a digest are messages unless they say otherwise.
  const defaultType = type === "multipart/digest" ? "message/rfc822" : "text/plain";
  for (const slice of splitAtBoundary(content, delimiter)) {
    if (budget.parts <= 0) break;
    children.push(readPart(slice, inside(defaultType)));
  }
  return children;
}

/** The octets between delimiter lines. A missing end delimiter closes with the content (RFC 2046 §5.1.2 tolerance). */
function* splitAtBoundary(content: Buffer, boundary: string): Generator<Buffer> {
  const delimiter = Buffer.from(`--${boundary}`, "latin1");
  let partStart = -1;
  let seen = 0;
  for (let at = content.indexOf(delimiter); at !== -1; at = content.indexOf(delimiter, at + 1)) {
    if (++seen > MIME_LIMITS.delimiters) return;
    const after = at + delimiter.length;
    const isLineStart = at === 0 || content[at - 1] === LF;
    const closing = content[after] === HYPHEN && content[after + 1] === HYPHEN;
    if (!isLineStart || !(closing || isLineEnd(content, after))) continue;
    if (partStart !== -1) yield content.subarray(partStart, at);
    if (closing) return;
    const lineEnd = content.indexOf(LF, after);
    if (lineEnd === -1) return;
    partStart = lineEnd + 1;
  }
  if (partStart !== -1) yield content.subarray(partStart);
}

function isLineEnd(content: Buffer, from: number): boolean {
  let at = from;
  while (content[at] === SPACE || content[at] === TAB || content[at] === CR) at++;
  return at >= content.length || content[at] === LF;
}

/** The boundary that a multipart without the parameter uses: its first line that starts with two hyphens. */
function sniffBoundary(content: Buffer): string | undefined {
  return /^--([\x21-\x7e]{1,70})\s*$/m.exec(content.subarray(0, 4096).toString("latin1"))?.[1];
}

function findBodyStart(source: Buffer): number {
  if (source[0] === LF) return 1;
  if (source[0] === CR && source[1] === LF) return 2;
  const bare = source.indexOf("\n\n");
  const regular = source.indexOf("\n\r\n");
  if (bare === -1 && regular === -1) return source.length;
  return regular === -1 || (bare !== -1 && bare < regular) ? bare + 2 : regular + 3;
}

function parseHeaders(block: string): HeaderField[] {
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

function parseContentType(value: string, defaultType: string): { type: string; parameters: Map<string, string> } {
  const parameters = new Map<string, string>();
  const type = /^\s*([\w.+-]+\/[\w.+-]+)/.exec(value)?.[1]?.toLowerCase();
  for (const [, name, quoted, bare] of value.matchAll(/;\s*([\w-]+)(?:\*\d*\*?)?\s*=\s*(?:"([^"]*)"|([^;\s]*))/g)) {
    const key = (name as string).toLowerCase();
    parameters.set(key, (parameters.get(key) ?? "") + (quoted ?? bare ?? ""));
  }
  return { type: type ?? defaultType, parameters };
}

/** Images, archives and the like say nothing about a bounce and are not decoded. */
function isReadable(type: string): boolean {
  return /^(text|message|multipart)\//.test(type);
}

function decodeBody(body: Buffer, encoding: string, charset: string): string {
  return decodeCharset(decodeTransfer(body.subarray(0, MIME_LIMITS.textOctets), encoding), charset);
}

function decodeTransfer(body: Buffer, encoding: string): Buffer {
  if (encoding === "base64")
    return Buffer.from(body.subarray(0, 2 * MIME_LIMITS.textOctets).toString("latin1"), "base64");
  if (encoding === "quoted-printable") return decodeQuotedPrintable(body.subarray(0, 2 * MIME_LIMITS.textOctets));
  return body;
}

/** Messages whose lines end in CR alone come from old Macintosh gateways and broken exports. */
function withLineFeeds(source: Buffer): Buffer {
  const head = source.subarray(0, 16 * 1024);
  if (head.includes(LF) || !head.includes(CR)) return source;
  const converted = Buffer.from(source);
  for (let at = converted.indexOf(CR); at !== -1; at = converted.indexOf(CR, at + 1)) converted[at] = LF;
  return converted;
}

/** Drops blank lines and an mbox "From " line before the header. */
function withoutMailboxLine(source: Buffer): Buffer {
  let start = 0;
  while (source[start] === LF || source[start] === CR) start++;
  if (/^>?From /.test(source.subarray(start, start + 6).toString("latin1"))) {
    const lineEnd = source.indexOf(LF, start);
    start = lineEnd === -1 ? source.length : lineEnd + 1;
  }
  return source.subarray(start);
}

const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;
const SPACE = 0x20;
const HYPHEN = 0x2d;
