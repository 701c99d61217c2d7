import { Readable } from "node:stream";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import { FairTurns } from "../fair-turns.ts";
import { RawReply } from "./endpoint.ts";
import { SLICE_OCTETS } from "./sliced-response.ts";
import {
  type Held,
  type LeavePlace,
  MOST_PER_CALLER,
  MOST_PER_GROUP,
  MOST_STREAMS,
  type StreamFor,
  StreamPlaces,
} from "./stream-places.ts";

/** What is no longer than this, in characters, is made and sent as one. */
const SMALL_CHARACTERS = 512 * 1024;

/** So long a large reply waits for another's stream to end. */
const PATIENCE_MS = 5_000;

/** A stream is cut then, however fast it is read; one that is read too slowly, sooner (`endSlowReaders`). */
const DEADLINE_MS = 300_000;

/** All that an instance ever sent is looked through for as long as that. */
const EXPORT_DEADLINE_MS = 1_800_000;

/** The beginnings are made in turn: whoever asks for many at once has no more memory by it than by as many streams. */
const makeTurns = (holds: Held) =>
  new FairTurns({ atOnce: MOST_STREAMS[holds], perClient: MOST_PER_CALLER, perGroup: MOST_PER_GROUP });
const beginnings: Readonly<Record<Held, FairTurns>> = {
  connection: makeTurns("connection"),
  memory: makeTurns("memory"),
  page: makeTurns("page"),
  counts: makeTurns("counts"),
};

const places = new StreamPlaces();

/** Of a caller one waits for a place of a kind at a time: who has more that wait finds none sooner. */
const waiting = new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 });

/**
 * A reply out of pieces. A small one is sent as one; of a large one, the rest is made as the client reads. It begins only
 * when some of it is there, so that what fails before still gives a proper refusal; until then others of the caller wait.
 * A large one that finds no place is ended, waits with nothing in hand, and is begun anew.
 * @param makePieces what it makes is ended whatever becomes of the client
 * @returns undefined when there is no piece at all; refused while the caller, or all together, have too many streams, and
 * none of them ends soon
 */
export async function streamedReply(
  contentType: string,
  makePieces: () => AsyncGenerator<string>,
  whose: StreamFor,
  { smallCharacters = SMALL_CHARACTERS, deadlineMs = DEADLINE_MS, patienceMs = PATIENCE_MS } = {},
): Promise<Result<RawReply | undefined, Refusal>> {
  const { sharer, holds } = whose;
  const endsAtMs = performance.now() + patienceMs;
  const begin = (takePlace: TakePlace) =>
    beginnings[holds].run(
      sharer.key,
      () => beginReply(contentType, makePieces(), takePlace, { smallCharacters, deadlineMs }),
      sharer.group,
    );
  const reply = await begin(() => places.take(whose));
  // Who is not to wait does not wait for its turn to wait either.
  if (reply.ok || performance.now() >= endsAtMs) return reply;
  const leave = await waiting.run(`${holds} ${sharer.key}`, () => places.takeBefore(endsAtMs, whose));
  return leave ? withPlace(leave, begin) : reply;
}

type TakePlace = () => Result<LeavePlace, Refusal>;

/** Gives the place back when the reply, of which it turns out that it is small or fails, does not take it. */
async function withPlace<T>(leave: LeavePlace, begin: (takePlace: TakePlace) => Promise<T>): Promise<T> {
  let isTaken = false;
  try {
    return await begin(() => {
      isTaken = true;
      return ok(leave);
    });
  } finally {
    if (!isTaken) leave();
  }
}

async function beginReply(
  contentType: string,
  pieces: AsyncGenerator<string>,
  takePlace: TakePlace,
  { smallCharacters, deadlineMs }: { readonly smallCharacters: number; readonly deadlineMs: number },
): Promise<Result<RawReply | undefined, Refusal>> {
  let begun: string | undefined;
  while (begun === undefined || begun.length <= smallCharacters) {
    const piece = await pieces.next();
    if (piece.done) return ok(begun === undefined ? undefined : new RawReply(contentType, begun));
    begun = (begun ?? "") + piece.value;
  }
  const place = takePlace();
  if (place.ok) return ok(new RawReply(contentType, readableOf(begun, pieces, place.value, deadlineMs)));
  await pieces.return(undefined);
  return place;
}

/**
 * A CSV file that may take long to make, whatever its length: it is counted from the beginning, and nothing of it is made
 * before somebody reads, so nothing for a HEAD. It is made page by page, and holds a page.
 * @param name of the file, without its ending
 * @param makePieces ends soon after the signal, which comes when the client has gone
 * @param key who it is counted by
 * @returns refused while the caller, or all together, have too many streams
 */
export function exportReply(
  name: string,
  makePieces: (signal: AbortSignal) => AsyncGenerator<string>,
  key: string,
  deadlineMs = EXPORT_DEADLINE_MS,
): Result<RawReply, Refusal> {
  const place = places.take({ sharer: { key, group: key }, holds: "page" });
  if (!place.ok) return place;
  const gone = new AbortController();
  const pieces = makePieces(gone.signal);
  const making: Making = {
    next: () => pieces.next(),
    return: () => {
      gone.abort();
      return pieces.return(undefined);
    },
  };
  const body = readableOf("", making, place.value, deadlineMs);
  const disposition = `attachment; filename="${name.replaceAll(/[^\w.-]/g, "_")}.csv"`;
  return ok(new RawReply("text/csv; charset=utf-8", body, 200, { "Content-Disposition": disposition }));
}

type Making = Pick<AsyncGenerator<string>, "next" | "return">;

/** Unlike `Readable.from`, it ends the making even when nothing was ever read. Its place is free when that has ended. */
function readableOf(begun: string, pieces: Making, leave: LeavePlace, deadlineMs: number): Readable {
  let ready = Buffer.from(begun);
  const cut = () => readable.destroy(new Error("the client reads for too long"));
  const deadline = setTimeout(cut, deadlineMs).unref();
  const readable = new Readable({
    highWaterMark: SLICE_OCTETS,
    read() {
      take().then(
        (slice) => this.push(slice),
        (error) => this.destroy(error),
      );
    },
    destroy(error, done) {
      clearTimeout(deadline);
      pieces
        .return(undefined)
        .finally(leave)
        .then(
          () => done(error),
          (failed) => done(error ?? failed),
        );
    },
  });
  return readable;

  async function take(): Promise<Buffer | null> {
    while (ready.length === 0) {
      const piece = await pieces.next();
      if (piece.done) return null;
      ready = Buffer.from(piece.value);
    }
    const slice = ready.subarray(0, SLICE_OCTETS);
    ready = ready.subarray(SLICE_OCTETS);
    return slice;
  }
}
