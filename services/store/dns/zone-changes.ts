import type { Follower } from "../../core/dns/follow/follower.ts";
import type { FollowerChange } from "../../core/dns/follow/follower-edits.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { formatDomainName, nameSortKey } from "../../core/dns/name.ts";
import { encodeRecords, type ResourceRecord, recordWireLength } from "../../core/dns/record.ts";
import type { SerialType } from "../../core/dns/serial.ts";
import { type SoaRdata, soaRecord } from "../../core/dns/soa.ts";
import type { RecordDifference, ZoneChange } from "../../core/dns/zone-edit.ts";
import type { ZoneMaker } from "../../core/dns/zone-tenancy.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../platform/postgres/db.ts";
import {
  deletionOf,
  derivedDeletionOf,
  derivedInsertionOf,
  followerDeletionOf,
  followerInsertionOf,
  followerOverwritingOf,
  insertionOf,
  type JournalRow,
  journalOf,
  overwritingOf,
  RESERVES,
  type StatementPart,
  writeChangeSql,
} from "./zone-change-sql.ts";
import type { JournalFollowers } from "./zone-history.ts";
import { notePredecessors } from "./zone-names.ts";
import { type Zone, zoneName } from "./zones.ts";

/** What a row of the journal holds: the SOA first, then the records; nulls for a change that is too large to keep. */
export type JournalColumns = readonly [deleted: Uint8Array | null, added: Uint8Array | null];

/** A journal row above this is left out; readers of the journal then take the whole zone. */
export const MOST_JOURNAL_OCTETS = 64 * 2 ** 20;

/** From so many derived records on that come and go, readers of the journal take the whole zone as well. */
const MOST_DERIVED_JOURNALLED = 50_000;

/** Records that one statement inserts: to write out more of them would hold up everybody else. */
export const RECORDS_A_STATEMENT = 2_000;

/** And no more octets of them, in wire form. */
const OCTETS_A_STATEMENT = 2 ** 20;

/** By how much a zone grows: its customer's records, and octets of the zone database, signatures included. */
export interface Growth {
  readonly records: number;
  readonly octets: number;
}

/** A zone that is to be made. */
export interface ZoneToInsert {
  readonly apex: DomainName;
  readonly kind: "primary" | "feed" | "catalog";
  /** Null for nobody's: a feed. */
  readonly resellerId: string | null;
  /** Null for the operator's: feeds and catalogs. */
  readonly companyId: number | null;
  readonly maker: ZoneMaker;
  readonly companySuspended?: boolean;
  readonly serialType: SerialType;
  readonly soa: SoaRdata;
  readonly ttl: number;
  /** All but the SOA. */
  readonly records: readonly ResourceRecord[];
  readonly followers?: readonly Follower[] | undefined;
  /** What it takes, and holds, of its company's quotas. */
  readonly usage?: { readonly records: number; readonly octets: number };
}

/**
 * Makes a zone with all its records, and the first row of its journal.
 * @returns its id; undefined when the deployment has a zone of that name
 */
export async function insertZone(
  transaction: Transaction,
  zone: ZoneToInsert,
  actor: string,
): Promise<number | undefined> {
  const { apex, soa, ttl, records, resellerId, usage, followers = [] } = zone;
  const [inserted] = await transaction("zones")
    .insert({
      kind: zone.kind,
      reseller_id: resellerId,
      company_id: zone.companyId,
      made_by: zone.maker,
      name: zoneName(apex),
      name_key: nameSortKey(apex.wire),
      apex: Buffer.from(apex.key, "latin1"),
      company_suspended: zone.companySuspended ?? false,
      serial_type: zone.serialType,
      ttl,
      ...{ ...soa, mname: soa.mname.wire, rname: soa.rname.wire },
      ...(usage && { ...usage, records_held: usage.records, octets_held: usage.octets }),
    })
    .onConflict()
    .ignore()
    .returning("id");
  if (!inserted) return undefined;
  const id: number = inserted.id;
  await notePredecessors(transaction, { zoneId: id, apex, resellerId });
  await insertRecords(transaction, id, records);
  if (followers.length > 0) await insertFollowers(transaction, id, followers);
  const [deleted, added] = journalColumns(undefined, soaRecord(apex, soa, ttl), { deleted: [], added: records });
  if (added === null) return id;
  await transaction("zone_journal").insert({
    ...{ zone_id: id, version: 1, serial_before: null, serial: soa.serial },
    ...{ actor, deleted, added },
    ...(followers.length > 0 && {
      followers: JSON.stringify(followersInJournal({ deleted: [], updated: [], created: followers })),
    }),
  });
  return id;
}

/** Keeps a zone from being changed until the transaction ends, when there is one of this name. */
export async function lockZoneNamed(transaction: Db, apex: DomainName): Promise<void> {
  await queryRows(transaction, "select 1 from zones where name = $1 for update", [zoneName(apex)]);
}

/** Inserts records of a zone that the transaction has made or locked. @returns their ids, in order */
export async function insertRecords(db: Db, zoneId: number, records: readonly ResourceRecord[]): Promise<number[]> {
  const ids: number[] = [];
  for (const part of portionsOf(records)) {
    const values = new StatementValues(zoneId);
    const { sql } = insertionOf(part, "(select $1::bigint as id) as zone", values);
    for (const { id } of await queryRows<{ id: number }>(db, sql, values.all)) ids.push(id);
  }
  return ids.sort((a, b) => a - b);
}

async function insertFollowers(db: Db, zoneId: number, followers: readonly Follower[]): Promise<void> {
  const values = new StatementValues(zoneId);
  const { sql } = followerInsertionOf(followers, values, false);
  await queryRows(db, `with zone as (select $1::bigint as id) ${sql}`, values.all);
}

