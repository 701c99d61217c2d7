import type pg from "pg";
import { nameSortKey } from "../core/dns/name.ts";
import { decodeRecords } from "../core/dns/record.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import {
  type JournalEntry,
  readJournal,
  readRecordsAt,
  type StreamedRecord,
  streamRecords,
  type ZoneState,
} from "../store/published-zones.ts";
import { LOWER_CASE } from "./picture/layout.ts";
import type { PictureRecord } from "./picture/stored-rrset.ts";
import type { PictureWriter } from "./picture/writer.ts";

/** From so many changed names on, a zone is loaded whole. */
const MAX_NAMES_ONE_BY_ONE = 20_000;
/** From so many zones on, all published ones are streamed rather than those that are named. */
const MAX_NAMED_ZONES = 20_000;

/** A zone that the picture holds. */
interface PublishedZone {
  readonly apex: Uint8Array;
  readonly version: number;
}

/** A changed name: its owner in wire form and its key in the database. */
interface ChangedName {
  readonly zoneId: number;
  readonly owner: Uint8Array;
  readonly ownerKey: Uint8Array;
}

/** Brings zones of the picture to the state that the database has: name by name where the journal reaches, else whole. */
export class ZonePublisher {
  readonly #writer: PictureWriter;
  readonly #published = new Map<number, PublishedZone>();

  constructor(writer: PictureWriter) {
    this.#writer = writer;
  }

  /** Takes zones out of the picture. */
  withdraw(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) {
      const zone = this.#published.get(id);
      if (!zone) continue;
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
   * Publishes what is new of these zones, and withdraws those that are suspended.
   * @param client in the snapshot in which the zones were read
   * @returns those of them that had changed and are published
   */
  async publish(client: pg.Client, zones: readonly ZoneState[]): Promise<readonly ZoneState[]> {
    this.withdraw(zones.filter(({ published }) => !published).map(({ id }) => id));
    const changed = zones.filter(
      ({ id, published, version }) => published && this.#published.get(id)?.version !== version,
    );
    const known = changed.filter(({ id }) => this.#published.has(id));
    const names = await this.#changedNames(client, known);
    await this.#publishNames(
      client,
      known.filter(({ id }) => names.has(id)),
      names,
    );
    await this.#publishWhole(
      client,
      changed.filter(({ id }) => !names.has(id)),
    );
    return changed;
  }

