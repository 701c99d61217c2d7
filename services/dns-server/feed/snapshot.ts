import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { formatDomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { timesOfSoa } from "../../core/dns/soa.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { ZoneState } from "../../store/dns/published-zones.ts";
import type { AccessFeed } from "../transfer/access-feed.ts";
import { MAX_MESSAGE_OCTETS, TransferMessage } from "../transfer/transfer-message.ts";
import { wholeZone } from "../transfer/transfer-streams.ts";
import { LOWER_CASE } from "../zone-database/layout.ts";
import { ZoneDatabaseFullError } from "../zone-database/memory.ts";
import { ZoneDatabaseReader } from "../zone-database/reader.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import type { HeldZone } from "./held-zones.ts";
import { readSnapshot, SnapshotWriter, type SnapshotZone } from "./snapshot-file.ts";
import { TransferredRecords } from "./transferred-records.ts";
import { servedZoneOf } from "./whole-zones.ts";
import { ZoneFiller } from "./zone-filler.ts";
import type { ZonePublisher } from "./zone-publisher.ts";

/** Between two files, while zones change. */
const INTERVAL_MS = 5 * 60_000;
/** An unchanged zone database is written again after this long: the file's age tells how old its zones are. */
const REFRESH_MS = 60 * 60_000;
/** The first one comes soon, so that a new node has one. */
const FIRST_MS = 10_000;
/** A stop waits this long for the last file; the one before is good as well. */
const STOP_PATIENCE_MS = 4_000;
/** How long this thread is held up at a time. */
const TURN_MS = 5;

export interface ZoneDatabaseSnapshotOptions {
  readonly file: string;
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  /** Who may transfer, which is kept with the zones. */
  readonly access: Pick<AccessFeed, "table" | "sealed" | "restore">;
  /** Whether the zone database is what the database has, as far as anybody knows. */
  readonly isCurrent: () => boolean;
  readonly nowMs: () => number;
  readonly observe: Observe;
}

/**
 * Keeps the zone database in a file, and who may transfer its zones, so that a node whose database is away when it starts
 * answers as it last did.
 * A zone is kept as its own AXFR: what a secondary would have been sent.
 */
export class ZoneDatabaseSnapshot {
  readonly #options: ZoneDatabaseSnapshotOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** What was kept last: the zone database's changes, the version of the access, and when. */
  #kept: { changes: number; access: number | undefined; atMs: number } = { changes: -1, access: undefined, atMs: 0 };

  constructor(options: ZoneDatabaseSnapshotOptions) {
    this.#options = options;
  }

  /** Begins to keep the zone database, every few minutes when it has changed. */
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
   * Fills an empty zone database from the file, as far as the zones are not too old: like a secondary, a zone is answered
   * for no longer than its SOA's EXPIRE after it was last known to be right (RFC 1034 §4.3.5).
   * @returns whether there is a zone database now
   */
  async load(): Promise<boolean> {
    const { file, publisher, writer, access, nowMs, observe } = this.#options;
    const started = performance.now();
    try {
      const { head, zones } = readSnapshot(file);
      const ageSeconds = Math.max(0, Math.round((nowMs() - head.writtenAtMs) / 1000));
      publisher.follow(head.incarnation);
      await this.#loadZones(zones, ageSeconds);
      if (publisher.leftOut.length > 0) {
        const smaller = publisher.makeRoomForSmaller(this.#measure(ageSeconds));
        if (smaller.size > 0) await this.#loadZones(readSnapshot(file).zones, ageSeconds, smaller);
      }
      if (head.access !== undefined) access.restore(head.access);
      writer.setReady();
      const ms = Math.round(performance.now() - started);
      observe({ kind: "zones-from-snapshot", level: "warn", zones: writer.zoneCount, ageSeconds, ms });
      return true;
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "ENOENT")
        observe({ kind: "snapshot-unreadable", level: "error", err });
      return false;
    }
  }

  /** @param only the zones to load; all where it is not given */
  async #loadZones(zones: Iterable<SnapshotZone>, ageSeconds: number, only?: ReadonlySet<number>): Promise<void> {
    const { writer, publisher } = this.#options;
    const pause = makePause();
    const records = new TransferredRecords();
    const filler = new ZoneFiller(writer, true);
    for (const zone of zones) {
      const isWanted = publisher.isInScope(zone.resellerId) && (only === undefined || only.has(zone.id));
      if (isWanted) await this.#loadZone(zone, { records, filler, ageSeconds, pause });
      if (pause.isDue()) await pause.take();
    }
  }

  /** What each zone of the file needs in the zone database, or about that where it does not fit. */
  #measure(ageSeconds: number): Map<ZoneState, number> {
    const { file, publisher, writer } = this.#options;
    const records = new TransferredRecords();
    const sizes = new Map<ZoneState, number>();
    for (const zone of readSnapshot(file).zones) {
      if (!publisher.isInScope(zone.resellerId)) continue;
      const [first] = zone.messages;
      if (first === undefined) throw new Error(NO_SOA);
      records.begin(first);
      records.next();
      const state = stateOf(zone, records, ageSeconds);
      if (state === undefined) continue;
      const isThere = publisher.published.has(zone.id);
      sizes.set(state, isThere ? writer.octetsOf(writer.publishedZone(state.apex)) : estimateOctets(zone));
    }
    return sizes;
  }

  /** Loads a zone, unless it is too old; notes that it does not fit where that is so. */
  async #loadZone(kept: SnapshotZone, { records, filler, ageSeconds, pause }: Loading): Promise<void> {
    const { writer, publisher } = this.#options;
    let state: ZoneState | undefined;
    let zone = 0;
    try {
      for (const message of kept.messages) {
        records.begin(message);
        while (records.next()) {
          if (state === undefined) {
            state = stateOf(kept, records, ageSeconds);
            if (state === undefined) return;
            zone = writer.createZone(servedZoneOf(state));
            filler.begin(zone, state.apex);
          } else if (records.isSoa) break; // RFC 5936 §2.2: the last record is the SOA again.
          filler.add(records);
        }
        if (pause.isDue()) await pause.take();
      }
      if (state === undefined) throw new Error(NO_SOA);
      filler.end();
      writer.publishZone(zone);
    } catch (error) {
      const takenOctets = zone === 0 ? 0 : writer.octetsOf(zone);
      if (zone !== 0) writer.discardZone(zone);
      if (!(error instanceof ZoneDatabaseFullError) || state === undefined) throw error;
      publisher.leaveOut(state, takenOctets);
      return;
    }
    publisher.adopt(kept.id, state, zone);
  }

  async #keep(): Promise<void> {
    const { signal } = this.#stopping;
    for (let waitMs = FIRST_MS; !signal.aborted; waitMs = INTERVAL_MS) {
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) await this.#saveIfNew(() => signal.aborted);
    }
  }

  /** @param isTooLate asked now and then while a file is written; the one before then stays */
  async #saveIfNew(isTooLate: () => boolean): Promise<void> {
    const { publisher, access, isCurrent, nowMs, observe } = this.#options;
    // A zone database that nobody can confirm stays as old as its file says.
    if (!isCurrent()) return;
    const now = { changes: publisher.changes, access: access.table?.version, atMs: nowMs() };
    const isSame = now.changes === this.#kept.changes && now.access === this.#kept.access;
    if (isSame && now.atMs - this.#kept.atMs < REFRESH_MS) return;
    try {
      if (await this.#save(isTooLate)) this.#kept = now;
    } catch (err) {
      observe({ kind: "snapshot-not-written", level: "error", err });
    }
  }

  /** @returns whether the file is whole */
  async #save(isTooLate: () => boolean): Promise<boolean> {
    const { file, writer, publisher, access, nowMs, observe } = this.#options;
    const started = performance.now();
    const { incarnation } = publisher;
    // One for all zones: they may be millions, and most of them small.
    const scratch = Buffer.allocUnsafe(MAX_MESSAGE_OCTETS);
    const draft = new SnapshotWriter(file, { writtenAtMs: nowMs(), incarnation, access: access.sealed() });
    const pause = makePause();
    const goOn = async () => {
      if (pause.isDue()) await pause.take();
      return !isTooLate();
    };
    try {
      for (const id of [...publisher.published.ids()]) {
        // It may have changed or gone since the list was made: what counts is now.
        const published = publisher.published.get(id);
        if (published === undefined || (await this.#saveZone({ draft, scratch }, { id, ...published }, goOn))) continue;
        draft.discard();
        return false;
      }
      await draft.finish();
    } catch (error) {
      draft.discard();
      throw error;
    }
    observe({ kind: "snapshot-written", zones: writer.zoneCount, ms: Math.round(performance.now() - started) });
    return true;
  }

  /**
   * Writes a zone as it is at this moment, whatever changes meanwhile; one that has a record which fits into no message
   * is left out.
   * @param goOn asked after each message; false when it says so
   */
  async #saveZone(
    { draft, scratch }: { readonly draft: SnapshotWriter; readonly scratch: Buffer },
    { id, apex, version }: HeldZone & { readonly id: number },
    goOn: () => Promise<boolean>,
  ): Promise<boolean> {
    const { writer, observe } = this.#options;
    const zone = writer.publishedZone(apex);
    const name = nameFromStoredWire(apex);
    const request = { id: 0, recursionDesired: false, name, type: TYPE.AXFR, serial: undefined, edns: undefined };
    let failure: unknown;
    const messages = untilFailure(wholeZone(writer, zone, new TransferMessage(request, { scratch })), (error) => {
      failure = error;
    });
    const restricted = new ZoneDatabaseReader(writer.memory).isRestricted(zone);
    draft.beginZone({ id, version, restricted, resellerId: writer.resellerOf(zone) });
    for (const message of messages) {
      draft.addMessage(message);
      if (!(await goOn())) return false;
    }
    if (failure === undefined) {
      draft.endZone();
    } else {
      draft.abandonZone();
      observe({ kind: "zone-not-kept", level: "warn", zone: formatDomainName(name), err: failure });
    }
    return true;
  }
}

