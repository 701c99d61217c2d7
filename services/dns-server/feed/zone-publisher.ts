import type pg from "pg";
import type { Observe } from "../../platform/observability/observation.ts";
import { findLargeZones, measureZones } from "../../store/dns/large-zones.ts";
import { streamRecords } from "../../store/dns/published-zones.ts";
import { selectionOf } from "../../store/dns/zone-selection.ts";
import {
  readAllZones,
  readSuspendedZones,
  readZones,
  streamZoneApexes,
  streamZoneIds,
  type ZoneScope,
  type ZoneState,
  type ZoneSummary,
} from "../../store/dns/zone-states.ts";
import { ZoneDatabaseFullError } from "../zone-database/memory.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { type NameContent, readChangedNames } from "./changed-names.ts";
import { checkZone, isApex } from "./stored-names.ts";
import { soaOf, WholeZones } from "./whole-zones.ts";
import { nameOf, UNKNOWN_VERSION, ZoneStandings } from "./zone-standings.ts";

/** Zones whose state is in memory at a time when all are read. */
const ZONES_A_STEP = 1_000;

/** From so many records on a zone takes so long that others should not have to wait for it. */
const LARGE_ZONE_RECORDS = 5_000;
/** So many zones take as long as a large one. */
const MANY_ZONES = 1_000;

/** What came of an attempt to publish zones. */
export interface Publication {
  /** Those that had changed and are published. */
  readonly published: readonly ZoneState[];
  /** Those that are held back from now on. */
  readonly heldBack: readonly ZoneState[];
}

/** Brings zones of the zone database to the state that the database has: name by name where the journal reaches, else whole. */
export class ZonePublisher {
  readonly #writer: ZoneDatabaseWriter;
  readonly #observe: Observe;
  /** What stands in the zone database, for whoever puts zones there beside this. */
  readonly standings: ZoneStandings;
  /** Whose zones the zone database is to hold. */
  readonly scope: ZoneScope;
  readonly #resellerIds: ReadonlySet<string> | undefined;
  /** Of the database that the versions are of (`readLife` of store/incarnation.ts). */
  #life = "";
  /** Whether ids may be those of other zones than before. */
  #isAnotherLife = false;

  /** @param scope whose zones the zone database is to hold */
  constructor(writer: ZoneDatabaseWriter, observe: Observe, nowMs: () => number = Date.now, scope: ZoneScope = null) {
    this.scope = scope;
    this.#resellerIds = scope === null ? undefined : new Set(scope);
    this.#writer = writer;
    this.#observe = observe;
    this.standings = new ZoneStandings(writer, observe, nowMs);
  }

  /** Whether the zone database is to hold zones of a reseller, or, null, of nobody. */
  isInScope(resellerId: string | null): boolean {
    return resellerId === null || this.#resellerIds === undefined || this.#resellerIds.has(resellerId);
  }

  /** Which life of the database the versions belong to. */
  get life(): string {
    return this.#life;
  }

  /** Whether ids may be those of other zones than in the life of the database that is followed. */
  get isOfAnotherLife(): boolean {
    return this.#isAnotherLife;
  }

