import { finished } from "node:stream/promises";
import type { MessageChunk, MimeNode, Splitter } from "@zone-eu/mailsplit";
import { headerValue, MIME_LIMITS, type MimePart, parseHeaders } from "../core/mail/bounce/mime.ts";
import { decodeCharset, decodeQuotedPrintable } from "../core/mail/decode.ts";

/**
 * Reads a message of any size into a tree, within {@link MIME_LIMITS}; never rejects. mailparser's splitter takes it apart:
 * mailparser itself makes one text of it, in which the words of the reporting system could no longer be told from those
 * of the returned message.
 * @see RFC 2045, RFC 2046 §5, RFC 5322 §2.2
 */
export async function readMimeMessage(octets: Uint8Array): Promise<MimePart> {
  const source = withLineFeeds(Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength));
  const budget = { parts: MIME_LIMITS.parts, headerOctets: MIME_LIMITS.allHeaderOctets };
  return readMessage(source, { depth: 0, budget });
}

/**
 * The headers of a multipart body's own parts, unfolded, in their order; what lies beyond the bounds is left out.
 * @param contentType of the body, with its boundary
 */
export async function readPartHeaders(body: Buffer, contentType: string, mostParts: number): Promise<string[]> {
  const splitter = await makeSplitter(mostParts);
  const nodes: MimeNode[] = [];
  splitter.on("data", (chunk: MimeNode | MessageChunk) => {
    if (chunk.type === "node") nodes.push(chunk);
  });
  splitter.write(`Content-Type: ${contentType}\r\n\r\n`);
  splitter.end(body);
  await finished(splitter).catch(() => {});
  const [root, ...parts] = nodes;
  const own = parts.filter(({ parentNode }) => parentNode === root);
  return own.map((part) =>
    part
      .getHeaders()
      .toString("latin1")
      .replaceAll(/\r?\n[ \t]+/g, " "),
  );
}

/** A part that holds no others, decoded. */
export interface MimeContent {
  readonly type: string;
  readonly octets: Buffer;
}

/** Messages within messages are entered so deep. */
const MOST_ENCLOSED = 3;

/** The contents of a message's parts, whole and decoded, in their order; those of enclosed messages among them. */
export async function readMimeContents(octets: Buffer, depth = 0): Promise<MimeContent[]> {
  const root = await split(withoutMailboxLine(withLineFeeds(octets)), MIME_LIMITS.parts);
  const contents: MimeContent[] = [];
  const rest = root === undefined ? [] : [root];
  for (let part = rest.shift(); part !== undefined; part = rest.shift()) {
    if (part.children.length > 0) {
      rest.unshift(...part.children);
      continue;
    }
    const headers = parseHeaders(decodeCharset(part.node.getHeaders().subarray(0, MIME_LIMITS.headerOctets), ""));
    const { type } = parseContentType(headerValue({ headers }, "content-type"), "text/plain");
    const encoding = headerValue({ headers }, "content-transfer-encoding").trim().toLowerCase();
    const body = decodeTransfer(Buffer.concat(part.body), encoding, octets.length);
    if (type !== "message/rfc822") contents.push({ type, octets: body });
    else if (depth < MOST_ENCLOSED) contents.push(...(await readMimeContents(body, depth + 1)));
  }
  return contents;
}

async function makeSplitter(mostParts: number): Promise<Splitter> {
  const { default: mailsplit } = await import("@zone-eu/mailsplit");
  return new mailsplit.Splitter({
    ignoreEmbedded: true,
    maxHeadSize: MIME_LIMITS.headOctets,
    maxChildNodes: mostParts,
  });
}

interface Position {
  readonly depth: number;
  readonly budget: { parts: number; headerOctets: number };
}

/** A part as the splitter gives it. */
interface SplitPart {
  readonly node: MimeNode;
  readonly children: SplitPart[];
  readonly body: Buffer[];
}

async function readMessage(source: Buffer, position: Position): Promise<MimePart> {
  const root = await split(withoutMailboxLine(source), position.budget.parts);
  return root ? partOf(root, "text/plain", position) : EMPTY;
}

/** @returns the root; undefined when not even its header is within bounds */
async function split(source: Buffer, mostParts: number): Promise<SplitPart | undefined> {
  const splitter = await makeSplitter(mostParts);
  const parts = new Map<MimeNode | false, SplitPart>();
  splitter.on("data", (chunk: MimeNode | MessageChunk) => {
    if (chunk.type !== "node") {
      if (chunk.value) parts.get(chunk.node)?.body.push(chunk.value);
      return;
    }
    const part: SplitPart = { node: chunk, children: [], body: [] };
    parts.set(chunk, part);
    parts.get(chunk.parentNode)?.children.push(part);
  });
  splitter.end(withBareDelimiters(source));
  // What lies beyond a bound is left unread.
  await finished(splitter).catch(() => {});
  return parts.values().next().value;
}

