import type pg from "pg";
import { type CopyRow, copyMessages, copyOut, type TakeMessages } from "../copy-out.ts";
import { isSelected, type ZoneSelection } from "./zone-selection.ts";

/** A record of a zone, with its owner in wire form, case kept. */
export interface ZoneRecord {
  readonly zoneId: number;
  readonly owner: Uint8Array;
  readonly type: number;
  readonly ttl: number;
  readonly rdata: Uint8Array;
}

/** As `ZoneRecord`, in place in the octets that came from the database: valid only while it is handled. */
export interface StreamedRecord {
  readonly zoneId: number;
  readonly octets: Uint8Array;
  readonly ownerStart: number;
  readonly ownerOctets: number;
  readonly type: number;
  readonly ttl: number;
  readonly rdataStart: number;
  readonly rdataOctets: number;
}

/** A version of a zone in the journal: records in `encodeRecords` form. */
export interface JournalEntry {
  readonly zoneId: number;
  readonly version: number;
  readonly deleted: Uint8Array;
  readonly added: Uint8Array;
}

/**
 * Reads in one snapshot of the database, whatever changes meanwhile.
 * @param work gets the snapshot's xmin: everything committed that this snapshot does not show will have an xid of at
 *   least that, so it is where the next reading has to begin
 */