  /** In another life of the database an id or a version says nothing: every zone is then loaded whole. */
  follow(life: string): void {
    if (life === this.#life) return;
    this.#life = life;
    this.#isAnotherLife = !this.standings.knownIds().next().done;
    this.standings.distrust();
  }

  /** Takes all zones out of the zone database that the database does not have, or not in scope. */
  async #withdrawOthers(client: pg.Client): Promise<void> {
    const { standings } = this;
    const others = new Set(standings.knownIds());
    if (others.size > 0) {
      if (!this.#isAnotherLife) await streamZoneIds(client, this.scope, (id) => others.delete(id));
      else
        await streamZoneApexes(client, this.scope, (id, apex) => {
          if (others.has(id) && Buffer.compare(standings.known(id)!.apex, apex) === 0) others.delete(id);
        });
    }
    this.#isAnotherLife = false;
    standings.withdraw(others);
  }

  /**
   * Publishes what is new of these zones, and withdraws those that are suspended. One that cannot be read stays as it
   * was, until it changes again.
   * @param client in the snapshot in which the zones were read
   * @param holdsLargeBack whether zones that take long to load are held back, beside those that are already
   */
  async publish(client: pg.Client, zones: readonly ZoneState[], holdsLargeBack = false): Promise<Publication> {
    // What another connection has published meanwhile may be later than this snapshot.
    const current = zones.filter(({ id, version }) => this.standings.versionOf(id) <= version);
    const { free, heldBack } = await this.#publishNews(client, current, holdsLargeBack);
    return { published: free.filter((zone) => this.standings.isCurrent(zone)), heldBack };
  }

  /** @returns what was tried, and what was not */
  async #publishNews(client: pg.Client, zones: readonly ZoneState[], holdsLargeBack: boolean) {
    const { standings } = this;
    standings.withdraw(zones.filter(({ resellerId }) => !this.isInScope(resellerId)).map(({ id }) => id));
    const known = zones.filter((zone) => this.isInScope(zone.resellerId) && standings.admit(zone));
    for (const zone of known) if (!zone.published) standings.suspend(zone);
    const changed = known.filter((zone) => this.#isNews(zone));
    for (const zone of changed) standings.noteChanged(zone);
    const heldBack = changed.filter(({ id }) => standings.isHeldBack(id));
    const free = changed.filter(({ id }) => !standings.waitsForRoom(id) && !standings.isHeldBack(id));
    const large = await this.#publishChanged(client, free, holdsLargeBack);
    return { free, heldBack: [...heldBack, ...large] };
  }

  /**
   * As `publish`, of all zones in scope, some at a time, and withdraws all others.
   * @param isFirst whether the zone database is one that nobody is answered from yet: where not all fit, the smallest do
   */
  async publishAll(client: pg.Client, isFirst: boolean): Promise<void> {
    const { standings } = this;
    standings.tryUnreadableAgain();
    if (!isFirst) return this.#publishAll(client);
    await standings.fill(async () => {
      // What tables leave when they grow is of use for the next zones.
      await this.#publishAll(client, () => standings.collectAll());
      await this.#preferSmaller(client);
    });
  }

  async #publishAll(client: pg.Client, onStep?: () => void): Promise<void> {
    await this.#withdrawOthers(client);
    for await (const zones of readAllZones(client, this.scope, ZONES_A_STEP)) {
      await this.#publishNews(client, zones, false);
      onStep?.();
    }
  }

  /**
   * As `publishAll`, for a zone database that nobody is answered from and that has nothing yet.
   * @param fill puts all zones into it that are not suspended, by `adopt`, `leaveOut` and `noteCorrupt`
   */
  async publishFirst(client: pg.Client, fill: () => Promise<void>): Promise<void> {
    const { standings } = this;
    await standings.fill(async () => {
      await fill();
      for await (const zones of readSuspendedZones(client, this.scope, ZONES_A_STEP)) {
        for (const zone of zones) if (standings.admit(zone)) standings.suspend(zone);
      }
      await this.#preferSmaller(client);
    });
  }

  /** The zones that are published as the database has them, some at a time. */
  async *publishedOf(client: pg.Client): AsyncGenerator<readonly ZoneState[]> {
    for await (const zones of readAllZones(client, this.scope, ZONES_A_STEP)) {
      yield zones.filter((zone) => zone.published && this.standings.isCurrent(zone) && isApex(zone.apex));
    }
  }

  /**
   * As `publish`, for zones that are held back, over a connection of its own: others can be published meanwhile. A zone
   * that is withdrawn meanwhile is not shown.
   * @param readZones reads what they are now; called once
   * @returns those that had changed and are published
   */
  async publishHeldBack(
    client: pg.Client,
    zoneIds: ReadonlySet<number>,
    readZones: () => Promise<readonly ZoneState[]>,
  ): Promise<readonly ZoneState[]> {
    const zones = (await readZones()).filter(
      (zone) => zoneIds.has(zone.id) && this.#isNews(zone) && this.standings.admit(zone),
    );
    await this.#publishChanged(client, zones, false);
    return zones.filter((zone) => this.standings.isCurrent(zone));
  }

