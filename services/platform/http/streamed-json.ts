import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { RawReply, Sharer } from "./endpoint.ts";
import type { StreamFor } from "./stream-places.ts";
import { streamedReply } from "./streamed-reply.ts";

/** JSON that is made as it is read. @param write makes texts of it; one at least */
export async function replyJson(
  write: () => AsyncIterable<string>,
  sharer: Sharer,
  holds: StreamFor["holds"] = "page",
): Promise<Result<RawReply, Refusal>> {
  const reply = await streamedReply("application/json", () => inPieces(write()), { sharer, holds });
  return reply.ok ? ok(reply.value as RawReply) : reply;
}

/** The reply `{"<name>":[…]}`. @param readPages of items */
export function replyItems<T>(
  name: string,
  readPages: () => AsyncIterable<readonly T[]>,
  toJson: (item: T) => unknown,
  whose: StreamFor,
): Promise<Result<RawReply, Refusal>> {
  return replyJson(() => writeList("{", name, readPages(), toJson), whose.sharer, whose.holds);
}

/** The reply `{"status":"ok","<name>":[…]}`. @param readPages of items */
export function replyList<T>(
  name: string,
  readPages: () => AsyncIterable<readonly T[]>,
  toJson: (item: T) => unknown,
  whose: StreamFor,
): Promise<Result<RawReply, Refusal>> {
  return replyJson(() => writeList('{"status":"ok",', name, readPages(), toJson), whose.sharer, whose.holds);
}

async function* writeList<T>(
  start: string,
  name: string,
  pages: AsyncIterable<readonly T[]>,
  toJson: (item: T) => unknown,
): AsyncGenerator<string> {
  yield start;
  yield* jsonList(name, pages, toJson);
  yield "}";
}

type Pages<T> = AsyncIterable<readonly T[]> | Iterable<readonly T[]>;

/** A list as a member of a JSON object. @param pages of its items */
export async function* jsonList<T>(
  name: string,
  pages: Pages<T>,
  toJson: (item: T) => unknown,
): AsyncGenerator<string> {
  yield `"${name}":`;
  yield* jsonArray(pages, toJson);
}

/** A JSON array. @param pages of its items */
export async function* jsonArray<T>(pages: Pages<T>, toJson: (item: T) => unknown): AsyncGenerator<string> {
  yield "[";
  let separator = "";
  for await (const page of pages) {
    for (const item of page) {
      yield separator + JSON.stringify(toJson(item));
      separator = ",";
    }
  }
  yield "]";
}

/** Of one piece, about. */
const PIECE_CHARACTERS = 64 * 1024;

/** Pieces of some length, out of many short texts. */
async function* inPieces(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let piece = "";
  for await (const text of texts) {
    piece += text;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}
