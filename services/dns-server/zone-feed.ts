import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Observe } from "../platform/observation.ts";
import { inSnapshot, readChangedZones, readDeletedZones, type ZoneState } from "../store/published-zones.ts";
import { ZONES_CHANNEL } from "../store/zone-notices.ts";
import type { PictureWriter } from "./picture/writer.ts";
import { ZonePublisher } from "./zone-publisher.ts";

/** A poll each second makes sure; notices only hasten it. */
const POLL_MS = 1_000;
/** Waits between attempts to reach the database. */
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
/** Nodes taken apart at a time, so that TCP clients on this thread hardly notice. */
const COLLECT_NODES = 2_000;

export interface ZoneFeedOptions {
  readonly writer: PictureWriter;
  readonly openConnection: () => Promise<pg.Client>;
  /** Told of zones whose new version is answered from now on; after a start, of all of them. */
  readonly onPublished: (zones: readonly ZoneState[]) => void;
  readonly observe: Observe;
}

/**
 * Keeps the picture as the database has it. While the database is away the last picture goes on answering.
 * One connection does it all: it listens, polls and loads.
 */
export class ZoneFeed {
  readonly #options: ZoneFeedOptions;
  readonly #publisher: ZonePublisher;
  readonly #stopping = new AbortController();
  /** Where the next reading begins; null while nothing has been read on this connection. */
  #sinceXid: string | null = null;
  #wake: () => void = () => {};
  #woken = false;
  #running: Promise<void> = Promise.resolve();
  #collecting: Promise<void> | undefined;

  constructor(options: ZoneFeedOptions) {
    this.#options = options;
    this.#publisher = new ZonePublisher(options.writer);
  }

  /** Starts following the database; resolves when the first attempt to load the zones has ended, well or not. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#running = this.#run(resolve);
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#running;
    await this.#collecting;
  }

  async #run(onFirstAttempt: () => void): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#followUntilLost(() => {
          retryMs = FIRST_RETRY_MS;
          onFirstAttempt();
        });
      } catch (error) {
        if (this.#stopping.signal.aborted) break;
        this.#options.observe({ kind: "zones-unreadable", level: "warn", err: error, retryMs });
        onFirstAttempt();
        await sleep(retryMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
        retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
      }
    }
    onFirstAttempt();
  }

  /** Follows over one connection; rejects when that is lost. */
  async #followUntilLost(onCurrent: () => void): Promise<void> {
    const client = await this.#options.openConnection();
    let lost: Error | undefined;
    const lose = (error?: Error) => {
      lost ??= error ?? new Error("the database closed the connection");
      this.#wakeUp();
    };
    client.on("error", lose);
    client.on("end", () => lose());
    client.on("notification", () => this.#wakeUp());
    try {
      await client.query(`listen ${ZONES_CHANNEL}`);
      this.#sinceXid = null;
      while (!this.#stopping.signal.aborted) {
        if (lost) throw lost;
        this.#woken = false;
        await this.#read(client);
        onCurrent();
        this.#collecting ??= this.#collect().finally(() => {
          this.#collecting = undefined;
        });
        await this.#untilWoken();
      }
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** Brings the picture up to one snapshot of the database. */
  async #read(client: pg.Client): Promise<void> {
    const started = performance.now();
    const since = this.#sinceXid;
    const { xmin, changed } = await inSnapshot(client, async (xmin) => {
      const zones = await readChangedZones(client, since);
      if (since === null) this.#publisher.withdrawAllBut(zones);
      else this.#publisher.withdraw(await readDeletedZones(client, since));
      return { xmin, changed: await this.#publisher.publish(client, zones) };
    });
    this.#sinceXid = xmin;
    this.#options.writer.setReady();
    this.#options.onPublished(changed);
    if (since === null || changed.length > 0) {
      this.#options.observe({
        kind: "zones-published",
        level: since === null ? "info" : "debug",
        changed: changed.length,
        zones: this.#options.writer.zoneCount,
        octets: this.#options.writer.usedOctets,
        ms: Math.round(performance.now() - started),
      });
    }
  }

  /** Gives memory back in small parts, with time for other work between, new changes included. */
  async #collect(): Promise<void> {
    while (this.#options.writer.collect(COLLECT_NODES)) await sleep(1);
  }

  #wakeUp(): void {
    this.#woken = true;
    this.#wake();
  }

  async #untilWoken(): Promise<void> {
    if (this.#woken || this.#stopping.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
  }
}
