import type { Follower } from "../../core/dns/follow/follower.ts";
import { type ResourceRecord, readRecords } from "../../core/dns/record.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** Who is named in the journal for what signing does by time; the history leaves such versions out. */
export const SIGNING_ACTOR = "dnssec";

/** Who is named, in the history as well, where what signing had made of a zone was wrong and was made right. */
export const REPAIR_ACTOR = "dnssec-repair";

/** One change of a zone. */
export interface HistoryEntry {
  readonly serial: number;
  readonly at: Date;
  readonly actor: string;
  /** The SOA first, but for a zone's creation. Read a record at a time: a change may be of a million. */
  readonly deleted: Iterable<ResourceRecord>;
  /** The SOA first. */
  readonly added: Iterable<ResourceRecord>;
  /** Aliases and pools; null where none changed. */
  readonly followers: JournalFollowers | null;
  /** What the change did to what signing makes; null where it did nothing. */
  readonly signing: "begun" | "ended" | "renewed" | null;
}

/** Followers as the journal has them: owners in presentation form. */
export interface JournalFollowers {
  readonly deleted: readonly JournalFollower[];
  readonly added: readonly JournalFollower[];
}

export type JournalFollower = Pick<Follower, "kind" | "definition"> & { readonly owner: string };

/** A page ends early when its entries have so many octets together. */
const PAGE_OCTETS = 4 * 2 ** 20;

/** An entry that a page of the history ends before. */
export interface HistoryPlace {
  readonly serial: number;
  /** Tells which one where a serial occurs more than once, as after it was set back: the last that is no newer than this. */
  readonly at?: Date | undefined;
}

/**
 * The changes of a zone, newest first.
 * @param before only those that came before this one, without its time before the oldest of its serial; where there is none,
 *   those whose serial is behind it (RFC 1982)
 * @param limit so many at most, fewer when they are large, at least one
 */
export async function readHistory(
  db: Db,
  zoneId: number,
  before: HistoryPlace | undefined,
  limit: number,
): Promise<HistoryEntry[]> {
  const rows = await queryRows<HistoryRow>(
    db,
    `select serial, at, actor, deleted, added, followers,
            case when coalesce(octet_length(derived_deleted), 0) + coalesce(octet_length(derived_added), 0) = 0 then null
                 when octet_length(derived_deleted) = 0 then 'begun'
                 when octet_length(derived_added) = 0 then 'ended'
                 else 'renewed' end as signing
       ${PAGE} order by version desc`,
    pageValues(zoneId, before, limit),
  );
  return rows.map((row) => ({ ...row, deleted: recordsIn(row.deleted), added: recordsIn(row.added) }));
}

interface HistoryRow extends StoredVersion {
  readonly serial: number;
  readonly at: Date;
  readonly actor: string;
  readonly signing: HistoryEntry["signing"];
}

/** How many octets such a page has, told without reading them. */
export async function measureHistory(
  db: Db,
  zoneId: number,
  before: HistoryPlace | undefined,
  limit: number,
): Promise<number> {
  const [row] = await queryRows<{ octets: number }>(
    db,
    `select coalesce(max(octets), 0)::bigint as octets ${PAGE}`,
    pageValues(zoneId, before, limit),
  );
  return row!.octets;
}

/** The rows of a page, each with the octets of it and of those before it. */
const PAGE = `
  from (
    select *, sum(octet_length(deleted) + octet_length(added)) over (order by version desc) as octets,
           row_number() over (order by version desc) as place
      from (select journal.*
              from zone_journal journal,
                   (select case when $6::timestamptz is null then min(version) else max(version) end as version
                      from zone_journal
                     where zone_id = $1 and serial = $3
                       and ($6::timestamptz is null or date_trunc('milliseconds', at) <= $6)) as seen
             where zone_id = $1 and actor <> $2
               and case when $3::bigint is null then true
                        -- A serial may have been set back: the order is that of the versions. Where its time is not
                        -- told the oldest of a serial is meant, so that paging comes to an end.
                        when seen.version is not null then journal.version < seen.version
                        else (($3 - serial) & 4294967295) between 1 and 2147483647 end
             order by journal.version desc limit $4) page
  ) measured
  where place = 1 or octets <= $5`;

function pageValues(zoneId: number, before: HistoryPlace | undefined, limit: number) {
  return [zoneId, SIGNING_ACTOR, before?.serial ?? null, limit, PAGE_OCTETS, before?.at?.toISOString() ?? null];
}

function recordsIn(octets: Buffer): Iterable<ResourceRecord> {
  return { [Symbol.iterator]: () => readRecords(octets) };
}

/** Octets of the history that a way back to a serial goes through, as far as there is any. */
export async function readHistoryOctets(db: Db, zoneId: number, serial: number): Promise<number> {
  const [row] = await queryRows<{ octets: number }>(
    db,
    `select coalesce(sum(octet_length(deleted) + octet_length(added)), 0)::bigint as octets from zone_journal
      where zone_id = $1 and version > (select max(version) from zone_journal where zone_id = $2 and serial = $3)`,
    [zoneId, zoneId, serial],
  );
  return row!.octets;
}

/** The changes of a zone since it last had a serial, newest first; none when the journal does not know the serial. */
export async function listVersionsSince(
  db: Db,
  zoneId: number,
  serial: number,
): Promise<{ readonly version: number; readonly serial: number; readonly serialBefore: number | null }[]> {
  return queryRows(
    db,
    `select version, serial, serial_before as "serialBefore" from zone_journal
      where zone_id = $1 and version > (select max(version) from zone_journal where zone_id = $2 and serial = $3)
      order by version desc`,
    [zoneId, zoneId, serial],
  );
}

/** What one change deleted and added, as encoded records. */
export interface StoredVersion {
  readonly deleted: Buffer;
  readonly added: Buffer;
  readonly followers: JournalFollowers | null;
}

export async function readVersion(db: Db, zoneId: number, version: number): Promise<StoredVersion | undefined> {
  const [row] = await queryRows<StoredVersion>(
    db,
    "select deleted, added, followers from zone_journal where zone_id = $1 and version = $2",
    [zoneId, version],
  );
  return row;
}
