import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

const MALFORMED: Refusal = { kind: "malformed-json" };

/** A JSON body: an object or an array, UTF-8 (RFC 8259 §8.1); none at all counts as an empty object. */
export function parseJsonBody(body: Buffer): Result<unknown, Refusal> {
  if (body.length === 0) return ok({});
  return isUtf8(body) ? parseJson(body.toString("utf8").replace(/^\ufeff/, "")) : refuse(MALFORMED);
}

/** A body of text, which must be UTF-8. */
export function parseTextBody(body: Buffer): Result<string, Refusal> {
  return isUtf8(body) ? ok(body.toString("utf8")) : refuse(invalidField("body", "not-utf8"));
}

function parseJson(text: string): Result<unknown, Refusal> {
  if (!/^\s*[[{]/.test(text)) return refuse(MALFORMED);
  try {
    return ok(JSON.parse(text));
  } catch {
    return refuse(MALFORMED);
  }
}

/**
 * Reads a body whole.
 * @param limitOctets what it may have, decompressed
 */
export async function readBody(request: IncomingMessage, limitOctets: number): Promise<Result<Buffer, Refusal>> {
  // Gone while its credentials were looked up, or it waited for its turn: nothing more would come, nor its end be told.
  if (request.destroyed) return refuse(MALFORMED);
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > limitOctets) return refuse({ kind: "too-large" });
  const decompress = DECOMPRESSORS.get(request.headers["content-encoding"]?.toLowerCase() ?? "identity");
  if (decompress === undefined) return refuse(MALFORMED);
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
