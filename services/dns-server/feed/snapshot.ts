import { setTimeout as sleep } from "node:timers/promises";
import type { Observe } from "../../platform/observability/observation.ts";
import { Turn } from "../../platform/turns.ts";
import type { ZoneSummary } from "../../store/dns/zone-states.ts";
import type { AccessFeed } from "../transfer/access-feed.ts";
import { ZoneDatabaseReader } from "../zone-database/reader.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { ZoneImageMaker } from "../zone-database/zone-image.ts";
import { type SnapshotHead, SnapshotReader, SnapshotWriter } from "./snapshot-file.ts";
import type { ZonePublisher } from "./zone-publisher.ts";
import { type SnapshotZone, ZoneStreamReader } from "./zone-stream.ts";
import { ZoneTakes } from "./zone-takes.ts";

/** Between two files, while zones change: so many for each MiB. */
const INTERVAL_MS = { perMebioctet: 1_000, least: 10_000, most: 5 * 60_000 } as const;
/** An unchanged zone database is written again after this long: the file's age tells how old its zones are. */
const REFRESH_MS = 60 * 60_000;
/** A stop waits this long for the last file; the one before is good as well. */
const STOP_PATIENCE_MS = 4_000;
/** Nodes that are taken apart in a turn. */
const COLLECT_NODES = 2_000;
/** Before all time. */
const NEVER = 0;
/** Steps between two looks at the clock, each of which costs as much as a name. */
const STEPS_A_LOOK = 16;

export interface ZoneDatabaseSnapshotOptions {
  readonly file: string;
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  /** Who may transfer, which is kept with the zones. */
  readonly access: Pick<AccessFeed, "table" | "sealed" | "restore">;
  /** For how long nobody has known the zone database to be what the database has; undefined before the first. */
  readonly unconfirmedMs: () => number | undefined;
  readonly nowMs: () => number;
  readonly observe: Observe;
}

/**
 * Keeps the zone database in a file, and who may transfer its zones, so that a node whose database is away when it starts
 * answers as it last did.
 * A zone is kept as the zone database has it (zone-database/zone-image.ts), so that it is there again in no time.
 */
export class ZoneDatabaseSnapshot {
  readonly #options: ZoneDatabaseSnapshotOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** What was kept last: the zone database's changes, the version of the access, and when they were confirmed. */
  #kept: Kept = { changes: -1, access: undefined, confirmedAtMs: NEVER };

  constructor(options: ZoneDatabaseSnapshotOptions) {
    this.#options = options;
  }

  /** Begins to keep the zone database, every now and then when it has changed. */
  start(): void {
    this.#running = this.#keep();
  }

