import { Readable } from "node:stream";
import { Counts } from "../core/counts.ts";
import { invalidField, type Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { FullEvents, FullToldJson } from "../operations/mail/told-events.ts";
import type { Clock } from "../platform/clock.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { Instance } from "../store/mail/instances/instances.ts";
import { type FeedSelection, findFirstPosition, keepForStreams, readFeed } from "../store/mail/tracking/event-feed.ts";
import { FeedWatches, type Watching } from "./feed-watches.ts";

interface EventStreamOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  readonly fullEvents: FullEvents;
}

/** How streams are bounded. */
export interface StreamLimits {
  /** Of this process, and of one instance at it. */
  readonly most: number;
  readonly mostOfInstance: number;
  /** Octets that wait for a reader, beside what the system's buffers hold. */
  readonly waitingOctets: number;
  /** A reader that takes nothing for so long, though something waits for it, is cut off; it resumes by the last id. */
  readonly unreadMs: number;
  /** A sign of life where nothing happens. */
  readonly heartbeatMs: number;
  /** A stream ends after so long, and is resumed by its reader: a key that was taken back ends it then at the latest. */
  readonly lifeMs: number;
}

const LIMITS: StreamLimits = {
  most: 200,
  mostOfInstance: 4,
  waitingOctets: 64 * 1024,
  unreadMs: 30_000,
  heartbeatMs: 15_000,
  lifeMs: 15 * 60_000,
};
const EVENTS_PER_READ = 100;
const RETRY_MS = 3_000;
const KEEP_EVERY_MS = 600_000;

/** From where and what a reader wants. */
export interface StreamRequest extends FeedSelection {
  /** The last place that it has, and the field that says so; undefined: what happens from now on. */
  readonly after: { readonly place: number; readonly field: string } | undefined;
}

/** Events of instances as Server-Sent Events (WHATWG HTML §9.2), each with its place in the instance's order as its id. */
export class EventStreams {
  readonly #options: EventStreamOptions;
  readonly #limits: StreamLimits;
  readonly #watches: FeedWatches;
  readonly #open = new Set<Readable>();
  /** Those that are being opened included. */
  #openOrOpening = 0;
  readonly #openOf = new Counts<number>();

  constructor(options: EventStreamOptions, limits: Partial<StreamLimits> = {}) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...limits };
    this.#watches = new FeedWatches(options.db);
  }

  /** Opens a stream; refused while there are too many, and from a place that was never given. */
  async open(instance: Instance, { after, ...selection }: StreamRequest): Promise<Result<Readable, Refusal>> {
    const refusal = this.#refusalOf(instance.id);
    if (refusal) return refuse(refusal);
    this.#count(instance.id, 1);
    try {
      await keepForStreams(this.#options.db, instance.id);
      const watching = await this.#watches.watch(instance.id);
      if (after !== undefined && after.place > watching.position) {
        watching.end();
        this.#count(instance.id, -1);
        return refuse(invalidField(after.field, "no-event-id"));
      }
      return ok(this.#readableOf(instance, { after: after?.place ?? watching.position, ...selection }, watching));
    } catch (error) {
      this.#count(instance.id, -1);
      throw error;
    }
  }

  /** Ends all streams: their readers resume elsewhere, or later. */
  async stop(): Promise<void> {
    for (const readable of this.#open) readable.destroy();
    await this.#watches.stop();
  }

  #count(instanceId: number, more: 1 | -1): void {
    this.#openOrOpening += more;
    this.#openOf.add(instanceId, more);
  }

  #refusalOf(instanceId: number): Refusal | undefined {
    const { most, mostOfInstance } = this.#limits;
    if (this.#openOf.of(instanceId) >= mostOfInstance) {
      return { kind: "rate-limited", retryAfterSeconds: RETRY_MS / 1_000 };
    }
    return this.#openOrOpening >= most ? { kind: "unavailable" } : undefined;
  }

  #readableOf(instance: Instance, from: FeedSelection & { readonly after: number }, watching: Watching): Readable {
    const { observe } = this.#options;
    const { waitingOctets, unreadMs, lifeMs } = this.#limits;
    const ending = new AbortController();
    let why: StreamEnd = "reader";
    let wanted: (() => void) | undefined;
    const life = setTimeout(() => ending.abort(), lifeMs).unref();
    const readable = new Readable({
      highWaterMark: waitingOctets,
      read: () => wanted?.(),
      destroy: (error, done) => {
        clearTimeout(life);
        ending.abort();
        wanted?.();
        watching.end();
        this.#open.delete(readable);
        this.#count(instance.id, -1);
        observe({ kind: "event-stream-ended", instanceId: instance.id, why });
        done(error);
      },
    });
    this.#open.add(readable);
    observe({ kind: "event-stream-opened", instanceId: instance.id });
    const room = () =>
      new Promise<void>((resolve) => {
        const cut = setTimeout(() => {
          why = "slow";
          readable.destroy();
        }, unreadMs).unref();
        wanted = () => {
          clearTimeout(cut);
          wanted = undefined;
          resolve();
        };
      });
    const pump = async () => {
      for await (const frames of this.#frames(instance, from, watching, ending.signal)) {
        if (readable.destroyed) return;
        if (!readable.push(frames)) await room();
      }
      why = "life";
      readable.push(null);
    };
    pump().catch((error: unknown) => {
      why = "failure";
      readable.destroy(error as Error);
    });
    return readable;
  }

  async *#frames(
    instance: Instance,
    { after, ...selection }: FeedSelection & { readonly after: number },
    watching: Watching,
    signal: AbortSignal,
  ): AsyncGenerator<string> {
    const { db, clock, fullEvents } = this.#options;
    yield `retry: ${RETRY_MS}\nid: ${after}\n\n`;
    let through = after;
    const first = await findFirstPosition(db, instance.id);
    const missed = Math.min(first ?? watching.position + 1, watching.position + 1) - 1;
    if (missed > through) {
      // Longer ago than events are kept.
      yield `id: ${missed}\nevent: hueco\ndata: ${JSON.stringify({ desde: through + 1, hasta: missed })}\n\n`;
      through = missed;
    }
    let keptAtMs = clock.nowMs();
    while (!signal.aborted) {
      if (clock.nowMs() - keptAtMs > KEEP_EVERY_MS) {
        await keepForStreams(db, instance.id);
        keptAtMs = clock.nowMs();
      }
      const now = new Date(clock.nowMs());
      const page = await readFeed(db, instance.id, selection, { after: through, most: EVENTS_PER_READ, now });
      const events = await fullEvents.toJson(db, instance, page.events);
      if (events.length > 0) yield events.map(frameOf).join("");
      const isAtEnd = page.through === through;
      through = page.through;
      // The id goes on where nothing was for this reader as well: it need not look through that again.
      if (isAtEnd && !(await watching.waitBeyond(through, this.#limits.heartbeatMs, signal)) && !signal.aborted) {
        yield `:\nid: ${through}\n\n`;
      }
    }
  }
}

/** Why a stream ended: its reader went, or read too slowly; its time was over; or the database was away. */
type StreamEnd = "reader" | "slow" | "life" | "failure";

function frameOf(event: FullToldJson): string {
  return `id: ${event.id}\nevent: ${event.evento}\ndata: ${JSON.stringify(event)}\n\n`;
}