/** Records in portions of a statement: a statement's text has each octet twice, and is held several times. */
function* portionsOf(records: readonly ResourceRecord[]): Generator<readonly ResourceRecord[]> {
  let start = 0;
  let octets = 0;
  for (const [index, record] of records.entries()) {
    octets += recordWireLength(record);
    if (index + 1 - start < RECORDS_A_STATEMENT && octets < OCTETS_A_STATEMENT) continue;
    yield records.slice(start, index + 1);
    start = index + 1;
    octets = 0;
  }
  if (start < records.length) yield records.slice(start);
}

/** The journal row of a change, or nulls when it is too large to keep. */
function journalColumns(
  before: ResourceRecord | undefined,
  after: ResourceRecord,
  difference: RecordDifference,
): JournalColumns {
  const deleted = before ? [before, ...difference.deleted] : [];
  const added = [after, ...difference.added];
  if (wireOctets(deleted) + wireOctets(added) > MOST_JOURNAL_OCTETS) return [null, null];
  return [encodeRecords(deleted), encodeRecords(added)];
}

function wireOctets(records: readonly ResourceRecord[]): number {
  return records.reduce((sum, record) => sum + recordWireLength(record), 0);
}

/** The journal's row of a change. */
export function differenceOf(zone: Zone, { soa, ttl, difference }: ZoneChange): JournalColumns {
  return journalColumns(soaRecord(zone.apex, zone.soa, zone.ttl), soaRecord(zone.apex, soa, ttl), difference);
}

export interface WriteOptions {
  readonly actor: string;
  readonly growth: Growth;
  /** Only when the zone holds what it grows by (quotas.ts). */
  readonly withinHeld: boolean;
  /** Whether what is created is written as well; else it is for the caller to insert. */
  readonly insertsRecords?: boolean;
}

/**
 * Writes a change of a zone by one statement: records, serial, journal.
 * @returns undefined when the zone has changed since it was read
 */
export async function writeZoneChange(
  db: Db,
  zone: Zone,
  change: ZoneChange,
  { actor, growth, withinHeld, insertsRecords = true }: WriteOptions,
): Promise<WrittenChange | undefined> {
  const { soa, ttl, rows, derived, followers } = change;
  const times = [soa.refresh, soa.retry, soa.expire, soa.minimum, ttl, change.cachedUntil ?? null];
  const values = new StatementValues(
    ...[soa.serial, soa.mname.wire, soa.rname.wire, ...times, growth.records, growth.octets, zone.id, zone.version],
  );
  const parts: StatementPart[] = [];
  if (rows.deletedIds.length > 0) parts.push(deletionOf(rows.deletedIds, values));
  if (rows.updated.length > 0) parts.push(overwritingOf(rows.updated, values));
  if (rows.created.length > 0 && insertsRecords) parts.push(insertionOf(rows.created, "zone", values));
  if (derived && derived.deleted.length > 0) parts.push(derivedDeletionOf(derived.deleted, values));
  if (derived && derived.added.length > 0 && insertsRecords) parts.push(derivedInsertionOf(derived.added, values));
  if (followers && followers.deleted.length > 0) parts.push(followerDeletionOf(followers.deleted, values));
  if (followers && followers.updated.length > 0) {
    parts.push(
      followerOverwritingOf(
        followers.updated.map(({ after }) => after),
        values,
      ),
    );
  }
  if (followers && followers.created.length > 0) {
    parts.push(followerInsertionOf(followers.created, values, followers.deleted.length > 0));
  }
  if (growth.records < 0 || growth.octets < 0) parts.push(RESERVES);
  const row = journalRow(zone, change, actor);
  if (row) parts.push(journalOf(row, values));
  const written = await queryRows<{ created_ids: string[]; follower_ids: string[] }>(
    db,
    writeChangeSql(parts, { withinHeld }),
    values.all,
    {
      name: `write zone${withinHeld ? "+" : ""}: ${parts.map(({ name }) => name).join(" ")}`,
    },
  );
  const [ids] = written;
  // An array of bigint arrives as texts.
  return ids && { createdIds: ids.created_ids.map(Number), followerIds: ids.follower_ids.map(Number) };
}

/** The ids of what a change created, in its order. */
export interface WrittenChange {
  readonly createdIds: readonly number[];
  readonly followerIds: readonly number[];
}

/** The journal's row of a change, for {@link journalOf}; undefined when it would be too large to keep. */
function journalRow(zone: Zone, change: ZoneChange, actor: string): JournalRow | undefined {
  const { derived, followers } = change;
  const [deleted, added] = differenceOf(zone, change);
  if (!deleted || !added) return undefined;
  if (derived && derived.deleted.length + derived.added.length > MOST_DERIVED_JOURNALLED) return undefined;
  return {
    ...{ serial_before: zone.soa.serial, actor, deleted, added },
    ...(derived && {
      derived_deleted: encodeRecords(derived.deleted),
      derived_added: encodeRecords(derived.added),
    }),
    ...(followers && { followers: JSON.stringify(followersInJournal(followers)) }),
  };
}

/** What the journal holds of followers; null where none changed. */
export function followersInJournal(change: FollowerChange | undefined): JournalFollowers | null {
  if (!change) return null;
  const { deleted, updated, created } = change;
  const textOf = ({ owner, kind, definition }: Follower) => ({ owner: formatDomainName(owner), kind, definition });
  return {
    deleted: [...deleted, ...updated.map(({ before }) => before)].map(textOf),
    added: [...updated.map(({ after }) => after), ...created].map(textOf),
  };
}
