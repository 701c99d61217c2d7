/** The parts of a MIME message by their octets, so that one can be changed and all others stay as they are. */
import { plainField } from "../core/mail/headers.ts";
import { fieldValue, type MessageParts, type RawField } from "../core/mail/message.ts";

/** Entities within entities; nobody who means well comes near. */
const MOST_LEVELS = 20;
const CRLF = Buffer.from("\r\n", "latin1");

/** What an entity is by its header. */
type Header = Pick<MessageParts, "fields">;

/** Where an entity lies in the body of the one around it. */
interface PartRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The parts of a multipart, or an enclosed message, in their order. What lies deeper than anybody reads has none.
 * @param level entities around it
 */
export function partsOf(entity: MessageParts, level: number): readonly PartRange[] {
  const { body } = entity;
  if (level >= MOST_LEVELS) return [];
  if (mediaTypeOf(entity) === "message/rfc822") return [{ start: 0, end: body.length }];
  const boundary = boundaryOf(entity);
  if (boundary === undefined) return [];
  const delimiters = findDelimiters(body, boundary);
  return delimiters.flatMap(({ end, closes }, index) =>
    closes ? [] : [{ start: end, end: delimiters[index + 1]?.start ?? body.length }],
  );
}

/** Where lines begin in a multipart that may part it: with two hyphens and the boundary, which may be the beginning of another's. */
export function delimiterStarts(entity: MessageParts): Iterable<number> {
  const boundary = boundaryOf(entity);
  return boundary === undefined ? [] : findStarts(entity.body, boundary);
}

/** A line that parts the parts of a multipart, or ends the last one. */
interface Delimiter {
  /** The line break before it belongs to it (RFC 2046 §5.1.1). */
  readonly start: number;
  readonly end: number;
  readonly closes: boolean;
}

/** The delimiter lines of a multipart, up to the closing one, with which the list of parts ends. */
function findDelimiters(body: Buffer, boundary: string): Delimiter[] {
  const delimiters: Delimiter[] = [];
  for (const at of findStarts(body, boundary)) {
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

function* findStarts(body: Buffer, boundary: string): Iterable<number> {
  const inLaterLine = Buffer.from(`\n--${boundary}`, "latin1");
  const inFirstLine = inLaterLine.subarray(1);
  if (body.subarray(0, inFirstLine.length).equals(inFirstLine)) yield 0;
  for (let at = body.indexOf(inLaterLine); at >= 0; at = body.indexOf(inLaterLine, at + 1)) yield at + 1;
}

/** The boundary parameter of a multipart (RFC 2046 §5.1.1). */
function boundaryOf(entity: Header): string | undefined {
  if (!mediaTypeOf(entity).startsWith("multipart/")) return undefined;
  const [, quoted, token] = /;\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(contentTypeOf(entity)) ?? [];
  return quoted?.replaceAll(/\\(.)/g, "$1") ?? token;
}

/** Type and subtype, in lower case. */
export function mediaTypeOf(entity: Header): string {
  return (/^[^\s;]+/.exec(contentTypeOf(entity))?.[0] ?? "").toLowerCase();
}

/** The label of its text's charset, as written. */
export function charsetOf(entity: Header): string | undefined {
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentTypeOf(entity))?.[1];
}

/** With its parameters; what says nothing is plain text (RFC 2045 §5.2). */
export function contentTypeOf(entity: Header): string {
  return readField(entity, "content-type") ?? "text/plain";
}

/** The first field of that name. */
export function readField({ fields }: Header, name: string): string | undefined {
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
