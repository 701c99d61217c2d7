import type pg from "pg";
import { formatDomainName, nameFromStoredWire, nameSortKey } from "../core/dns/name.ts";
import { decodeRecords } from "../core/dns/record.ts";
import type { Observe } from "../platform/observation.ts";
import { findLargeZones } from "../store/dns/large-zones.ts";
import {
  type JournalEntry,
  readJournal,
  readRecordsAt,
  streamRecords,
  type ZoneRecord,
  type ZoneState,
} from "../store/dns/published-zones.ts";
import { CorruptRecordError } from "./picture/stored-rrset.ts";
import type { PictureWriter } from "./picture/writer.ts";
import { negativeTtlSeconds, soaOf, WholeZones } from "./whole-zones.ts";

/** From so many changed names on, a zone is loaded whole. */
const MAX_NAMES_ONE_BY_ONE = 20_000;
/** From so many zones on, all published ones are streamed rather than those that are named. */
const MAX_NAMED_ZONES = 20_000;

/** From so many records on a zone takes so long that others should not have to wait for it. */
const LARGE_ZONE_RECORDS = 5_000;
/** So many zones take as long as a large one. */
const MANY_ZONES = 1_000;

/** Below every version. */
const UNKNOWN_VERSION = -1;

/** A zone that the picture holds. */
export interface PublishedZone {
  readonly apex: Uint8Array;
  readonly version: number;
}

/** A changed name: its owner in wire form and its key in the database. */
interface ChangedName {
  readonly zoneId: number;
  readonly owner: Uint8Array;
  readonly ownerKey: Uint8Array;
}

/** What came of an attempt to publish zones. */
export interface Publication {
  /** Those that had changed and are published. */
  readonly published: readonly ZoneState[];
  /** Those that are held back from now on. */
  readonly heldBack: readonly ZoneState[];
}

/** The records that a name has now. */
interface NameContent {
  readonly owner: Uint8Array;
  readonly records: readonly ZoneRecord[];
}

/** Brings zones of the picture to the state that the database has: name by name where the journal reaches, else whole. */
export class ZonePublisher {
  readonly #writer: PictureWriter;
  readonly #observe: Observe;
  readonly #published = new Map<number, PublishedZone>();
  /** Zones that `publish` leaves to `publishHeldBack`, and whether they have been withdrawn since they were held back. */
  readonly #heldBack = new Map<number, { withdrawn: boolean }>();
  #changes = 0;
  /** Of the database that the versions are of. */
  #incarnation = "";

  constructor(writer: PictureWriter, observe: Observe) {
    this.#writer = writer;
    this.#observe = observe;
  }

  /** The zones of the picture by id. */
  get published(): ReadonlyMap<number, PublishedZone> {
    return this.#published;
  }

  /** Counts what happens to the picture. */
  get changes(): number {
    return this.#changes;
  }

  /** Which life of the database the versions belong to (store/incarnation.ts). */
  get incarnation(): string {
    return this.#incarnation;
  }