/** What a zone needs in the zone database, where every record has a name to itself: messages have its name once or not at all. */
function estimateOctets({ octets }: SnapshotZone): number {
  return octets * ZONE_DATABASE_OF_MESSAGES;
}

/** Octets of the zone database for one of an AXFR. */
const ZONE_DATABASE_OF_MESSAGES = 3;

/** Values as far as they can be made; what their maker throws is told, what their taker throws is not touched. */
function* untilFailure<T>(values: Iterable<T>, onFailure: (error: unknown) => void): Generator<T> {
  try {
    yield* values;
  } catch (error) {
    onFailure(error);
  }
}

/** What the zones of a file are loaded with, one after another. */
interface Loading {
  readonly records: TransferredRecords;
  readonly filler: ZoneFiller;
  /** Since the file was written. */
  readonly ageSeconds: number;
  readonly pause: Pause;
}

const NO_SOA = "a zone of the snapshot does not begin with its SOA";

/** What a zone is whose first record is at hand; undefined when it is too old. */
function stateOf(kept: SnapshotZone, soa: TransferredRecords, ageSeconds: number): ZoneState | undefined {
  if (!soa.isSoa) throw new Error(NO_SOA);
  const soaRdata = soa.octets.slice(soa.rdataStart, soa.rdataStart + soa.rdataOctets);
  const { expire, minimum } = timesOfSoa(soaRdata);
  if (ageSeconds > expire) return undefined;
  const { id, version, restricted, resellerId } = kept;
  const apex = soa.octets.slice(0, soa.ownerOctets);
  for (let place = 0; place < apex.length; place += 1) apex[place] = LOWER_CASE[apex[place]!]!;
  const { ttl: soaTtlSeconds } = soa;
  return {
    id,
    apex,
    version,
    restricted,
    resellerId,
    published: true,
    soaTtlSeconds,
    minimumSeconds: minimum,
    soaRdata,
  };
}

/** To be looked at now and then in long work: lets the thread's other work go on when its turn has lasted long enough. */
interface Pause {
  readonly isDue: () => boolean;
  readonly take: () => Promise<void>;
}

function makePause(): Pause {
  let turnEnds = performance.now() + TURN_MS;
  return {
    isDue: () => performance.now() >= turnEnds,
    take: async () => {
      await nextTurn();
      turnEnds = performance.now() + TURN_MS;
    },
  };
}