export async function inSnapshot<T>(client: pg.Client, work: (xmin: string) => Promise<T>): Promise<T> {
  await client.query("begin transaction isolation level repeatable read read only");
  try {
    const { rows } = await client.query<{ xmin: string }>(
      "select pg_snapshot_xmin(pg_current_snapshot())::text as xmin",
    );
    const result = await work(rows[0]!.xmin);
    await client.query("commit");
    return result;
  } catch (error) {
    // A connection that is gone has ended its transaction by itself.
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/** What has been read of zones, of all together no more than was asked for. */
export interface Portion<T> {
  readonly rows: readonly T[];
  /** Zones of which nothing is there because each by itself has more. */
  readonly tooLarge: ReadonlySet<number>;
  /** Zones of which nothing is there because others came before them. */
  readonly later: ReadonlySet<number>;
}

/**
 * What the journal holds of these zones after the versions given, in order.
 * @param mostOctets no more is read, of one zone and of all
 */
export async function readJournal(
  client: pg.Client,
  known: readonly { readonly id: number; readonly version: number }[],
  mostOctets: number,
): Promise<Portion<JournalEntry>> {
  const { rows } = await client.query<PlacedRow & { version: number; deleted: Buffer; added: Buffer }>(
    // The length of a stored value is known without reading it.
    `with found as (
       select j.zone_id, j.version, octet_length(j.deleted) + octet_length(j.added)
              + coalesce(octet_length(j.derived_deleted), 0) + coalesce(octet_length(j.derived_added), 0) as octets
         from unnest($1::bigint[], $2::bigint[]) as known (zone_id, version)
         join zone_journal j on j.zone_id = known.zone_id and j.version > known.version
     ), ${PLACED_ZONES}
     select placed.zone_id, placed.octets > $3 as too_large, found.version is not null as found, j.version,
            j.deleted || coalesce(j.derived_deleted, '') as deleted, j.added || coalesce(j.derived_added, '') as added
       from placed
       left join found on found.zone_id = placed.zone_id and placed.octets <= $3 and placed.until <= $3
       left join zone_journal j on j.zone_id = found.zone_id and j.version = found.version
      order by placed.zone_id, j.version`,
    [known.map(({ id }) => id), known.map(({ version }) => version), mostOctets],
  );
  return portionOf(rows, ({ zone_id, version, deleted, added }) => ({ zoneId: zone_id, version, deleted, added }));
}

/**
 * All records at these names, in canonical order.
 * @param names owners as `nameSortKey` writes them
 * @param mostOctets no more is read, of one zone and of all
 */
export async function readRecordsAt(
  client: pg.Client,
  names: readonly { readonly zoneId: number; readonly ownerKey: Uint8Array }[],
  mostOctets: number,
): Promise<Portion<ZoneRecord>> {
  const { rows } = await client.query<PlacedRow & ZoneRecordRow>(
    // `offset 0` keeps the planner to both columns of the indexes, whatever it believes of the size of zones.
    `with found as materialized (
       select found.*, octet_length(owner) + octet_length(rdata) + ${OCTETS_OF_ROW} as octets
         from unnest($1::bigint[], $2::bytea[]) as wanted (zone_id, owner_key)
        cross join lateral (
          (select ${RECORD_COLUMNS} from records r
            where r.zone_id = wanted.zone_id and r.owner_key = wanted.owner_key offset 0)
          union all
          (select ${RECORD_COLUMNS} from derived_records r
            where r.zone_id = wanted.zone_id and r.owner_key = wanted.owner_key offset 0)
        ) found
     ), ${PLACED_ZONES}
     select placed.zone_id, placed.octets > $3 as too_large, found.id is not null as found,
            found.owner, found.type, found.ttl, found.rdata
       from placed
       left join found on found.zone_id = placed.zone_id and placed.octets <= $3 and placed.until <= $3
      order by placed.zone_id, found.owner_key, found.type, found.id`,
    [names.map(({ zoneId }) => zoneId), names.map(({ ownerKey }) => Buffer.from(ownerKey)), mostOctets],
  );
  return portionOf(rows, ({ zone_id, owner, type, ttl, rdata }) => ({ zoneId: zone_id, owner, type, ttl, rdata }));
}

/** Of what was found, what each zone has, and what those up to it have that are not too large by themselves. */
const PLACED_ZONES = `placed as (
       select zone_id, octets, sum(octets) filter (where octets <= $3) over (order by zone_id) as until
         from (select zone_id, sum(octets) as octets from found group by zone_id) sizes
     )`;

/** What a record takes beside its name and its data, about. */
const OCTETS_OF_ROW = 16;

interface PlacedRow {
  readonly zone_id: number;
  readonly too_large: boolean;
  /** Whether this is a row of the zone, not only word of it. */
  readonly found: boolean;
}

function portionOf<R extends PlacedRow, T>(placed: readonly R[], read: (row: R) => T): Portion<T> {
  const rows: T[] = [];
  const tooLarge = new Set<number>();
  const later = new Set<number>();
  for (const row of placed) {
    if (row.found) rows.push(read(row));
    else (row.too_large ? tooLarge : later).add(row.zone_id);
  }
  return { rows, tooLarge, later };
}

/** Streams all records of zones: the zones by ascending id, the names of each in canonical order, their records by type. */
export async function streamRecords(
  client: pg.Client,
  zones: ZoneSelection,
  onRecord: (record: StreamedRecord) => void,
): Promise<void> {
  await copyOut(client, await queryOfRecords(client, zones), recordReader(onRecord));
}

/** As `streamRecords`, for rows that are read elsewhere, by `recordReader`. */
export async function copyRecords(client: pg.Client, zones: ZoneSelection, onMessages: TakeMessages): Promise<void> {
  await copyMessages(client, await queryOfRecords(client, zones), onMessages);
}

/**
 * Has the transaction read what it is asked for in order along indexes, however much that is: to sort records by their
 * names takes longer than to find them.
 */
export async function readAlongIndexes(client: pg.Client): Promise<void> {
  await client.query(
    "set local enable_seqscan = off; set local enable_bitmapscan = off; set local max_parallel_workers_per_gather = 0",
  );
}

/** Makes records of rows. */
export function recordReader(onRecord: (record: StreamedRecord) => void): (row: CopyRow) => void {
  const record = new RecordOfRow();
  return (row) => {
    record.take(row);
    onRecord(record);
  };
}

async function queryOfRecords(client: pg.Client, zones: ZoneSelection): Promise<string> {
  const condition = isSelected("zone_id", zones);
  // Ordered by itself, each table is read along its index, and the two are merged.
  const order = "order by zone_id, owner_key, type, id";
  const { rows } = await client.query<{ derived: boolean }>(
    `select exists (select from derived_records r where ${condition}) as derived`,
  );
  return rows[0]!.derived
    ? `select zone_id, owner, type, ttl, rdata from (
         (select ${RECORD_COLUMNS} from records r where ${condition} ${order})
         union all
         (select ${RECORD_COLUMNS} from derived_records r where ${condition} ${order})
       ) published ${order}`
    : `select zone_id, owner, type, ttl, rdata from records where ${condition} ${order}`;
}

/** One object for all rows: they are many. */
class RecordOfRow implements StreamedRecord {
  zoneId = 0;
  octets: Uint8Array = new Uint8Array(0);
  ownerStart = 0;
  ownerOctets = 0;
  type = 0;
  ttl = 0;
  rdataStart = 0;
  rdataOctets = 0;

  /** Takes zone_id, owner, type, ttl and rdata. */
  take(row: CopyRow): void {
    this.octets = row.octets;
    this.zoneId = row.int8(0);
    this.ownerStart = row.starts[1]!;
    this.ownerOctets = row.lengths[1]!;
    this.type = row.int4(2);
    this.ttl = row.int8(3);
    this.rdataStart = row.starts[4]!;
    this.rdataOctets = row.lengths[4]!;
  }
}

/** What customers' records and those that signing makes have in common. */
const RECORD_COLUMNS = "r.id, r.zone_id, r.owner, r.owner_key, r.type, r.ttl, r.rdata";

interface ZoneRecordRow {
  readonly zone_id: number;
  readonly owner: Buffer;
  readonly type: number;
  readonly ttl: number;
  readonly rdata: Buffer;
}