  /** Ends, with one last file, unless that takes too long. */
  async stop(patienceMs = STOP_PATIENCE_MS): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    const deadlineMs = performance.now() + patienceMs;
    await this.#saveIfNew(() => performance.now() > deadlineMs);
  }

  /**
   * Fills a zone database that nobody is answered from yet from the file, as far as the zones are not too old: like a
   * secondary's, a zone is answered for no longer than its SOA's EXPIRE after it was last known to be right (RFC 1034 §4.3.5).
   * @returns how long ago its zones were known to be right, in ms; undefined where there is no zone database now
   */
  async load(): Promise<number | undefined> {
    const { publisher, writer, access, observe } = this.#options;
    const started = performance.now();
    try {
      const { head } = await this.#loadZones();
      const { standings } = publisher;
      const smaller = standings.leftOut.length > 0 ? standings.makeRoomForSmaller(await this.#measure()) : undefined;
      if (smaller !== undefined && smaller.size > 0) await this.#loadZones(smaller);
      const ageMs = this.#ageMsOf(head);
      this.#kept = this.#now(head.confirmedAtMs);
      if (head.access !== undefined) access.restore(head.access);
      writer.setReady();
      const ms = Math.round(performance.now() - started);
      const ageSeconds = Math.round(ageMs / 1000);
      observe({ kind: "zones-from-snapshot", level: "warn", zones: writer.zoneCount, ageSeconds, ms });
      return ageMs;
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "ENOENT")
        observe({ kind: "snapshot-unreadable", level: "error", err });
      return undefined;
    }
  }

  #ageMsOf({ confirmedAtMs }: SnapshotHead): number {
    return Math.max(0, this.#options.nowMs() - confirmedAtMs);
  }

  #ageSecondsOf(head: SnapshotHead): number {
    return Math.round(this.#ageMsOf(head) / 1000);
  }

  /** Loads zones, and notes those that do not fit. @param only the zones to load; all where it is not given */
  async #loadZones(only?: ReadonlySet<number>): Promise<SnapshotReader> {
    const { file, writer, publisher } = this.#options;
    const snapshot = await SnapshotReader.open(file);
    const ageSeconds = this.#ageSecondsOf(snapshot.head);
    const isWanted = (zone: SnapshotZone) => this.#isUsable(zone, ageSeconds) && only?.has(zone.id) !== false;
    const takes = new ZoneTakes(writer, publisher.standings, isWanted);
    const turn = new Turn(STEPS_A_LOOK);
    try {
      if (only === undefined) {
        await this.#empty(turn);
        this.#makeTables(snapshot);
      }
      publisher.follow(snapshot.head.life);
      for await (const chunk of snapshot.chunks()) {
        takes.begin(chunk);
        while (takes.takeNext()) if (turn.isOver) await turn.next();
      }
      for (const zone of snapshot.head.suspended)
        if (publisher.isInScope(zone.resellerId)) publisher.standings.suspend(zone);
    } finally {
      takes.discard();
      await snapshot.close();
    }
    return snapshot;
  }

  /** What a load from the database has left that broke off is of another time than the file. */
  async #empty(turn: Turn): Promise<void> {
    const { publisher, writer } = this.#options;
    const { standings } = publisher;
    for (const id of [...standings.knownIds()]) {
      standings.withdraw([id]);
      if (turn.isOver) await turn.next();
    }
    while (writer.collect(COLLECT_NODES)) await turn.next();
  }

  /** The tables in the size that they will need, where that does not take the room of zones. */
  #makeTables({ size }: SnapshotReader): void {
    const { writer } = this.#options;
    if (size.octets * 2 < writer.leftOctetsForMany({ zoneOctets: Number.POSITIVE_INFINITY })) writer.expect(size);
  }

  #isUsable({ resellerId, expireSeconds }: ZoneSummary, ageSeconds: number): boolean {
    return this.#options.publisher.isInScope(resellerId) && ageSeconds <= expireSeconds;
  }

  /** What each zone of the file needs in the zone database. */
  async #measure(): Promise<Map<ZoneSummary, number>> {
    const sizes = new Map<ZoneSummary, number>();
    const snapshot = await SnapshotReader.open(this.#options.file);
    const ageSeconds = this.#ageSecondsOf(snapshot.head);
    const zones = new ZoneStreamReader();
    try {
      for await (const chunk of snapshot.chunks()) {
        zones.begin(chunk);
        while (!zones.isEmpty) {
          if (zones.isInZone) {
            zones.nextPart();
            continue;
          }
          const zone = zones.nextZone();
          if (this.#isUsable(zone, ageSeconds)) sizes.set(zone, zone.octets);
        }
      }
    } finally {
      await snapshot.close();
    }
    return sizes;
  }

  async #keep(): Promise<void> {
    const { signal } = this.#stopping;
    const { writer } = this.#options;
    const { perMebioctet, least, most } = INTERVAL_MS;
    for (let waitMs: number = least; !signal.aborted; ) {
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) await this.#saveIfNew(() => signal.aborted);
      waitMs = Math.min(most, Math.max(least, (writer.usedOctets / 2 ** 20) * perMebioctet));
    }
  }

  #now(confirmedAtMs: number): Kept {
    const { publisher, access } = this.#options;
    return { changes: publisher.standings.changes, access: access.table?.version, confirmedAtMs };
  }

  /** @param isTooLate asked now and then while a file is written; the one before then stays */
  async #saveIfNew(isTooLate: () => boolean): Promise<void> {
    const { unconfirmedMs, nowMs, observe } = this.#options;
    const ageMs = unconfirmedMs();
    // What comes from the file and is not confirmed yet is as old as the file said, whatever of it has changed since.
    const now = this.#now(ageMs === undefined ? this.#kept.confirmedAtMs : nowMs() - ageMs);
    // Neither from a file nor read whole yet.
    if (now.confirmedAtMs === NEVER) return;
    const isSame = now.changes === this.#kept.changes && now.access === this.#kept.access;
    if (isSame && now.confirmedAtMs - this.#kept.confirmedAtMs < REFRESH_MS) return;
    try {
      if (await this.#save(now, isTooLate)) this.#kept = now;
    } catch (err) {
      observe({ kind: "snapshot-not-written", level: "error", err });
    }
  }

  /** @returns whether the file is whole */
  async #save({ confirmedAtMs }: Kept, isTooLate: () => boolean): Promise<boolean> {
    const { file, writer, publisher, access, observe } = this.#options;
    const started = performance.now();
    // Ids and versions of another life of the database are believed no more than those of none.
    const life = publisher.isOfAnotherLife ? "" : publisher.life;
    const images = new ZoneImageMaker(writer);
    const reader = new ZoneDatabaseReader(writer.memory);
    const head = { confirmedAtMs, life, access: access.sealed(), suspended: [...publisher.standings.suspended] };
    const draft = new SnapshotWriter(file, head);
    const turn = new Turn(STEPS_A_LOOK);
    const goOn = async () => {
      if (turn.isOver) await turn.next();
      return !isTooLate();
    };
    try {
      for (const id of [...publisher.standings.served.ids()]) {
        // It may have changed or gone since the list was made: what counts is now.
        const isThere = publisher.standings.served.has(id);
        if (!isThere || (await this.#saveZone(id, { draft, images, reader }, goOn))) continue;
        draft.discard();
        return false;
      }
      await draft.finish(images.nodes);
    } catch (error) {
      draft.discard();
      throw error;
    }
    observe({ kind: "snapshot-written", zones: writer.zoneCount, ms: Math.round(performance.now() - started) });
    return true;
  }

  /**
   * Writes a zone as it is at this moment, whatever changes meanwhile.
   * @param goOn asked after each part of it; false when it says so
   */
  async #saveZone(id: number, { draft, images, reader }: Saving, goOn: () => Promise<boolean>): Promise<boolean> {
    const { writer, publisher } = this.#options;
    const { apex, version } = publisher.standings.served.get(id)!;
    const zone = writer.publishedZone(apex);
    draft.beginZone({
      ...{ id, apex, version },
      restricted: reader.isRestricted(zone),
      negativeTtlSeconds: reader.negativeTtlOf(zone),
      expireSeconds: images.expireSecondsOf(zone),
      octets: writer.octetsOf(zone),
      resellerId: writer.resellerOf(zone),
    });
    for (const part of images.partsOf(zone)) {
      draft.addPart(part);
      if (!(await goOn())) return false;
    }
    draft.endZone();
    return true;
  }
}

interface Kept {
  readonly changes: number;
  readonly access: number | undefined;
  readonly confirmedAtMs: number;
}

/** What zones are written with, one after another. */
interface Saving {
  readonly draft: SnapshotWriter;
  readonly images: ZoneImageMaker;
  readonly reader: ZoneDatabaseReader;
}
