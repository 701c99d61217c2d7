import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../platform/postgres/db.ts";
import { placeEvents } from "../store/mail/tracking/event-feed.ts";

const LOOK_EVERY_MS = 500;
/** As for webhooks: what happened before an event is stored by then, whichever worker stores it. */
const SETTLE_SECONDS = 1;

/** Somebody who waits for an instance's events. */
export interface Watching {
  /** The last place that was given, when it was last looked. */
  readonly position: number;
  /** Waits until there is something behind a place. @returns false where there was nothing for so long, or the signal came */
  waitBeyond(place: number, mostMs: number, signal: AbortSignal): Promise<boolean>;
  end(): void;
}

/** What all readers of one instance's stream share: one look at its feed at a time, however many they are. */
interface Feed {
  position: number;
  readers: number;
  /** Called when the position is another, or cannot be told. */
  readonly waiting: Set<() => void>;
  failure: unknown;
}

/** Looks after the feeds of those instances that somebody reads. */
export class FeedWatches {
  readonly #db: Db;
  readonly #feeds = new Map<number, Feed>();
  readonly #loops = new Set<Promise<void>>();

  constructor(db: Db) {
    this.#db = db;
  }

  async watch(instanceId: number): Promise<Watching> {
    const position = await placeEvents(this.#db, instanceId, SETTLE_SECONDS);
    const feed = this.#feeds.get(instanceId) ?? this.#begin(instanceId, position);
    feed.readers += 1;
    advance(feed, Math.max(feed.position, position));
    let ended = false;
    return {
      get position() {
        return feed.position;
      },
      waitBeyond: (place, mostMs, signal) => waitFor(feed, place, mostMs, signal),
      end: () => {
        if (!ended) feed.readers -= 1;
        ended = true;
      },
    };
  }

  /** Ends when the readers have. */
  async stop(): Promise<void> {
    await Promise.all(this.#loops);
  }

  #begin(instanceId: number, position: number): Feed {
    const feed: Feed = { position, readers: 0, waiting: new Set(), failure: undefined };
    this.#feeds.set(instanceId, feed);
    const loop = this.#look(instanceId, feed).finally(() => this.#loops.delete(loop));
    this.#loops.add(loop);
    return feed;
  }

  async #look(instanceId: number, feed: Feed): Promise<void> {
    // The first reader is counted after this.
    await sleep(LOOK_EVERY_MS);
    while (feed.readers > 0) {
      try {
        advance(feed, await placeEvents(this.#db, instanceId, SETTLE_SECONDS));
      } catch (error) {
        // Its readers end with it, and come again.
        feed.failure = error;
        wake(feed);
        break;
      }
      await sleep(LOOK_EVERY_MS);
    }
    this.#feeds.delete(instanceId);
  }
}

/** Notes the last place that was given, whoever gave it, and tells those who wait. */
function advance(feed: Feed, position: number): void {
  if (position === feed.position) return;
  feed.position = position;
  wake(feed);
}

function wake(feed: Feed): void {
  for (const proceed of [...feed.waiting]) proceed();
}

async function waitFor(feed: Feed, place: number, mostMs: number, signal: AbortSignal): Promise<boolean> {
  if (feed.position <= place && feed.failure === undefined && !signal.aborted) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(end, mostMs).unref();
      signal.addEventListener("abort", end, { once: true });
      feed.waiting.add(end);
      function end(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        feed.waiting.delete(end);
        resolve();
      }
    });
  }
  if (feed.failure !== undefined) throw feed.failure;
  return feed.position > place;
}
