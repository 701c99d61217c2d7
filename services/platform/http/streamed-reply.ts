import { Readable } from "node:stream";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { RawReply } from "./endpoint.ts";

/** What is no longer than this, in characters, is made and sent as one. */
const SMALL_CHARACTERS = 512 * 1024;

/** Octets that are handed on at a time: what the client has not taken stays countable. */
const SLICE_OCTETS = 16 * 1024;

/** What a stream holds as long as its client reads: a connection to the database, or what it shows. */
type Held = "connection" | "memory";

/** So many streams at a time hold it; of connections a few are always left to everybody else. */
const MOST_STREAMS: Readonly<Record<Held, number>> = { connection: 6, memory: 6 };

/** Of these, so many of one caller. */
const MOST_PER_CALLER = 2;
const RETRY_AFTER_SECONDS = 5;

/** How fast a client has to read. */
interface Pace {
  /** How many octets it takes in that time at least, in ms. */
  readonly leastOctets: number;
  readonly everyMs: number;
  /** The stream is cut then, however fast it is read. */
  readonly deadlineMs: number;
}

const PACE: Pace = { leastOctets: 128 * 1024, everyMs: 60_000, deadlineMs: 300_000 };

/** Whom a reply is for, and what it holds meanwhile. */
export interface StreamFor {
  /** Who a caller's streams are counted by. */
  readonly callerKey: string;
  readonly holds: Held;
}

const streams: Record<Held, number> = { connection: 0, memory: 0 };
const streamsOf = new Map<string, number>();

/**
 * A reply out of pieces. A small one is sent as one; of a large one, the rest is made as the client reads. It begins only
 * when some of it is there, so that what fails before still gives a proper refusal.
 * @param pieces is ended whatever becomes of the client
 * @returns undefined when there is no piece at all; refused while the caller, or all together, have too many streams
 */
export async function streamedReply(
  contentType: string,
  pieces: AsyncGenerator<string>,
  whose: StreamFor,
  { smallCharacters = SMALL_CHARACTERS, pace = PACE } = {},
): Promise<Result<RawReply | undefined, Refusal>> {
  let begun: string | undefined;
  while (begun === undefined || begun.length <= smallCharacters) {
    const piece = await pieces.next();
    if (piece.done) return ok(begun === undefined ? undefined : new RawReply(contentType, begun));
    begun = (begun ?? "") + piece.value;
  }
  const refusal = refusalOf(whose);
  if (refusal) {
    await pieces.return(undefined);
    return refuse(refusal);
  }
  return ok(new RawReply(contentType, readableOf(begun, pieces, whose, pace)));
}

function refusalOf({ callerKey, holds }: StreamFor): Refusal | undefined {
  if ((streamsOf.get(callerKey) ?? 0) >= MOST_PER_CALLER) {
    return { kind: "rate-limited", retryAfterSeconds: RETRY_AFTER_SECONDS };
  }
  return streams[holds] >= MOST_STREAMS[holds] ? { kind: "unavailable" } : undefined;
}

function count({ callerKey, holds }: StreamFor, more: 1 | -1): void {
  streams[holds] += more;
  const left = (streamsOf.get(callerKey) ?? 0) + more;
  if (left === 0) streamsOf.delete(callerKey);
  else streamsOf.set(callerKey, left);
}

/** Unlike `Readable.from`, it ends the generator, which has begun, even when nothing was ever read. */
function readableOf(begun: string, pieces: AsyncGenerator<string>, whose: StreamFor, pace: Pace): Readable {
  count(whose, 1);
  let ready = Buffer.from(begun);
  let taken = 0;
  const cut = (why: string) => readable.destroy(new Error(why));
  const deadline = setTimeout(() => cut("the client reads for too long"), pace.deadlineMs).unref();
  const pacing = setInterval(() => {
    if (taken < pace.leastOctets) cut("the client reads no more, or too slowly");
    taken = 0;
  }, pace.everyMs).unref();
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
      clearInterval(pacing);
      count(whose, -1);
      pieces.return(undefined).then(
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
    taken += slice.length;
    return slice;
  }
}