  /** The names that changed in each zone; a zone is missing where the journal does not reach back, or has too many. */
  async #changedNames(client: pg.Client, zones: readonly ZoneState[]): Promise<Map<number, ChangedName[]>> {
    const known = zones.map(({ id }) => ({ id, version: this.#published.get(id)!.version }));
    const entries = known.length > 0 ? await readJournal(client, known) : [];
    const byZone = groupBy(entries, (entry) => entry.zoneId);
    const names = new Map<number, ChangedName[]>();
    for (const zone of zones) {
      const ofZone = byZone.get(zone.id) ?? [];
      // A version that the journal does not hold leaves a gap.
      if (ofZone.length !== zone.version - this.#published.get(zone.id)!.version) continue;
      const changed = namesIn(zone, ofZone);
      if (changed.length <= MAX_NAMES_ONE_BY_ONE) names.set(zone.id, changed);
    }
    return names;
  }

  async #publishNames(
    client: pg.Client,
    zones: readonly ZoneState[],
    names: ReadonlyMap<number, readonly ChangedName[]>,
  ): Promise<void> {
    const wanted = zones.flatMap(({ id }) => names.get(id)!);
    const records = wanted.length > 0 ? await readRecordsAt(client, wanted) : [];
    const byName = groupBy(records, ({ zoneId, owner }) => nameKey(zoneId, owner));
    for (const zone of zones) {
      const reference = this.#writer.publishedZone(zone.apex);
      // The apex comes last, so that whoever sees the new serial sees the new records.
      for (const { zoneId, owner } of names.get(zone.id)!) {
        const isApex = owner.length === zone.apex.length;
        const ofName = byName.get(nameKey(zoneId, owner)) ?? [];
        this.#writer.setName(reference, ofName[0]?.owner ?? owner, isApex ? [soaOf(zone), ...ofName] : ofName);
      }
      this.#writer.setNegativeTtl(reference, negativeTtlSeconds(zone));
      this.#published.set(zone.id, { apex: zone.apex, version: zone.version });
    }
  }

  /** Loads zones aside, each to be seen when it is whole. */
  async #publishWhole(client: pg.Client, zones: readonly ZoneState[]): Promise<void> {
    if (zones.length === 0) return;
    const loading = new WholeZones(this.#writer, zones, ({ id, apex, version }) => {
      this.#published.set(id, { apex, version });
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
}

/** Takes records in the order of `streamRecords` and publishes each zone after its last. */
class WholeZones {
  readonly #writer: PictureWriter;
  readonly #zones: readonly ZoneState[];
  readonly #onPublished: (zone: ZoneState) => void;
  /** Index of the zone being loaded. */
  #index = 0;
  /** Its reference in the picture; 0 before its first record. */
  #reference = 0;
  /** The name at hand. */
  #owner: Uint8Array = new Uint8Array(0);

  /** @param zones by ascending id */
  constructor(writer: PictureWriter, zones: readonly ZoneState[], onPublished: (zone: ZoneState) => void) {
    this.#writer = writer;
    this.#zones = zones;
    this.#onPublished = onPublished;
    this.#begin();
  }

  add({ zoneId, octets, ownerStart, ownerOctets, type, ttl, rdataStart, rdataOctets }: StreamedRecord): void {
    while (this.#index < this.#zones.length && this.#zones[this.#index]!.id < zoneId) this.#publish();
    // All zones are streamed when many are wanted: this is none of them.
    if (this.#zones[this.#index]?.id !== zoneId) return;
    if (!isSameName(this.#owner, octets, ownerStart, ownerOctets)) {
      this.#writer.endName(this.#reference, this.#owner);
      // A copy: `slice` of the Buffer that this is would be a view of octets that are about to change.
      this.#owner = Uint8Array.prototype.slice.call(octets, ownerStart, ownerStart + ownerOctets);
      this.#writer.beginName(this.#reference);
    }
    this.#writer.addRecord(type, ttl, octets, rdataStart, rdataStart + rdataOctets);
  }

  finish(): void {
    while (this.#index < this.#zones.length) this.#publish();
  }

  discard(): void {
    if (this.#index < this.#zones.length) this.#writer.discardZone(this.#reference);
  }

  #begin(): void {
    const zone = this.#zones[this.#index];
    if (!zone) return;
    this.#reference = this.#writer.createZone({
      apex: zone.apex,
      negativeTtlSeconds: negativeTtlSeconds(zone),
      restricted: zone.restricted,
    });
    // The apex is the first name in canonical order, and its SOA is no row.
    const { type, ttl, rdata } = soaOf(zone);
    this.#owner = zone.apex;
    this.#writer.beginName(this.#reference);
    this.#writer.addRecord(type, ttl, rdata, 0, rdata.length);
  }

  #publish(): void {
    const zone = this.#zones[this.#index]!;
    this.#writer.endName(this.#reference, this.#owner);
    this.#writer.publishZone(this.#reference);
    this.#onPublished(zone);
    this.#index += 1;
    this.#begin();
  }
}

function soaOf(zone: ZoneState): PictureRecord {
  return { type: TYPE.SOA, ttl: zone.soaTtlSeconds, rdata: zone.soaRdata };
}

/** RFC 2308 §5. */
function negativeTtlSeconds(zone: ZoneState): number {
  return Math.min(zone.soaTtlSeconds, zone.minimumSeconds);
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

/** Whether a name is the one that stands among other octets, ASCII case aside (RFC 4343). */
function isSameName(name: Uint8Array, octets: Uint8Array, start: number, length: number): boolean {
  if (name.length !== length) return false;
  for (let index = 0; index < length; index += 1) {
    if (LOWER_CASE[name[index]!] !== LOWER_CASE[octets[start + index]!]) return false;
  }
  return true;
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