async function partOf(split: SplitPart, defaultType: string, position: Position): Promise<MimePart> {
  const { budget } = position;
  budget.parts -= 1;
  const head = split.node
    .getHeaders()
    .subarray(0, Math.max(0, Math.min(MIME_LIMITS.headerOctets, budget.headerOctets)));
  budget.headerOctets -= head.length;
  const headers = parseHeaders(decodeCharset(head, ""));
  const { type, parameters } = parseContentType(headerValue({ headers }, "content-type"), defaultType);
  const encoding = headerValue({ headers }, "content-transfer-encoding")
    .toLowerCase()
    .replace(/[^a-z0-9-].*$/, "");
  const composite = { type, encoding, boundary: parameters.get("boundary") };
  const children = position.depth < MIME_LIMITS.depth ? await childrenOf(split, composite, position) : [];
  const isText = children.length === 0 && isReadable(type);
  const text = isText ? decodeBody(Buffer.concat(split.body), encoding, parameters.get("charset") ?? "") : "";
  return { type, parameters, headers, children, text };
}

interface Composite {
  readonly type: string;
  readonly encoding: string;
  readonly boundary: string | undefined;
}

async function childrenOf(whole: SplitPart, composite: Composite, position: Position): Promise<MimePart[]> {
  const { type, encoding } = composite;
  const { budget } = position;
  const inside = { depth: position.depth + 1, budget };
  if (/^message\/(rfc822|global|partial)$/.test(type)) {
    // RFC 2046 §5.2.1 and RFC 6532 §3.7 forbid or allow an encoding here; senders apply one either way.
    const content = decodeTransfer(Buffer.concat(whole.body), encoding);
    return budget.parts > 0 ? [await readMessage(content, inside)] : [];
  }
  if (!type.startsWith("multipart/")) return [];
  // RFC 2046 §5.1.5: parts of a digest are messages unless they say otherwise.
  const defaultType = type === "multipart/digest" ? "message/rfc822" : "text/plain";
  const parts: MimePart[] = [];
  for (const part of whole.children.length > 0 ? whole.children : await splitAgain(whole, composite, budget.parts)) {
    if (budget.parts <= 0) break;
    parts.push(await partOf(part, defaultType, inside));
  }
  return parts;
}

/** The parts of a multipart whose boundary is not said, or said so that the splitter does not see it, or that is encoded. */
async function splitAgain(
  whole: SplitPart,
  { encoding, boundary }: Composite,
  mostParts: number,
): Promise<SplitPart[]> {
  const content = decodeTransfer(Buffer.concat(whole.body), encoding);
  const delimiter = boundary || sniffBoundary(content);
  if (!delimiter || !content.includes(`--${delimiter}`, 0, "latin1")) return [];
  const head = `Content-Type: multipart/mixed; boundary="${delimiter}"\n\n`;
  const root = await split(Buffer.concat([Buffer.from(head, "latin1"), content]), mostParts);
  return root?.children ?? [];
}

/** The boundary that a multipart without the parameter uses: its first line that starts with two hyphens. */
function sniffBoundary(content: Buffer): string | undefined {
  return /^--([\x21-\x7e]{1,70})\s*$/m.exec(content.subarray(0, 4096).toString("latin1"))?.[1];
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

/** @param most encoded octets that are looked at */
function decodeTransfer(body: Buffer, encoding: string, most = 2 * MIME_LIMITS.textOctets): Buffer {
  if (encoding === "base64") return Buffer.from(body.subarray(0, most).toString("latin1"), "base64");
  if (encoding === "quoted-printable") return decodeQuotedPrintable(body.subarray(0, most));
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

/** RFC 2046 §5.1.1: blanks behind a delimiter are padding, which the splitter does not know. */
function withBareDelimiters(source: Buffer): Buffer {
  const text = source.toString("latin1");
  const bare = text.replaceAll(PADDED, withoutPadding);
  return bare === text ? source : Buffer.from(bare, "latin1");
}

/** Linear: each line is gone through once forwards and at most once backwards. */
const PADDED = /^--[\x21-\x7e].*[ \t]$/gm;

/** Blanks that are taken off a delimiter at most, and what it may have before them: a boundary has up to 70 octets. */
const MOST_PADDING = 80;
const MOST_OF_DELIMITER = 83;

function withoutPadding(line: string): string {
  let end = line.length;
  while (end > line.length - MOST_PADDING && (line[end - 1] === " " || line[end - 1] === "\t")) end--;
  return end > MOST_OF_DELIMITER ? line : line.slice(0, end);
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

const EMPTY: MimePart = { type: "text/plain", parameters: new Map(), headers: [], children: [], text: "" };

const LF = 0x0a;
const CR = 0x0d;
