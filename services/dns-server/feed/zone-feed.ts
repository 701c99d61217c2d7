import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Observe } from "../../platform/observability/observation.ts";
import { inSnapshot } from "../../store/dns/published-zones.ts";
import { ZONES_CHANNEL } from "../../store/dns/zone-notices.ts";
import { readChangedZones, readDeletedZones, streamZoneIds, type ZoneState } from "../../store/dns/zone-states.ts";
import { readLife } from "../../store/incarnation.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { loadFirst } from "./first-load.ts";
import { LargeZoneLoads } from "./large-zone-loads.ts";
import type { ZonePublisher } from "./zone-publisher.ts";

/** A poll each second makes sure; notices only hasten it. */
const POLL_MS = 1_000;
/** Waits between attempts to reach the database. */
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
/** Nodes taken apart at a time, so that TCP clients on this thread hardly notice. */
const COLLECT_NODES = 2_000;

/** From so many zones on the first load has a thread beside it. */
const MANY_ZONES = 10_000;

export interface ZoneFeedOptions {
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  readonly openConnection: () => Promise<pg.Client>;
  readonly nowMs: () => number;
  readonly observe: Observe;
}

/** What a running feed turns to. */
export interface ZoneFeedUses {
  /**
   * Fills the zone database from elsewhere where the database is away, or silent, at the start; tells how long ago, in ms, they were
   * known to be what the database has, and undefined where it could not.
   */
  readonly loadSnapshot: () => Promise<number | undefined>;
  /** Resolves when the database has been silent for too long to wait for it without a zone database. */
  readonly patience: Promise<unknown>;
  /** Told of zones whose new version is answered from now on; after a start, of all of them. */
  readonly onPublished: (zones: readonly ZoneState[]) => void;
}

/**
 * Keeps the zone database as the database has it. While the database is away the last zone database goes on answering.
 * One connection listens, polls and loads; once the first zone database stands, another one loads what takes long.
 */
export class ZoneFeed {
  readonly #options: ZoneFeedOptions;
  #uses: ZoneFeedUses = { loadSnapshot: async () => undefined, patience: Promise.resolve(), onPublished: () => {} };
  readonly #stopping = new AbortController();
  /** Where the next reading begins; null while nothing has been read on this connection. */
  #sinceXid: string | null = null;
  #wake: () => void = () => {};
  #woken = false;
  #running: Promise<void> = Promise.resolve();
  #collecting: Promise<void> | undefined;
  #isLoaded = false;
  #confirmedAtMs: number | undefined;

  constructor(options: ZoneFeedOptions) {
    this.#options = options;
  }

  /** Whether the database is being followed. */
  get isFollowing(): boolean {
    return this.#sinceXid !== null;
  }

  /** Whether zones have been loaded at all: before that nobody gets an answer. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** When the zone database was last known to be what the database has, by `performance.now()`. */
  get confirmedAtMs(): number | undefined {
    return this.#confirmedAtMs;
  }