  #isWanted({ published, resellerId }: ZoneState): boolean {
    return published && this.isInScope(resellerId);
  }

  #isNews(zone: ZoneState): boolean {
    return this.#isWanted(zone) && !this.standings.isCurrent(zone) && !this.standings.isTried(zone);
  }

  /** @returns the zones that are not published, because they take long and the caller wants such held back */
  async #publishChanged(
    client: pg.Client,
    changed: readonly ZoneState[],
    holdsLargeBack: boolean,
  ): Promise<readonly ZoneState[]> {
    const { standings } = this;
    standings.countChanges(changed.length);
    const known = changed.filter(({ id }) => standings.versionOf(id) > UNKNOWN_VERSION);
    const done = new Set<ZoneState>();
    const versions = new Map(known.map(({ id }) => [id, standings.versionOf(id)]));
    const versionOf = ({ id }: ZoneState) => versions.get(id)!;
    const onCorruptJournal = (zone: ZoneState, err: unknown) =>
      this.#observe({ kind: "journal-corrupt", level: "warn", ...nameOf(zone), err });
    for await (const [zone, names] of readChangedNames(client, known, versionOf, onCorruptJournal)) {
      // It may have been withdrawn while its records were read.
      if (!standings.served.has(zone.id) || this.#putNames(zone, names)) done.add(zone);
    }
    const whole = changed.filter((zone) => !done.has(zone));
    const large = holdsLargeBack ? await largeAmong(client, whole) : new Set();
    await this.#publishWhole(
      client,
      whole.filter(({ id }) => !large.has(id)),
    );
    return whole.filter(({ id }) => large.has(id));
  }

  /**
   * @returns false for a zone that has to be loaded whole all the same: its signing begins, ends or changes its kind, or
   * there is room for it in another segment alone
   */
  #putNames(zone: ZoneState, names: readonly NameContent[]): boolean {
    const writer = this.#writer;
    const reference = writer.publishedZone(zone.apex);
    const apex = [soaOf(zone), ...names.at(-1)!.records];
    if (!writer.takesApex(reference, apex)) return false;
    const startedMs = performance.now();
    const octetsBefore = writer.octetsOf(reference);
    try {
      checkZone(zone);
      for (const { owner, records } of names.slice(0, -1))
        writer.setName(reference, records[0]?.owner ?? owner, records);
      writer.setName(reference, zone.apex, apex);
      writer.publishZone(reference);
    } catch (error) {
      const takenOctets = Math.max(0, writer.octetsOf(reference) - octetsBefore);
      writer.discardZone(reference);
      if (error instanceof ZoneDatabaseFullError && writer.hasRoomElsewhere(reference)) return false;
      this.standings.takeFailure(zone, error, { takenOctets, ms: performance.now() - startedMs });
      return true;
    }
    writer.setNegativeTtl(reference, zone.negativeTtlSeconds);
    this.standings.notePublished(zone);
    return true;
  }

  /** Loads zones aside, each to be seen when it is whole. */
  async #publishWhole(client: pg.Client, zones: readonly ZoneState[]): Promise<void> {
    if (zones.length === 0) return;
    const startedMs = performance.now();
    const loading = new WholeZones(this.#writer, zones, {
      isWanted: ({ id }) => !this.standings.isGone(id),
      onPublished: (zone, reference) => this.standings.notePublished(zone, reference),
      onFailed: (zone, error, takenOctets) =>
        this.standings.takeFailure(zone, error, { takenOctets, ms: performance.now() - startedMs }),
    });
    try {
      await streamRecords(client, selectionOf(zones.map(({ id }) => id)), (record) => loading.add(record));
      loading.finish();
    } catch (error) {
      loading.discard();
      throw error;
    }
  }

  /** Takes larger zones out again for smaller ones that came after them and did not fit. */
  async #preferSmaller(client: pg.Client): Promise<void> {
    const { standings } = this;
    const writer = this.#writer;
    const waiting = standings.leftOut.map(({ zone }) => zone);
    if (waiting.length === 0) return;
    const measured = await measureZones(
      client,
      waiting.map(({ id }) => id),
    );
    const octets = new Map<ZoneSummary, number>(waiting.map((zone) => [zone, measured.get(zone.id)!]));
    for (const zone of await readZones(client, [...standings.served.ids()])) {
      octets.set(zone, writer.octetsOf(writer.publishedZone(zone.apex)));
    }
    const smaller = standings.makeRoomForSmaller(octets);
    await this.#publishWhole(client, await readZones(client, [...smaller]));
  }
}

/** The ids of those zones that take long to load whole: large ones, or all where they are many. */
async function largeAmong(client: pg.Client, zones: readonly ZoneState[]): Promise<ReadonlySet<number>> {
  const ids = zones.map(({ id }) => id);
  if (ids.length > MANY_ZONES) return new Set(ids);
  return new Set(ids.length === 0 ? [] : await findLargeZones(client, ids, LARGE_ZONE_RECORDS));
}
