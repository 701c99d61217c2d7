import type pg from "pg";
import { nameSortKey } from "../../core/dns/name.ts";
import { decodeRecords } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { groupBy } from "../../core/groups.ts";
import { type JournalEntry, readJournal, readRecordsAt, type ZoneRecord } from "../../store/dns/published-zones.ts";
import type { ZoneState } from "../../store/dns/zone-states.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import { isBelowApex, isSameName } from "./stored-names.ts";

/** From so many changed names on, a zone is loaded whole. */
const MAX_NAMES_ONE_BY_ONE = 20_000;
/**
 * From so many octets of changes on as well. Of all zones together no more is read at a time: decoded it takes some
 * tens of MiB.
 */
const MAX_JOURNAL_OCTETS = 4 * 2 ** 20;
/** Zones with more octets of records at their changed names are loaded whole; no more is read at a time either. */
const MAX_RECORD_OCTETS = 4 * 2 ** 20;
/** Zones whose changes are read at a time. */
const ZONES_AT_A_TIME = 100;

/** A changed name: its owner in wire form and its key in the database. */
interface ChangedName {
  readonly zoneId: number;
  readonly owner: Uint8Array;
  readonly ownerKey: Uint8Array;
}

/** The records that a name has now. */
export interface NameContent {
  readonly owner: Uint8Array;
  readonly records: readonly ZoneRecord[];
}

/**
 * What is new of zones name by name, the apex last, as far as the journal reaches back and there is little enough of it;
 * other zones are passed over, to be loaded whole, as are those whose journal, or what they have at these names, cannot be read.
 * So that memory is bounded, zones whose changes are large come by themselves: at most 4 MiB of the journal and 4 MiB of
 * records are read at a time.
 * @param versionOf the version that is published, which must be known
 * @param onCorruptJournal told of a zone whose journal cannot be read
 */
export async function* readChangedNames(
  client: pg.Client,
  zones: readonly ZoneState[],
  versionOf: (zone: ZoneState) => number,
  onCorruptJournal: (zone: ZoneState, err: unknown) => void,
): AsyncGenerator<readonly [zone: ZoneState, names: readonly NameContent[]]> {
  for (let waiting = zones; waiting.length > 0; ) {
    const some = waiting.slice(0, ZONES_AT_A_TIME);
    const known = some.map((zone) => ({ id: zone.id, version: versionOf(zone) }));
    const journal = await readJournal(client, known, MAX_JOURNAL_OCTETS);
    const byZone = groupBy(journal.rows, (entry) => entry.zoneId);
    const names = new Map<ZoneState, readonly ChangedName[]>();
    for (const zone of some) {
      const entries = byZone.get(zone.id) ?? [];
      // A version that the journal does not hold leaves a gap.
      if (entries.length !== zone.version - versionOf(zone)) continue;
      try {
        const changed = namesIn(zone, entries);
        if (changed.length <= MAX_NAMES_ONE_BY_ONE) names.set(zone, changed);
      } catch (err) {
        onCorruptJournal(zone, err);
      }
    }
    yield* readContents(client, names);
    waiting = [...some.filter(({ id }) => journal.later.has(id)), ...waiting.slice(some.length)];
  }
}

/** The records at names of zones, as far as they are not too much. */
async function* readContents(
  client: pg.Client,
  names: ReadonlyMap<ZoneState, readonly ChangedName[]>,
): AsyncGenerator<readonly [zone: ZoneState, names: readonly NameContent[]]> {
  for (let waiting = [...names.keys()]; waiting.length > 0; ) {
    const some = firstWithin(waiting, MAX_NAMES_ONE_BY_ONE, (zone) => names.get(zone)!.length);
    const wanted = some.flatMap((zone) => names.get(zone)!);
    const { rows, tooLarge, later } = await readRecordsAt(client, wanted, MAX_RECORD_OCTETS);
    const byZone = groupBy(rows, ({ zoneId }) => zoneId);
    for (const zone of some) {
      if (tooLarge.has(zone.id) || later.has(zone.id)) continue;
      const contents = contentsOf(names.get(zone)!, byZone.get(zone.id) ?? []);
      if (contents) yield [zone, contents];
    }
    waiting = [...some.filter(({ id }) => later.has(id)), ...waiting.slice(some.length)];
  }
}

/** The records by their names; undefined where the owner of one is none of these, though its place in the database is. */
function contentsOf(names: readonly ChangedName[], records: readonly ZoneRecord[]): readonly NameContent[] | undefined {
  const byName = groupBy(records, ({ owner }) => placeOf(owner));
  const contents = names.map(({ owner }) => ({ owner, records: byName.get(placeOf(owner)) ?? [] }));
  const isRight = ({ owner, records }: NameContent) =>
    records.every((one) => one.owner.length === owner.length && isSameName(owner, one.owner, 0, owner.length));
  const found = contents.reduce((sum, content) => sum + content.records.length, 0);
  return found === records.length && contents.every(isRight) ? contents : undefined;
}

/** As many of the first ones as are within a limit together, and at least one. */
function firstWithin<T>(values: readonly T[], limit: number, sizeOf: (value: T) => number): T[] {
  let sum = 0;
  const end = values.findIndex((value, index) => {
    sum += sizeOf(value);
    return index > 0 && sum > limit;
  });
  return values.slice(0, end < 0 ? values.length : end);
}

/**
 * The owners of a zone's journal entries, each once, the apex last, as its SOA changes with every version.
 * @throws where an entry cannot be read
 */
function namesIn(zone: ZoneState, entries: readonly JournalEntry[]): ChangedName[] {
  const names = new Map<string, ChangedName>();
  for (const octets of entries.flatMap(({ deleted, added }) => [deleted, added])) {
    const records = decodeRecords(octets);
    if (records[0]?.type !== TYPE.SOA) throw new CorruptRecordError("a version does not begin with its SOA");
    for (const { owner } of records) {
      if (owner.wire.length === zone.apex.length || names.has(owner.key)) continue;
      if (!isBelowApex(zone.apex, owner.wire, 0, owner.wire.length))
        throw new CorruptRecordError("an owner is no name of its zone");
      names.set(owner.key, { zoneId: zone.id, owner: owner.wire, ownerKey: nameSortKey(owner.wire) });
    }
  }
  return [...names.values(), { zoneId: zone.id, owner: zone.apex, ownerKey: nameSortKey(zone.apex) }];
}

function placeOf(owner: Uint8Array): string {
  return Buffer.from(nameSortKey(owner)).toString("latin1");
}
