import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Counts } from "../../core/counts.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { FairTurns } from "../fair-turns.ts";
import { RawReply, type Sharer } from "./endpoint.ts";
import { SLICE_OCTETS } from "./sliced-response.ts";

/** What is no longer than this, in characters, is made and sent as one. */
const SMALL_CHARACTERS = 512 * 1024;

/** What a stream holds as long as its client reads: a connection to the database, all that it shows, or a page of it. */
type Held = "connection" | "memory" | "page";

/** So many streams at a time hold it; of connections a few are always left to everybody else. */
const MOST_STREAMS: Readonly<Record<Held, number>> = { connection: 6, memory: 6, page: 8 };

/** Streams of one caller at a time. */
const MOST_PER_CALLER = 2;
/** Streams at a time of callers that have a share together. */
const MOST_PER_GROUP = 3;
const RETRY_AFTER_SECONDS = 5;
/** So long a large reply waits for another's stream to end. */
const PATIENCE_MS = 5_000;
const LOOK_MS = 50;

/** A stream is cut then, however fast it is read; one that is read too slowly, sooner (`endSlowReaders`). */
const DEADLINE_MS = 300_000;

/** All that an instance ever sent is looked through for as long as that. */
const EXPORT_DEADLINE_MS = 1_800_000;

/** Whom a reply is for, and what it holds meanwhile. */
export interface StreamFor {
  readonly sharer: Sharer;
  readonly holds: Held;
}

/** The beginnings are made in turn: whoever asks for many at once has no more memory by it than by as many streams. */
const makeTurns = (holds: Held) =>
  new FairTurns({ atOnce: MOST_STREAMS[holds], perClient: MOST_PER_CALLER, perGroup: MOST_PER_GROUP });
const beginnings: Readonly<Record<Held, FairTurns>> = {
  connection: makeTurns("connection"),
  memory: makeTurns("memory"),
  page: makeTurns("page"),
};

/** Of a caller one looks for a place of a kind at a time: who has more that wait finds none sooner. */
const looking = new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 });

const streams: Record<Held, number> = { connection: 0, memory: 0, page: 0 };
const streamsOf = new Counts<string>();
const streamsOfGroup = new Counts<string>();

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
  let isLarge = false;
  const begin = async () => {
    const refusal = isLarge ? refusalOf(whose) : undefined;
    return refusal ? refuse(refusal) : beginReply(contentType, makePieces(), whose, { smallCharacters, deadlineMs });
  };
  for (const endsAtMs = performance.now() + patienceMs; ; isLarge = true) {
    const reply = await beginnings[holds].run(sharer.key, begin, sharer.group);
    // Who is not to wait does not wait for its turn to look either.
    if (reply.ok || performance.now() >= endsAtMs) return reply;
    const hasPlace = await looking.run(`${holds} ${sharer.key}`, () => hasPlaceBefore(endsAtMs, whose));
    if (!hasPlace) return reply;
  }
}

async function hasPlaceBefore(endsAtMs: number, whose: StreamFor): Promise<boolean> {
  do {
    if (performance.now() >= endsAtMs) return false;
    await sleep(LOOK_MS);
  } while (refusalOf(whose));
  return true;
}

async function beginReply(
  contentType: string,
  pieces: AsyncGenerator<string>,
  whose: StreamFor,
  { smallCharacters, deadlineMs }: { readonly smallCharacters: number; readonly deadlineMs: number },
): Promise<Result<RawReply | undefined, Refusal>> {
  let begun: string | undefined;
  while (begun === undefined || begun.length <= smallCharacters) {
    const piece = await pieces.next();
    if (piece.done) return ok(begun === undefined ? undefined : new RawReply(contentType, begun));
    begun = (begun ?? "") + piece.value;
  }
  const refusal = refusalOf(whose);
  if (!refusal) return ok(new RawReply(contentType, readableOf(begun, pieces, whose, deadlineMs)));
  await pieces.return(undefined);
  return refuse(refusal);
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
  const whose: StreamFor = { sharer: { key, group: key }, holds: "page" };
  const refusal = refusalOf(whose);
  if (refusal) return refuse(refusal);
  const gone = new AbortController();
  const pieces = makePieces(gone.signal);
  const making: Making = {
    next: () => pieces.next(),
    return: () => {
      gone.abort();
      return pieces.return(undefined);
    },
  };
  const body = readableOf("", making, whose, deadlineMs);
  const disposition = `attachment; filename="${name.replaceAll(/[^\w.-]/g, "_")}.csv"`;
  return ok(new RawReply("text/csv; charset=utf-8", body, 200, { "Content-Disposition": disposition }));
}

function refusalOf({ sharer, holds }: StreamFor): Refusal | undefined {
  if (streamsOf.of(sharer.key) >= MOST_PER_CALLER || streamsOfGroup.of(sharer.group) >= MOST_PER_GROUP) {
    return { kind: "rate-limited", retryAfterSeconds: RETRY_AFTER_SECONDS };
  }
  return streams[holds] >= MOST_STREAMS[holds] ? { kind: "unavailable" } : undefined;
}

function count({ sharer, holds }: StreamFor, more: 1 | -1): void {
  streams[holds] += more;
  streamsOf.add(sharer.key, more);
  streamsOfGroup.add(sharer.group, more);
}

type Making = Pick<AsyncGenerator<string>, "next" | "return">;

/** Unlike `Readable.from`, it ends the making even when nothing was ever read. Its place is free when that has ended. */
function readableOf(begun: string, pieces: Making, whose: StreamFor, deadlineMs: number): Readable {
  count(whose, 1);
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
        .finally(() => count(whose, -1))
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
