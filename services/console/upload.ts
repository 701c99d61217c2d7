import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { BROKEN_OFF } from "../platform/http/request-body.ts";

/** Read at a time: what is made of so much at once keeps everybody else waiting. */
const READ_OCTETS = 16 * 1024;

/** A request's body, kept on the disk until it is read. */
export interface Upload {
  readonly octets: number;
  /** Reads it from its beginning, once; what it took on the disk is free afterwards. */
  read(): Readable;
  /** Frees it unread. */
  discard(): Promise<void>;
}

/**
 * Takes the body of a request whole, however long it is, so that the work on it may outlast the request.
 * @returns refused where it is too large, or the client leaves in the middle
 * @param folder where it lies meanwhile, without a name: a crash leaves nothing behind
 */
export async function receiveUpload(
  incoming: Readable,
  folder: string,
  mostOctets: number,
): Promise<Result<Upload, Refusal>> {
  const file = await openNameless(folder);
  let octets = 0;
  try {
    // To its end, however long: a request that is left in the middle takes its connection with it.
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      octets += chunk.length;
      if (octets <= mostOctets) await file.appendFile(chunk);
    }
  } catch (error) {
    await file.close();
    if (incoming.errored) return BROKEN_OFF;
    throw error;
  }
  if (octets > mostOctets) {
    await file.close();
    return refuse({ kind: "too-large" });
  }
  return ok({
    octets,
    read: () => file.createReadStream({ start: 0, highWaterMark: READ_OCTETS }),
    discard: () => file.close(),
  });
}

async function openNameless(folder: string): Promise<FileHandle> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `${randomUUID()}.upload`);
  const file = await open(path, "wx+", 0o600);
  await unlink(path);
  return file;
}
