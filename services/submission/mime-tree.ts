/** The parts of a MIME message by their octets, so that one can be changed and all others stay as they are. */
import { plainField } from "../core/mail/headers.ts";
import { fieldValue, type MessageParts, type RawField } from "../core/mail/message.ts";

/** Multiparts within multiparts; nobody who means well comes near. */
export const MOST_LEVELS = 20;
const CRLF = Buffer.from("\r\n", "latin1");

/** A line that parts the parts of a multipart, or ends the last one. */
export interface Delimiter {
  /** The line break before it belongs to it (RFC 2046 §5.1.1). */
  readonly start: number;
  readonly end: number;
  readonly closes: boolean;
}

/** The delimiter lines of a multipart, up to the closing one, with which the list of parts ends. */
export function findDelimiters(body: Buffer, boundary: string): Delimiter[] {
  const delimiters: Delimiter[] = [];
  for (const at of delimiterStarts(body, boundary)) {
    const lineEnd = body.indexOf(CRLF, at);
    const end = lineEnd < 0 ? body.length : lineEnd + CRLF.length;
    const rest = /^(--)?[ \t]*(?:\r\n)?$/.exec(body.toString("latin1", at + 2 + boundary.length, end));
    if (rest === null) continue;
    const closes = rest[1] !== undefined;
    // Two delimiters in a row share the line break between them.
    delimiters.push({ start: Math.max(at - CRLF.length, delimiters.at(-1)?.end ?? 0), end, closes });
    if (closes) break;
  }
  return delimiters;
}

/** Where lines begin that may be delimiters: with two hyphens and the boundary, which may be the beginning of another's. */
export function* delimiterStarts(body: Buffer, boundary: string): Iterable<number> {
  const inLaterLine = Buffer.from(`\n--${boundary}`, "latin1");
  const inFirstLine = inLaterLine.subarray(1);
  if (body.subarray(0, inFirstLine.length).equals(inFirstLine)) yield 0;
  for (let at = body.indexOf(inLaterLine); at >= 0; at = body.indexOf(inLaterLine, at + 1)) yield at + 1;
}

/** The boundary parameter of a multipart (RFC 2046 §5.1.1). */
export function readBoundary(contentType: string): string | undefined {
  const [, quoted, token] = /;\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(contentType) ?? [];
  return quoted?.replaceAll(/\\(.)/g, "$1") ?? token;
}

/** Type and subtype of a Content-Type field, in lower case. */
export function mediaTypeOf(contentType: string): string {
  return (/^[^\s;]+/.exec(contentType)?.[0] ?? "").toLowerCase();
}

/** The first field of that name. */
export function readField({ fields }: MessageParts, name: string): string | undefined {
  const field = fields.find((field) => field.name === name);
  return field && fieldValue(field);
}

/** Fields with one of a name in place of those of that name. */
export function withField(fields: readonly RawField[], name: string, value: string): RawField[] {
  return [...fields.filter((field) => field.name !== name.toLowerCase()), newField(name, value)];
}

/** A field of plain ASCII. */
export function newField(name: string, value: string): RawField {
  return { name: name.toLowerCase(), raw: plainField(name, value) };
}
