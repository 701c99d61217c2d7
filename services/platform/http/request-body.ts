import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { MOST_VALUES } from "./fields.ts";

const MALFORMED: Refusal = { kind: "malformed-json" };

/** To whoever has gone already: nothing comes of such a request any more, not even its end. */
export const BROKEN_OFF = refuse(MALFORMED);

/** Of what an operation reads itself, nothing. */
export function unreadBody(request: IncomingMessage): Result<Buffer, Refusal> {
  return request.destroyed ? BROKEN_OFF : ok(Buffer.alloc(0));
}

/** A JSON body: an object or an array, UTF-8 (RFC 8259 §8.1); none at all counts as an empty object. */
export function parseJsonBody(body: Buffer): Result<unknown, Refusal> {
  if (body.length === 0) return ok({});
  return isUtf8(body) ? parseJson(body.toString("utf8").replace(/^\ufeff/, "")) : refuse(MALFORMED);
}

/** JSON: an object or an array, and no more of both and of values than anybody asks for. */
export function parseJson(text: string): Result<unknown, Refusal> {
  if (!/^\s*[[{]/.test(text)) return refuse(MALFORMED);
  if (isCrowded(text)) return refuse({ kind: "too-large" });
  try {
    return ok(JSON.parse(text));
  } catch {
    return refuse(MALFORMED);
  }
}

/** A value adds a comma or a bracket to a text, and one more bracket where it is empty. */
const MOST_MARKS = 2 * MOST_VALUES;
/** Different names of members: each one costs the parser ten times what one that it knows costs, and nobody has so many fields. */
const MOST_NAMES = 10_000;
/** A name with quotes, a colon, a value and a comma. */
const LEAST_MEMBER_CHARACTERS = 5;
const [QUOTE, COLON, BACKSLASH, COMMA, BRACKET, BRACE] = [0x22, 0x3a, 0x5c, 0x2c, 0x5b, 0x7b];

/**
 * Whether JSON holds far more values, or names, than are looked at. They are counted in the text: in a few octets stand so many
 * that parsing them alone takes seconds, or fills the memory.
 */
function isCrowded(text: string): boolean {
  if (text.length <= LEAST_MEMBER_CHARACTERS * MOST_NAMES) return false;
  const names = new Set<string>();
  let marks = 0;
  let isInText = false;
  let [openedAt, closedAt] = [0, 0];
  for (let at = 0; at < text.length && marks <= MOST_MARKS; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      isInText = !isInText;
      if (isInText) openedAt = at;
      else closedAt = at;
    } else if (isInText) at += code === BACKSLASH ? 1 : 0;
    else if (code === COLON) {
      if (names.add(text.slice(openedAt, closedAt)).size > MOST_NAMES) return true;
    } else if (code === COMMA || code === BRACKET || code === BRACE) marks += 1;
  }
  return marks > MOST_MARKS;
}

/** A body of text, which must be UTF-8. */
export function parseTextBody(body: Buffer): Result<string, Refusal> {
  return isUtf8(body) ? ok(body.toString("utf8")) : refuse(invalidField("body", "not-utf8"));
}

/**
 * Reads a body whole.
 * @param limitOctets what it may have, decompressed
 */
export async function readBody(request: IncomingMessage, limitOctets: number): Promise<Result<Buffer, Refusal>> {
  if (request.destroyed) return BROKEN_OFF;
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > limitOctets) return refuse({ kind: "too-large" });
  const coding = request.headers["content-encoding"]?.toLowerCase() || "identity";
  // RFC 9110 §8.4.1.3
  const decompress = DECOMPRESSORS.get(coding === "x-gzip" ? "gzip" : coding);
  if (decompress === undefined) return refuse({ kind: "unknown-coding", known: [...DECOMPRESSORS.keys()] });
  return collect(request, decompress(request), limitOctets);
}

const DECOMPRESSORS: ReadonlyMap<string, (request: IncomingMessage) => Readable> = new Map([
  ["identity", (request: IncomingMessage): Readable => request],
  ["gzip", (request) => decompressed(request, createGunzip())],
  ["deflate", (request) => decompressed(request, createInflate())],
  ["br", (request) => decompressed(request, createBrotliDecompress())],
]);

function decompressed<Decompressor extends NodeJS.WritableStream & Readable>(
  request: IncomingMessage,
  decompressor: Decompressor,
): Readable {
  // What the client breaks off would never end.
  request.once("close", () => {
    if (!request.complete) decompressor.destroy();
  });
  return request.pipe(decompressor);
}

/** The whole of a stream; what the client sends beyond the limit is thrown away as it is, not decompressed. */
function collect(request: IncomingMessage, stream: Readable, limitOctets: number): Promise<Result<Buffer, Refusal>> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let octets = 0;
    stream.on("data", (chunk: Buffer) => {
      octets += chunk.length;
      if (octets <= limitOctets) chunks.push(chunk);
      else {
        chunks.length = 0;
        resolve(refuse({ kind: "too-large" }));
        if (stream === request) return;
        request.unpipe();
        request.resume();
        stream.destroy();
      }
    });
    stream.once("end", () => resolve(ok(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))));
    // Whatever the client did: it broke off, or its body is not what its Content-Encoding says.
    stream.once("error", () => resolve(refuse(MALFORMED)));
    stream.once("close", () => resolve(refuse(MALFORMED)));
  });
}