  /** Starts following the database; resolves when the first attempt to load the zones has ended, well or not. */
  start(uses: ZoneFeedUses): Promise<void> {
    this.#uses = uses;
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
        const opening = this.#options.openConnection();
        if (await this.#loadsMeanwhile(opening)) onFirstAttempt();
        await this.#followUntilLost(await opening, () => {
          retryMs = FIRST_RETRY_MS;
          onFirstAttempt();
        });
      } catch (error) {
        if (this.#stopping.signal.aborted) break;
        this.#options.observe({ kind: "zones-unreadable", level: "warn", err: error, retryMs });
        if (!this.#isLoaded) await this.#loadSnapshot();
        onFirstAttempt();
        await sleep(retryMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
        retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
      }
    }
    onFirstAttempt();
  }

  /**
   * Turns to the snapshot while a database that neither refuses nor answers is waited for.
   * @returns whether zones have been loaded by it
   */
  async #loadsMeanwhile(opening: Promise<unknown>): Promise<boolean> {
    if (this.#isLoaded) return false;
    const isSilent = await Promise.race([opening.then(() => false), this.#uses.patience.then(() => true)]);
    if (isSilent) await this.#loadSnapshot();
    return this.#isLoaded;
  }

  async #loadSnapshot(): Promise<void> {
    const ageMs = await this.#uses.loadSnapshot();
    if (ageMs === undefined) return;
    this.#isLoaded = true;
    this.#confirmedAtMs = performance.now() - ageMs;
  }

  /** Follows over one connection; rejects when that is lost. */
  async #followUntilLost(client: pg.Client, onCurrent: () => void): Promise<void> {
    let lost: Error | undefined;
    const lose = (error?: Error) => {
      lost ??= error ?? new Error("the database closed the connection");
      this.#wakeUp();
    };
    client.on("error", lose);
    client.on("end", () => lose());
    client.on("notification", () => this.#wakeUp());
    const { publisher, openConnection } = this.#options;
    const loads = new LargeZoneLoads({
      publisher,
      openConnection,
      onPublished: (zones, startedMs) => {
        this.#tell(zones, startedMs);
        this.#collectSoon();
        this.#wakeUp();
      },
      collected: () => this.#collected(),
      onFailed: lose,
    });
    try {
      await client.query(`listen ${ZONES_CHANNEL}`);
      while (!this.#stopping.signal.aborted) {
        if (lost) throw lost;
        this.#woken = false;
        await this.#read(client, loads);
        onCurrent();
        this.#collectSoon();
        await this.#untilWoken();
      }
    } finally {
      this.#sinceXid = null;
      await loads.stop();
      await client.end().catch(() => {});
    }
  }

  /** Brings the zone database up to one snapshot of the database, but for zones that take long. */
  async #read(client: pg.Client, loads: LargeZoneLoads): Promise<void> {
    const started = performance.now();
    const since = this.#sinceXid;
    const { publisher } = this.#options;
    if (since === null) return this.#readAll(client, started);
    const { xmin, published, heldBack } = await inSnapshot(client, async (xmin) => {
      const zones = await readChangedZones(client, since);
      publisher.standings.withdraw(await readDeletedZones(client, since));
      return { xmin, ...(await publisher.publish(client, zones, true)) };
    });
    publisher.standings.expireOutdated(this.#options.nowMs());
    loads.add([...heldBack, ...publisher.standings.takeDue()]);
    this.#sinceXid = xmin;
    if (!loads.isBusy) this.#confirmedAtMs = started;
    this.#tell(published, started);
  }

  /** As `#read`, the first time over a connection: of all zones. */
  async #readAll(client: pg.Client, started: number): Promise<void> {
    const { publisher, writer } = this.#options;
    await inSnapshot(client, async (xmin) => {
      publisher.follow(await readLife(client));
      if (!(await this.#loadMany(client))) await publisher.publishAll(client, !this.#isLoaded);
      publisher.standings.expireOutdated(this.#options.nowMs());
      this.#sinceXid = xmin;
      this.#confirmedAtMs = started;
      this.#isLoaded = true;
      writer.setReady();
      this.#observePublished(writer.zoneCount, started, "info");
      // Who is told of a zone may ask for it at once.
      for await (const zones of publisher.publishedOf(client)) this.#uses.onPublished(zones);
    });
  }

  /** Fills a zone database that has nothing with all zones, where they are many. @returns whether it is done */
  async #loadMany(client: pg.Client): Promise<boolean> {
    const { publisher, writer } = this.#options;
    if (this.#isLoaded || publisher.standings.expectedCount > 0) return false;
    const { scope } = publisher;
    const ids: number[] = [];
    await streamZoneIds(client, scope, (id) => ids.push(id));
    if (ids.length < MANY_ZONES) return false;
    await publisher.publishFirst(client, () => loadFirst(ids, { client, writer, publisher, scope }));
    return true;
  }

  #tell(changed: readonly ZoneState[], startedMs: number): void {
    if (changed.length === 0) return;
    this.#uses.onPublished(changed);
    this.#observePublished(changed.length, startedMs, "debug");
  }

  #observePublished(changed: number, startedMs: number, level: "info" | "debug"): void {
    const { writer, observe } = this.#options;
    observe({
      kind: "zones-published",
      level,
      changed,
      zones: writer.zoneCount,
      octets: writer.usedOctets,
      ms: Math.round(performance.now() - startedMs),
    });
  }

  async #collected(): Promise<void> {
    this.#collectSoon();
    await this.#collecting;
  }

  #collectSoon(): void {
    this.#collecting ??= this.#collect().finally(() => {
      this.#collecting = undefined;
    });
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
