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
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { type NameContent, readChangedNames } from "./changed-names.ts";
import { type HeldZone, HeldZones } from "./held-zones.ts";
import { type LeftOutZone, LeftOutZones, smallestThatFit } from "./left-out-zones.ts";
import { apexText, checkZone, isApex } from "./stored-names.ts";
import { UnreadableZones } from "./unreadable-zones.ts";
import { soaOf, WholeZones } from "./whole-zones.ts";

/** Nodes of a zone that was given up that are taken apart at once. */
const COLLECT_NODES = 2_000;
/** Zones whose state is in memory at a time when all are read. */
const ZONES_A_STEP = 1_000;

/** From so many records on a zone takes so long that others should not have to wait for it. */
const LARGE_ZONE_RECORDS = 5_000;
/** So many zones take as long as a large one. */
const MANY_ZONES = 1_000;

/** Below every version. */
const UNKNOWN_VERSION = -1;

/** What is known of a zone of which nothing is answered as it, or its company, is suspended. */
export type SuspendedZone = Pick<ZoneSummary, "id" | "apex" | "resellerId">;

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
  readonly #held: HeldZones;
  /** Zones that `publish` leaves to `publishHeldBack`, and whether they have been withdrawn since they were held back. */
  readonly #heldBack = new Map<number, { withdrawn: boolean }>();
  readonly #leftOut: LeftOutZones;
  /** Of those that are not held a place-holder stands in the zone database, as far as they have an apex. */
  readonly #unreadable = new UnreadableZones();
  /** For each of them a place-holder stands in the zone database. */
  readonly #suspended = new Map<number, SuspendedZone>();
  /** Whose zones the zone database is to hold. */
  readonly scope: ZoneScope;
  readonly #resellerIds: ReadonlySet<string> | undefined;
  /** Whether nobody is answered yet, so that nobody minds being held up. */
  #isFirst = false;
  #changes = 0;
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
    this.#held = new HeldZones(writer);
    this.#leftOut = new LeftOutZones(nowMs);
  }

  /** The zones that do not fit into memory, or whose latest versions do not, those that need least first. */
  get leftOut(): readonly LeftOutZone[] {
    return this.#leftOut.list();
  }

  /** The apexes of zones whose latest versions cannot be read. */
  get unreadable(): Iterable<Uint8Array> {
    return this.#unreadable.apexes();
  }

  /** Zones that ought to be answered for, as far as the database has been read. */
  get expectedCount(): number {
    const leftOut = this.leftOut.filter(({ servedVersion }) => servedVersion === undefined).length;
    return this.#held.size + leftOut + [...this.#unreadable.ids()].filter((id) => !this.#held.has(id)).length;
  }

  /** Whether a zone, or its latest version, is not answered: there is no room for it, or it cannot be read. */
  isLeftOut(id: number): boolean {
    return this.#leftOut.has(id) || this.#unreadable.has(id);
  }

  /** The zones of the zone database by id. */
  get published(): Pick<HeldZones, "has" | "get" | "ids"> {
    return this.#held;
  }

  /** All that is in the zone database, or ought to be. */
  *knownIds(): Generator<number> {
    yield* this.#held.ids();
    for (const { zone } of this.leftOut) yield zone.id;
    yield* this.#unreadable.ids();
    yield* this.#suspended.keys();
  }

  get suspended(): Iterable<SuspendedZone> {
    return this.#suspended.values();
  }

  /** Whether the zone database is to hold zones of a reseller, or, null, of nobody. */
  isInScope(resellerId: string | null): boolean {
    return resellerId === null || this.#resellerIds === undefined || this.#resellerIds.has(resellerId);
  }

  /** Counts what happens to the zone database. */
  get changes(): number {
    return this.#changes;
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
    this.#isAnotherLife = !this.knownIds().next().done;
    this.withdraw(this.leftOut.filter((one) => one.servedVersion === undefined).map(({ zone }) => zone.id));
    this.withdraw([...this.#unreadable.ids()].filter((id) => !this.#held.has(id)));
    this.withdraw(this.#suspended.keys());
    this.#held.setAll(UNKNOWN_VERSION);
  }

  /** Takes over a zone that somebody else has put into the zone database. */
  adopt(id: number, zone: HeldZone, reference?: number): void {
    this.#held.set(id, zone, reference);
    this.#leftOut.remove(id);
    this.#unreadable.delete(id);
    this.#suspended.delete(id);
  }

  /** Notes that a zone that somebody else would have put into a zone database that nobody is answered from does not fit. */
  leaveOut(zone: ZoneSummary, takenOctets: number): void {
    this.#leaveOut(zone, takenOctets, 0);
    this.#collectAll();
  }

  /**
   * Notes that a zone cannot be taken in as the database has it. It stays as it is answered; all of one that is not is
   * SERVFAIL.
   */
  noteCorrupt(zone: ZoneSummary, err: CorruptRecordError): void {
    const { id } = zone;
    const shown = isApex(zone.apex) ? zone : { ...zone, ...this.#known(id) };
    const isWithheld = this.#held.has(id) || this.#unreadable.has(id);
    if (!isWithheld) this.#showPlaceHolder(shown, () => this.#writer.withholdZone(shown));
    this.#leftOut.remove(id);
    this.#suspended.delete(id);
    const isNews = this.#unreadable.add({ id, apex: shown.apex, version: zone.version });
    if (isNews) this.#observe({ kind: "zone-corrupt", level: "error", ...nameOf(zone), err });
  }

  /**
   * Takes larger zones out of a zone database that nobody is answered from, for smaller ones that did not fit.
   * @param octets what each zone needs, those that are there and those that are not
   * @returns the ids of those that fit now and are not there
   */
  makeRoomForSmaller(octets: ReadonlyMap<ZoneSummary, number>): ReadonlySet<number> {
    let room = this.#writer.leftOctetsForMany({ zoneOctets: Number.POSITIVE_INFINITY });
    for (const [{ id }, needed] of octets) if (this.#held.has(id)) room += needed;
    const kept = smallestThatFit(new Map([...octets].map(([{ id }, needed]) => [id, needed])), room);
    const smaller = new Set([...kept].filter((id) => !this.#held.has(id)));
    if (smaller.size === 0) return smaller;
    for (const [zone, needed] of octets) {
      if (kept.has(zone.id) || !this.#held.delete(zone.id)) continue;
      this.#leaveOut(zone, needed, 0);
    }
    this.#collectAll();
    return smaller;
  }

  #collectAll(): void {
    while (this.#writer.collect());
  }

  /** Takes zones out of the zone database. */
  withdraw(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) {
      const heldBack = this.#heldBack.get(id);
      if (heldBack) heldBack.withdrawn = true;
      const zone = this.#known(id);
      if (!zone) continue;
      this.#changes += 1;
      this.#writer.withdrawZone(zone.apex);
      this.#forget(id);
    }
  }

  #forget(id: number): void {
    this.#held.delete(id);
    this.#leftOut.remove(id);
    this.#unreadable.delete(id);
    this.#suspended.delete(id);
  }

  /** Has all of a zone be REFUSED from now on. */
  suspend(zone: SuspendedZone): void {
    const { id, apex, resellerId } = zone;
    if (this.#suspended.has(id)) return;
    const heldBack = this.#heldBack.get(id);
    if (heldBack) heldBack.withdrawn = true;
    if (this.#showPlaceHolder(zone, () => this.#writer.suspendZone({ apex, resellerId, negativeTtlSeconds: 0 }))) {
      this.#changes += 1;
      this.#forget(id);
      this.#suspended.set(id, { id, apex, resellerId });
    } else this.withdraw([id]);
  }

  /** Takes all zones out of the zone database that the database does not have, or not in scope. */
  async #withdrawOthers(client: pg.Client): Promise<void> {
    const others = new Set(this.knownIds());
    if (others.size > 0) {
      if (!this.#isAnotherLife) await streamZoneIds(client, this.scope, (id) => others.delete(id));
      else
        await streamZoneApexes(client, this.scope, (id, apex) => {
          if (others.has(id) && Buffer.compare(this.#known(id)!.apex, apex) === 0) others.delete(id);
        });
    }
    this.#isAnotherLife = false;
    this.withdraw(others);
  }

  /** A zone that is held, left out, unreadable, or suspended. */
  #known(id: number): Pick<HeldZone, "apex"> | undefined {
    const shown = this.#held.get(id) ?? this.#leftOut.get(id)?.zone;
    return shown ?? this.#unreadable.get(id) ?? this.#suspended.get(id);
  }

  /**
   * Publishes what is new of these zones, and withdraws those that are suspended. One that cannot be read stays as it
   * was, until it changes again.
   * @param client in the snapshot in which the zones were read
   * @param holdsLargeBack whether zones that take long to load are held back, beside those that are already
   */
  async publish(client: pg.Client, zones: readonly ZoneState[], holdsLargeBack = false): Promise<Publication> {
    // What another connection has published meanwhile may be later than this snapshot.
    const current = zones.filter(({ id, version }) => (this.#held.versionOf(id) ?? UNKNOWN_VERSION) <= version);
    const { free, heldBack } = await this.#publishNews(client, current, holdsLargeBack);
    return { published: free.filter((zone) => this.#isPublished(zone)), heldBack };
  }

  /** @returns what was tried, and what was not */
  async #publishNews(client: pg.Client, zones: readonly ZoneState[], holdsLargeBack: boolean) {
    this.withdraw(zones.filter(({ resellerId }) => !this.isInScope(resellerId)).map(({ id }) => id));
    const known = zones.filter((zone) => this.isInScope(zone.resellerId) && this.#hasApex(zone));
    for (const zone of known) if (!zone.published) this.suspend(zone);
    const changed = known.filter((zone) => this.#isNews(zone));
    // Whether there is room for them now is not for here: see `takeDue`.
    for (const zone of changed) this.#leftOut.note(zone);
    const free = changed.filter(({ id }) => !this.#heldBack.has(id) && !this.#leftOut.has(id));
    const heldBack = changed.filter(({ id }) => this.#heldBack.has(id));
    const large = await this.#publishChanged(client, free, holdsLargeBack);
    return { free, heldBack: [...heldBack, ...large] };
  }

  /** Whether a zone has an apex; where it has another one than before, it is withdrawn there. */
  #hasApex(zone: ZoneState): boolean {
    if (!isApex(zone.apex)) {
      this.noteCorrupt(zone, new CorruptRecordError("the zone's apex is no name"));
      return false;
    }
    const known = this.#known(zone.id);
    if (known !== undefined && Buffer.compare(known.apex, zone.apex) !== 0) this.withdraw([zone.id]);
    // As it is answered it is right again.
    if (this.#unreadable.has(zone.id) && this.#isPublished(zone)) this.#unreadable.delete(zone.id);
    return true;
  }

  /**
   * As `publish`, of all zones in scope, some at a time, and withdraws all others.
   * @param isFirst whether the zone database is one that nobody is answered from yet: where not all fit, the smallest do
   */
  async publishAll(client: pg.Client, isFirst: boolean): Promise<void> {
    this.#isFirst = isFirst;
    this.#unreadable.tryAgain();
    try {
      await this.#withdrawOthers(client);
      for await (const zones of readAllZones(client, this.scope, ZONES_A_STEP)) {
        await this.#publishNews(client, zones, false);
        // What tables leave when they grow is of use for the next zones.
        if (isFirst) this.#collectAll();
      }
      if (isFirst && this.#leftOut.size > 0) await this.#preferSmaller(client);
    } finally {
      this.#isFirst = false;
    }
  }

  /**
   * As `publishAll`, for a zone database that nobody is answered from and that has nothing yet.
   * @param fill puts all zones into it that are not suspended, by `adopt`, `leaveOut` and `noteCorrupt`
   */
  async publishFirst(client: pg.Client, fill: () => Promise<void>): Promise<void> {
    this.#isFirst = true;
    try {
      await fill();
      for await (const zones of readSuspendedZones(client, this.scope, ZONES_A_STEP)) {
        for (const zone of zones) if (this.#hasApex(zone)) this.suspend(zone);
      }
      if (this.#leftOut.size > 0) await this.#preferSmaller(client);
    } finally {
      this.#isFirst = false;
    }
  }

  /** The zones that are published as the database has them, some at a time. */
  async *publishedOf(client: pg.Client): AsyncGenerator<readonly ZoneState[]> {
    for await (const zones of readAllZones(client, this.scope, ZONES_A_STEP)) {
      yield zones.filter((zone) => zone.published && this.#isPublished(zone) && isApex(zone.apex));
    }
  }

  /** Zones that were left out and may fit now, those that need least first; to be tried by `publishHeldBack`. */
  takeDue(): readonly ZoneSummary[] {
    const { isCollecting, waitingOctets } = this.#writer;
    const roomFor = ({ zone, servedVersion, takenOctets }: LeftOutZone) => {
      const isChange = servedVersion !== undefined;
      const zoneOctets = isChange ? this.#writer.octetsOf(this.#writer.publishedZone(zone.apex)) : takenOctets;
      return this.#writer.leftOctets({ zoneOctets, ...(isChange && { grownBy: takenOctets }) });
    };
    return this.#leftOut.takeDue(roomFor, !isCollecting && waitingOctets === 0);
  }

  /**
   * Answers no more for zones whose last version has been served for longer than their SOA lets a secondary do
   * without news (RFC 1034 §4.3.5, EXPIRE).
   */
  expireOutdated(nowMs: number): void {
    for (const { zone, servedVersion, since, takenOctets } of this.leftOut) {
      if (servedVersion === undefined) continue;
      if (nowMs - since.getTime() <= zone.expireSeconds * 1_000) continue;
      this.#held.delete(zone.id);
      this.#leaveOut(zone, takenOctets, 0);
    }
  }

  /** Leaves zones alone in `publish` until they are released. Done again, it forgets that they were withdrawn before. */
  holdBack(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) this.#heldBack.set(id, { withdrawn: false });
  }

  release(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) this.#heldBack.delete(id);
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
      (zone) => zoneIds.has(zone.id) && this.#isNews(zone) && this.#hasApex(zone),
    );
    await this.#publishChanged(client, zones, false);
    return zones.filter((zone) => this.#isPublished(zone));
  }

  #isWanted({ published, resellerId }: ZoneState): boolean {
    return published && this.isInScope(resellerId);
  }

  #isNews(zone: ZoneState): boolean {
    return this.#isWanted(zone) && !this.#isPublished(zone) && !this.#unreadable.isTried(zone);
  }

  #isPublished({ id, version }: ZoneState): boolean {
    return this.#held.versionOf(id) === version;
  }

  /** @returns the zones that are not published, because they take long and the caller wants such held back */
  async #publishChanged(
    client: pg.Client,
    changed: readonly ZoneState[],
    holdsLargeBack: boolean,
  ): Promise<readonly ZoneState[]> {
    this.#changes += changed.length;
    const known = changed.filter(({ id }) => (this.#held.versionOf(id) ?? UNKNOWN_VERSION) > UNKNOWN_VERSION);
    const done = new Set<ZoneState>();
    const versions = new Map(known.map(({ id }) => [id, this.#held.versionOf(id)!]));
    const versionOf = ({ id }: ZoneState) => versions.get(id)!;
    const onCorruptJournal = (zone: ZoneState, err: unknown) =>
      this.#observe({ kind: "journal-corrupt", level: "warn", ...nameOf(zone), err });
    for await (const [zone, names] of readChangedNames(client, known, versionOf, onCorruptJournal)) {
      // It may have been withdrawn while its records were read.
      if (!this.#held.has(zone.id) || this.#putNames(zone, names)) done.add(zone);
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
      this.#takeFailure(zone, error, { takenOctets, ms: performance.now() - startedMs });
      return true;
    }
    writer.setNegativeTtl(reference, zone.negativeTtlSeconds);
    this.#notePublished(zone);
    return true;
  }

  /** Loads zones aside, each to be seen when it is whole. */
  async #publishWhole(client: pg.Client, zones: readonly ZoneState[]): Promise<void> {
    if (zones.length === 0) return;
    const startedMs = performance.now();
    const loading = new WholeZones(this.#writer, zones, {
      isWanted: ({ id }) => this.#heldBack.get(id)?.withdrawn !== true,
      onPublished: (zone, reference) => this.#notePublished(zone, reference),
      onFailed: (zone, error, takenOctets) =>
        this.#takeFailure(zone, error, { takenOctets, ms: performance.now() - startedMs }),
    });
    try {
      await streamRecords(client, selectionOf(zones.map(({ id }) => id)), (record) => loading.add(record));
      loading.finish();
    } catch (error) {
      loading.discard();
      throw error;
    }
  }

  #notePublished(zone: ZoneState, reference?: number): void {
    this.#held.set(zone.id, zone, reference);
    this.#unreadable.delete(zone.id);
    this.#suspended.delete(zone.id);
    if (this.#leftOut.remove(zone.id)) this.#observe({ kind: "zone-fits-again", level: "info", ...nameOf(zone) });
  }

  /** @throws what is no fault of the zone's */
  #takeFailure(zone: ZoneState, error: unknown, attempt: { readonly takenOctets: number; readonly ms: number }): void {
    // Gone while it was loaded, it is missed by nobody.
    const isGone = this.#heldBack.get(zone.id)?.withdrawn === true;
    if (error instanceof ZoneDatabaseFullError) {
      if (!isGone) this.#leaveOut(zone, attempt.takenOctets, attempt.ms);
    } else if (error instanceof CorruptRecordError) {
      if (!isGone) this.noteCorrupt(zone, error);
    } else throw error;
  }

  /** Leaves a zone as it is answered, or all of it SERVFAIL where it is not: it does not fit. */
  #leaveOut(zone: ZoneSummary, takenOctets: number, ms: number): void {
    const writer = this.#writer;
    const servedVersion = this.#held.versionOf(zone.id);
    if (servedVersion === undefined && this.#showPlaceHolder(zone, () => writer.withholdZone(zone)))
      this.#suspended.delete(zone.id);
    this.#unreadable.delete(zone.id);
    if (this.#leftOut.add(zone, { servedVersion, takenOctets, ms })) {
      const { usedOctets, totalOctets } = writer;
      const memory = { servesLastVersion: servedVersion !== undefined, takenOctets, usedOctets, totalOctets };
      this.#observe({ kind: "zone-left-out", level: "error", ...nameOf(zone), ...memory });
    }
    // What the attempt had taken is for others.
    if (this.#isFirst) this.#collectAll();
    else writer.collect(COLLECT_NODES);
  }

  /** Even for a place-holder there may be room only after what was given up is taken apart. @returns whether it is shown */
  #showPlaceHolder(zone: SuspendedZone, show: () => void): boolean {
    if (!isApex(zone.apex)) return false;
    do {
      try {
        show();
        return true;
      } catch (error) {
        if (!(error instanceof ZoneDatabaseFullError)) throw error;
      }
    } while (this.#writer.collect(COLLECT_NODES));
    this.#observe({ kind: "zone-not-withheld", level: "error", ...nameOf(zone) });
    return false;
  }

  /** Takes larger zones out again for smaller ones that came after them. */
  async #preferSmaller(client: pg.Client): Promise<void> {
    const writer = this.#writer;
    const waiting = this.leftOut.map(({ zone }) => zone);
    const measured = await measureZones(
      client,
      waiting.map(({ id }) => id),
    );
    const octets = new Map<ZoneSummary, number>(waiting.map((zone) => [zone, measured.get(zone.id)!]));
    for (const zone of await readZones(client, [...this.#held.ids()])) {
      octets.set(zone, writer.octetsOf(writer.publishedZone(zone.apex)));
    }
    const smaller = this.makeRoomForSmaller(octets);
    await this.#publishWhole(client, await readZones(client, [...smaller]));
  }
}

/** A zone as observations name it. */
function nameOf({ id, apex }: Pick<ZoneSummary, "id" | "apex">): { readonly zone: string; readonly zoneId: number } {
  return { zone: apexText(apex), zoneId: id };
}

/** The ids of those zones that take long to load whole: large ones, or all where they are many. */
async function largeAmong(client: pg.Client, zones: readonly ZoneState[]): Promise<ReadonlySet<number>> {
  const ids = zones.map(({ id }) => id);
  if (ids.length > MANY_ZONES) return new Set(ids);
  return new Set(ids.length === 0 ? [] : await findLargeZones(client, ids, LARGE_ZONE_RECORDS));
}
