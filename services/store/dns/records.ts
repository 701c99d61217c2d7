import { type DomainName, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { addToGroup } from "../../core/groups.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { copyIn } from "../copy-in.ts";

/** A row as the queries of records give it: id, owner, type, ttl, rdata. */
export type RecordRow = readonly [id: number, owner: Buffer, type: number, ttl: number, rdata: Buffer];

export function recordOf([id, owner, type, ttl, rdata]: RecordRow): StoredRecord {
  return { id, owner: nameFromStoredWire(owner), type, ttl, rdata };
}

/** Rows of one query: few enough that nobody waits long for their reading. */
const PAGE = 2_000;
/** And octets of their data, but for the last one's: a record may have 64,000, and is shown with several characters for each. */
export const PAGE_OCTETS = 2 ** 20;

/**
 * A page of records that ends early where they have so much data. Each row says how many the page had.
 * @param page gives id, owner, type, ttl, rdata and owner_key, in canonical order
 */
export function withinOctets(page: string): string {
  return `select id, owner, type, ttl, rdata, owner_key, found from (
      select *, count(*) over () as found,
             sum(octet_length(rdata)) over (order by owner_key, type, id) - octet_length(rdata) as before from (${page}) page
    ) placed where before <= ${PAGE_OCTETS} order by owner_key, type, id`;
}

/** A row of such a page. */
export type PlacedRow = readonly [...RecordRow, ownerKey: Buffer, found: number];

/** All records of a zone (its SOA is none of them), in canonical order of names, then by type and age. */
export async function readAllRecords(db: Db, zoneId: number): Promise<StoredRecord[]> {
  const records: StoredRecord[] = [];
  for await (const page of recordPages(db, zoneId)) for (const record of page) records.push(record);
  return records;
}

/**
 * As {@link readAllRecords}, some at a time: all from one moment only if the handle sees one.
 * @param name whose records alone are read; those of the whole zone when absent
 */
export async function* recordPages(db: Db, zoneId: number, name?: DomainName): AsyncGenerator<StoredRecord[]> {
  let after: RecordPlace = [Buffer.alloc(0), 0, 0];
  const [ofName, key] = name ? ["and owner_key = $5", [nameSortKey(name.wire)]] : ["", []];
  let last: StoredRecord | undefined;
  for (;;) {
    const rows: PlacedRow[] = await queryRows<PlacedRow>(
      db,
      withinOctets(`select id, owner, type, ttl, rdata, owner_key from records
        where zone_id = $1 and (owner_key, type, id) > ($2, $3, $4) ${ofName} order by owner_key, type, id limit ${PAGE}`),
      [zoneId, ...after, ...key],
      { name: name ? "record-pages-at" : "record-pages", rowMode: "array" },
    );
    const page: StoredRecord[] = [];
    for (const [id, owner, type, ttl, rdata] of rows) {
      // Records of one owner come together and share its name: a large zone has many of them.
      last =
        last && owner.equals(last.owner.wire)
          ? { id, owner: last.owner, type, ttl, rdata }
          : recordOf([id, owner, type, ttl, rdata]);
      page.push(last);
    }
    if (page.length > 0) yield page;
    const [id, , type, , , ownerKey, found] = rows.at(-1) ?? NO_ROW;
    if (found < PAGE && rows.length === found) return;
    after = [ownerKey, type, id];
  }
}

type RecordPlace = readonly [ownerKey: Buffer, type: number, id: number];
const NO_ROW: PlacedRow = [0, Buffer.alloc(0), 0, 0, Buffer.alloc(0), Buffer.alloc(0), 0];

/** The same records in parts that hold whole RRsets: of one name there may be many. */
export async function* wholeRrsets(pages: AsyncIterable<StoredRecord[]>): AsyncGenerator<StoredRecord[]> {
  let waiting: StoredRecord[] = [];
  for await (const page of pages) {
    const last = page.at(-1)!;
    const records = [...waiting, ...page];
    const start = records.findIndex(({ owner, type }) => owner.key === last.owner.key && type === last.type);
    if (start > 0) yield records.slice(0, start);
    waiting = records.slice(start);
  }
  if (waiting.length > 0) yield waiting;
}

/** The records at these names. @param types of which alone they are read; a name may have megabytes of others */
export async function readRecordsAt(
  db: Db,
  zoneId: number,
  names: readonly DomainName[],
  types?: Iterable<number>,
): Promise<StoredRecord[]> {
  if (names.length === 0) return [];
  const [ofTypes, wanted] = types ? ["and type = any($3::integer[])", [[...types]]] : ["", []];
  const rows = await queryRows<RecordRow>(
    db,
    `select id, owner, type, ttl, rdata from records where zone_id = $1 and owner_key = any($2::bytea[]) ${ofTypes}`,
    [zoneId, names.map((name) => nameSortKey(name.wire)), ...wanted],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}

/**
 * The RDATA of some records of these types at names of many zones, `limit` at most of each name.
 * @returns each with its name's place among those asked for
 */
export async function readFewRdataAt(
  db: Db,
  names: readonly { readonly zoneId: number; readonly name: DomainName }[],
  types: readonly number[],
  limit: number,
): Promise<{ readonly place: number; readonly rdata: Buffer }[]> {
  if (names.length === 0) return [];
  const rows = await queryRows<{ readonly place: number; readonly rdata: Buffer }>(
    db,
    `select wanted.place, found.rdata
       from unnest($1::bigint[], $2::bytea[]) with ordinality as wanted (zone_id, owner_key, place)
      cross join lateral (
        select r.rdata from records r
         where r.zone_id = wanted.zone_id and r.owner_key = wanted.owner_key and r.type = any ($3::integer[])
         order by r.type, r.id limit $4
      ) found`,
    [names.map(({ zoneId }) => zoneId), names.map(({ name }) => nameSortKey(name.wire)), types, limit],
  );
  return rows.map(({ place, rdata }) => ({ place: place - 1, rdata }));
}

/** Some records strictly below a name, `limit` at most. */
export async function readRecordsBelow(
  db: Db,
  zoneId: number,
  name: DomainName,
  limit: number,
): Promise<StoredRecord[]> {
  const key = nameSortKey(name.wire);
  // The keys of what lies below begin with the name's, whose last octet ends a label and is zero.
  const end = key.slice();
  end[end.length - 1] = 1;
  const rows = await queryRows<RecordRow>(
    db,
    `select id, owner, type, ttl, rdata from records
      where zone_id = $1 and owner_key > $2 and owner_key < $3 order by owner_key, type, id limit $4`,
    [zoneId, key, end, limit],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}

/**
 * Some records strictly below each of some names.
 * @param most.each of one name, and `most.together` of all
 * @returns them by the name's key; nothing of names that have none
 */
export async function readRecordsBelowEach(
  db: Db,
  zoneId: number,
  names: readonly DomainName[],
  most: { readonly each: number; readonly together: number },
): Promise<ReadonlyMap<string, StoredRecord[]>> {
  if (names.length === 0) return new Map();
  const rows = await queryRows<readonly [...RecordRow, place: number]>(
    db,
    `select below.id, below.owner, below.type, below.ttl, below.rdata, wanted.place
       from unnest($1::bytea[]) with ordinality as wanted (owner_key, place) cross join lateral (
         select * from records
          where zone_id = $2 and owner_key > wanted.owner_key
            and owner_key < substr(wanted.owner_key, 1, octet_length(wanted.owner_key) - 1) || '\\x01'::bytea
          order by owner_key, type, id limit $3
       ) below limit $4`,
    [names.map(({ wire }) => nameSortKey(wire)), zoneId, most.each, most.together],
    { rowMode: "array" },
  );
  const below = new Map<string, StoredRecord[]>();
  for (const [id, owner, type, ttl, rdata, place] of rows) {
    addToGroup(below, names[place - 1]!.key, recordOf([id, owner, type, ttl, rdata]));
  }
  return below;
}

/** Some of the NS, MX and SRV records that point to one of these names, `limit` at most. */
export async function readRecordsPointingTo(
  db: Db,
  zoneId: number,
  targets: readonly DomainName[],
  limit: number,
): Promise<StoredRecord[]> {
  if (targets.length === 0) return [];
  const rows = await queryRows<RecordRow>(
    db,
    // `offset 0` keeps the planner to the index of targets, whatever it believes of the order that is wanted.
    `select id, owner, type, ttl, rdata
       from unnest($1::bytea[]) wanted (key) cross join lateral (
         select * from records
          where zone_id = $2 and type in (2, 15, 33) and record_target(type, rdata) = encode(wanted.key, 'escape') offset 0
       ) pointing
      order by owner_key, type, id limit $3`,
    [targets.map(({ key }) => Buffer.from(key, "latin1")), zoneId, limit],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}

/**
 * Which of the names have records strictly below them.
 * @param without ids of records that do not count
 * @returns their places among the names
 */
export async function findNamesWithBelow(
  db: Db,
  zoneId: number,
  names: readonly DomainName[],
  without: readonly number[],
): Promise<number[]> {
  const found = await queryRows<{ place: number }>(
    db,
    `select wanted.place
       from unnest($1::bytea[]) with ordinality as wanted (owner_key, place)
      where exists (
        select from records
         where zone_id = $2 and owner_key > wanted.owner_key
           and owner_key < substr(wanted.owner_key, 1, octet_length(wanted.owner_key) - 1) || '\\x01'::bytea
           and id <> all ($3::bigint[])
        offset 0)`,
    [names.map(({ wire }) => nameSortKey(wire)), zoneId, without],
  );
  return found.map(({ place }) => place - 1);
}

/** The first wildcards of a zone that have NS records, `limit` at most. */
export async function findWildcardNs(db: Db, zoneId: number, limit: number): Promise<DomainName[]> {
  const rows = await queryRows<{ owner: Buffer }>(
    db,
    // By these types `records_target` has them, in which a zone has few.
    `select distinct on (owner_key) owner from records
      where zone_id = $1 and type in (2, 15, 33) and type = 2 and substr(owner, 1, 2) = '\\x012a'::bytea
      order by owner_key limit $2`,
    [zoneId, limit],
  );
  return rows.map(({ owner }) => nameFromStoredWire(owner));
}

/** One of some types that a zone has among its customer's records; undefined when it has none of them. */
export async function findRecordOfType(db: Db, zoneId: number, types: Iterable<number>): Promise<number | undefined> {
  const [row] = await queryRows<{ type: number }>(
    db,
    "select type from records where zone_id = $1 and type = any ($2::integer[]) limit 1",
    [zoneId, [...types]],
  );
  return row?.type;
}

/** Writes records through COPY, into a zone that the transaction has locked; as {@link copyIn} ends. */
export function copyRecords(
  transaction: Transaction,
  zoneId: number,
  records: readonly ResourceRecord[],
): Promise<{ readonly finished: Promise<void> }> {
  const rows = records.map(({ owner, type, ttl, rdata }) => [
    ...[{ int8: zoneId }, owner.wire, nameSortKey(owner.wire)],
    ...[{ int4: type }, { int8: ttl }, rdata],
  ]);
  return copyIn(transaction, "records (zone_id, owner, owner_key, type, ttl, rdata)", rows);
}

/** How many records of each type a zone has, its SOA apart. */
export async function countRecordTypes(db: Db, zoneId: number): Promise<{ type: number; records: number }[]> {
  return queryRows(
    db,
    "select type, count(*)::int as records from records where zone_id = $1 group by type order by type",
    [zoneId],
  );
}
