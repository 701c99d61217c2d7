import { Readable } from "node:stream";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { RawReply } from "./endpoint.ts";

/** A client that reads nothing for so long gets no more: what it is sent from is held meanwhile. */
const STALLED_MS = 60_000;

/** So many streams at a time: each holds a connection to the database, and as long as its client likes. */
const MOST_STREAMS = 4;
let streams = 0;

/** What is no longer than this, in characters, is made and sent as one. */
const SMALL_CHARACTERS = 512 * 1024;

/**
 * A reply out of pieces. A small one is sent as one; of a large one, the rest is made as the client reads. It begins only
 * when some of it is there, so that what fails before still gives a proper refusal.
 * @param pieces is ended whatever becomes of the client
 * @returns undefined when there is no piece at all; refused while too many clients are being streamed to
 */
export async function streamedReply(
  contentType: string,
  pieces: AsyncGenerator<string>,
  { smallCharacters = SMALL_CHARACTERS, stalledMs = STALLED_MS } = {},
): Promise<Result<RawReply | undefined, Refusal>> {
  let begun: string | undefined;
  while (begun === undefined || begun.length <= smallCharacters) {
    const piece = await pieces.next();
    if (piece.done) return ok(begun === undefined ? undefined : new RawReply(contentType, begun));
    begun = (begun ?? "") + piece.value;
  }
  if (streams >= MOST_STREAMS) {
    await pieces.return(undefined);
    return refuse({ kind: "unavailable" });
  }
  return ok(new RawReply(contentType, readableOf(begun, pieces, stalledMs)));
}

/** Unlike `Readable.from`, it ends the generator, which has begun, even when nothing was ever read. */
function readableOf(begun: string, pieces: AsyncGenerator<string>, stalledMs: number): Readable {
  streams += 1;
  const stalled = setTimeout(() => readable.destroy(new Error("the client reads no more")), stalledMs).unref();
  let next: string | undefined = begun;
  const readable = new Readable({
    encoding: "utf8",
    read() {
      stalled.refresh();
      const piece = next === undefined ? pieces.next() : Promise.resolve({ done: false, value: next });
      next = undefined;
      piece.then(
        ({ done, value }) => this.push(done ? null : value),
        (error) => this.destroy(error),
      );
    },
    destroy(error, done) {
      clearTimeout(stalled);
      streams -= 1;
      pieces.return(undefined).then(
        () => done(error),
        (failed) => done(error ?? failed),
      );
    },
  });
  return readable;
}