  /** In another life of the database a version says nothing: every zone is then loaded whole. */
  follow(incarnation: string): void {
    if (incarnation === this.#incarnation) return;
    this.#incarnation = incarnation;
    for (const [id, { apex }] of this.#published) this.#published.set(id, { apex, version: UNKNOWN_VERSION });
  }

  /** Takes over a zone that somebody else has put into the picture. */
  adopt(id: number, zone: PublishedZone): void {
    this.#published.set(id, zone);
  }

  /** Takes zones out of the picture. */
  withdraw(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) {
      const heldBack = this.#heldBack.get(id);
      if (heldBack) heldBack.withdrawn = true;
      const zone = this.#published.get(id);
      if (!zone) continue;
      this.#changes += 1;
      this.#writer.withdrawZone(zone.apex);
      this.#published.delete(id);
    }
  }

  /** Takes all zones out of the picture that are not among these. */
  withdrawAllBut(zones: readonly ZoneState[]): void {
    const kept = new Set(zones.map(({ id }) => id));
    this.withdraw([...this.#published.keys()].filter((id) => !kept.has(id)));
  }

  /**
   * Publishes what is new of these zones, and withdraws those that are suspended. One with a corrupt record stays as it
   * was, until it changes again.
   * @param client in the snapshot in which the zones were read
   * @param holdsLargeBack whether zones that take long to load are held back, beside those that are already
   */
  async publish(client: pg.Client, zones: readonly ZoneState[], holdsLargeBack = false): Promise<Publication> {
    this.withdraw(zones.filter(({ published }) => !published).map(({ id }) => id));
    const changed = zones.filter((zone) => this.#isNews(zone));
    const free = changed.filter(({ id }) => !this.#heldBack.has(id));
    const heldBack = changed.filter(({ id }) => this.#heldBack.has(id));
    const large = await this.#publishChanged(client, free, holdsLargeBack);
    return { published: free.filter((zone) => this.#isPublished(zone)), heldBack: [...heldBack, ...large] };
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
    const zones = (await readZones()).filter((zone) => zoneIds.has(zone.id) && this.#isNews(zone));
    await this.#publishChanged(client, zones, false);
    return zones.filter((zone) => this.#isPublished(zone));
  }

  #isNews({ id, published, version }: ZoneState): boolean {
    return published && this.#published.get(id)?.version !== version;
  }

  #isPublished({ id, version }: ZoneState): boolean {
    return this.#published.get(id)?.version === version;
  }

  /** @returns the zones that are not published, because they take long and the caller wants such held back */
  async #publishChanged(
    client: pg.Client,
    changed: readonly ZoneState[],
    holdsLargeBack: boolean,
  ): Promise<readonly ZoneState[]> {
    this.#changes += changed.length;
    const known = changed.filter(({ id }) => (this.#published.get(id)?.version ?? UNKNOWN_VERSION) > UNKNOWN_VERSION);
    const names = await this.#changedNames(client, known);
    const renewed = await this.#publishNames(
      client,
      known.filter(({ id }) => names.has(id)),
      names,
    );
    const whole = changed.filter((zone) => !names.has(zone.id) || renewed.has(zone));
    const large = holdsLargeBack ? await largeAmong(client, whole) : new Set();
    await this.#publishWhole(
      client,
      whole.filter(({ id }) => !large.has(id)),
    );
    return whole.filter(({ id }) => large.has(id));
  }

  /** The names that changed in each zone; a zone is missing where the journal does not reach back, or has too many. */
  async #changedNames(client: pg.Client, zones: readonly ZoneState[]): Promise<Map<number, ChangedName[]>> {
    const versions = new Map(zones.map(({ id }) => [id, this.#published.get(id)!.version]));
    const known = [...versions].map(([id, version]) => ({ id, version }));
    const entries = known.length > 0 ? await readJournal(client, known) : [];
    const byZone = groupBy(entries, (entry) => entry.zoneId);
    const names = new Map<number, ChangedName[]>();
    for (const zone of zones) {
      const ofZone = byZone.get(zone.id) ?? [];
      // A version that the journal does not hold leaves a gap.
      if (ofZone.length !== zone.version - versions.get(zone.id)!) continue;
      const changed = namesIn(zone, ofZone);
      if (changed.length <= MAX_NAMES_ONE_BY_ONE) names.set(zone.id, changed);
    }
    return names;
  }

  /**
   * Publishes the changed names of each zone together.
   * @returns the zones that have to be loaded whole all the same: their signing begins, ends or changes its kind
   */
  async #publishNames(
    client: pg.Client,
    zones: readonly ZoneState[],
    names: ReadonlyMap<number, readonly ChangedName[]>,
  ): Promise<ReadonlySet<ZoneState>> {
    const wanted = zones.flatMap(({ id }) => names.get(id)!);
    const records = wanted.length > 0 ? await readRecordsAt(client, wanted) : [];
    const byName = groupBy(records, ({ zoneId, owner }) => nameKey(zoneId, owner));
    const recordsAt = (name: ChangedName) => byName.get(nameKey(name.zoneId, name.owner)) ?? [];
    const renewed = new Set<ZoneState>();
    for (const zone of zones) {
      // It may have been withdrawn while its records were read.
      if (!this.#published.has(zone.id)) continue;
      const changed = names.get(zone.id)!.map((name) => ({ owner: name.owner, records: recordsAt(name) }));
      if (!this.#putNames(zone, changed)) renewed.add(zone);
    }
    return renewed;
  }

  #putNames(zone: ZoneState, names: readonly NameContent[]): boolean {
    const writer = this.#writer;
    const reference = writer.publishedZone(zone.apex);
    const apex = [soaOf(zone), ...names.at(-1)!.records];
    if (!writer.takesApex(reference, apex)) return false;
    try {
      for (const { owner, records } of names.slice(0, -1))
        writer.setName(reference, records[0]?.owner ?? owner, records);
      writer.setName(reference, zone.apex, apex);
    } catch (error) {
      writer.discardZone(reference);
      this.#reportIfCorrupt(zone, error);
      return true;
    }
    writer.setNegativeTtl(reference, negativeTtlSeconds(zone));
    writer.publishZone(reference);
    this.#published.set(zone.id, { apex: zone.apex, version: zone.version });
    return true;
  }

  /** Loads zones aside, each to be seen when it is whole. */
  async #publishWhole(client: pg.Client, zones: readonly ZoneState[]): Promise<void> {
    if (zones.length === 0) return;
    const loading = new WholeZones(this.#writer, zones, {
      isWanted: ({ id }) => this.#heldBack.get(id)?.withdrawn !== true,
      onPublished: ({ id, apex, version }) => this.#published.set(id, { apex, version }),
      onFailed: (zone, error) => this.#reportIfCorrupt(zone, error),
    });
    const named = zones.length > MAX_NAMED_ZONES ? null : zones.map(({ id }) => id);
    try {
      await streamRecords(client, named, (record) => loading.add(record));
      loading.finish();
    } catch (error) {
      loading.discard();
      throw error;
    }
  }

  /** @throws what is no fault of the zone's */
  #reportIfCorrupt({ id, apex }: ZoneState, error: unknown): void {
    if (!(error instanceof CorruptRecordError)) throw error;
    const zone = formatDomainName(nameFromStoredWire(apex));
    this.#observe({ kind: "zone-corrupt", level: "error", zone, zoneId: id, err: error });
  }
}

/** The owners of a zone's journal entries, each once, the apex last, as its SOA changes with every version. */
function namesIn(zone: ZoneState, entries: readonly JournalEntry[]): ChangedName[] {
  const names = new Map<string, ChangedName>();
  for (const octets of entries.flatMap(({ deleted, added }) => [deleted, added])) {
    for (const { owner } of decodeRecords(octets)) {
      if (owner.wire.length === zone.apex.length || names.has(owner.key)) continue;
      names.set(owner.key, { zoneId: zone.id, owner: owner.wire, ownerKey: nameSortKey(owner.wire) });
    }
  }
  return [...names.values(), { zoneId: zone.id, owner: zone.apex, ownerKey: nameSortKey(zone.apex) }];
}

function nameKey(zoneId: number, owner: Uint8Array): string {
  return `${zoneId} ${Buffer.from(nameSortKey(owner)).toString("latin1")}`;
}

/** The ids of those zones that take long to load whole: large ones, or all where they are many. */
async function largeAmong(client: pg.Client, zones: readonly ZoneState[]): Promise<ReadonlySet<number>> {
  const ids = zones.map(({ id }) => id);
  if (ids.length > MANY_ZONES) return new Set(ids);
  return new Set(ids.length === 0 ? [] : await findLargeZones(client, ids, LARGE_ZONE_RECORDS));
}

function groupBy<K, V>(values: readonly V[], keyOf: (value: V) => K): Map<K, V[]> {
  const groups = new Map<K, V[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}
