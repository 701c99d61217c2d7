import { type DomainName, formatRelative, nameSortKey } from "../../core/dns/name.ts";
import { splitPriority } from "../../core/dns/rdata/rdata.ts";
import { TYPE, typeCode } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import { escapeLike } from "./like-pattern.ts";
import { PAGE_OCTETS, type PlacedRow, recordOf, withinOctets } from "./records.ts";
import type { Zone } from "./zones.ts";

export interface RecordSearch {
  /** Any part of the name, relative to the zone, or of the value, as they are shown; empty: all. */
  readonly text: string;
  /** Only records of this type. */
  readonly type?: number | undefined;
  /** Only records that come after this place. */
  readonly after?: RecordPlace | undefined;
  readonly limit: number;
  /** When to end with what was found by then, as of performance.now(). */
  readonly endsAtMs: number;
}

/** Where a record stands in a zone: by name in canonical order, then by type and age. */
export interface RecordPlace {
  readonly ownerKey: Uint8Array;
  readonly type: number;
  readonly id: number;
}

export interface FoundRecords {
  readonly records: readonly StoredRecord[];
  /** Where the next page begins; undefined after the last. */
  readonly next: RecordPlace | undefined;
}

/** Rows that may match, read at once: more than a page, for some of them do not. */
const CANDIDATES = 1_000;

/** Rows that one statement looks for a text in, and octets of their data: some tenths of a second. */
const PORTION_ROWS = 20_000;
const PORTION_OCTETS = 4 * 2 ** 20;

/**
 * The records of a zone whose name or value contains a text, in canonical order. The database leaves out what cannot
 * match, by the octets, a portion of the zone at a time; what is left is judged as it is shown.
 */
export async function searchRecords(db: Db, zone: Zone, search: RecordSearch): Promise<FoundRecords> {
  const wanted = search.text.trim().toLowerCase();
  const size = wanted === "" ? search.limit : Math.max(search.limit, CANDIDATES);
  const records: StoredRecord[] = [];
  let octets = 0;
  let { after = START } = search;
  do {
    const end: RecordPlace | undefined = wanted === "" ? undefined : await findPortionEnd(db, zone.id, after);
    if (wanted !== "" && !end) return { records, next: undefined };
    const values = new StatementValues(zone.id, after.ownerKey, after.type, after.id, size);
    const upTo =
      end && `and (owner_key, type, id) <= (${[end.ownerKey, end.type, end.id].map((part) => values.add(part))})`;
    const rows: PlacedRow[] = await queryRows<PlacedRow>(
      db,
      withinOctets(`select id, owner, type, ttl, rdata, owner_key from records
        where zone_id = $1 and (owner_key, type, id) > ($2, $3, $4) ${upTo ?? ""}
          ${candidatesOf(zone, wanted, search.type, values)}
        order by owner_key, type, id limit $5`),
      values.all,
      { rowMode: "array" },
    );
    for (const [id, owner, type, ttl, rdata, ownerKey] of rows) {
      after = { ownerKey, type, id };
      const record = recordOf([id, owner, type, ttl, rdata]);
      if (isMatch(record, zone.apex, wanted)) {
        records.push(record);
        octets += rdata.length;
      }
      if (records.length === search.limit || octets > PAGE_OCTETS) return { records, next: after };
    }
    const found = rows[0]?.[FOUND] ?? 0;
    if (found < size && rows.length === found) {
      if (!end) return { records, next: undefined };
      after = end;
    }
  } while (performance.now() < search.endsAtMs);
  return { records, next: after };
}

/** The last place of the portion that begins behind one; undefined where nothing comes. */
async function findPortionEnd(
  db: Db,
  zoneId: number,
  { ownerKey, type, id }: RecordPlace,
): Promise<RecordPlace | undefined> {
  const [end] = await queryRows<readonly [Buffer, number, number]>(
    db,
    `select owner_key, type, id from (
        select owner_key, type, id,
               sum(octet_length(rdata)) over (order by owner_key, type, id) - octet_length(rdata) as before
          from (select owner_key, type, id, rdata from records
                 where zone_id = $1 and (owner_key, type, id) > ($2, $3, $4)
                 order by owner_key, type, id limit ${PORTION_ROWS}) portion
      ) placed
      where before <= ${PORTION_OCTETS} order by owner_key desc, type desc, id desc limit 1`,
    [zoneId, ownerKey, type, id],
    { name: "record-portion", rowMode: "array" },
  );
  return end && { ownerKey: end[0], type: end[1], id: end[2] };
}

/** How many records of each type a zone has, its SOA apart. */
export async function countRecordTypes(db: Db, zoneId: number): Promise<{ type: number; records: number }[]> {
  return queryRows(
    db,
    "select type, count(*)::int as records from records where zone_id = $1 group by type order by type",
    [zoneId],
  );
}

/** Before all records. */
const START: RecordPlace = { ownerKey: Buffer.alloc(0), type: 0, id: 0 };

/** Where a row says how many its page had. */
const FOUND = 6;

function isMatch({ owner, type, rdata }: StoredRecord, apex: DomainName, wanted: string): boolean {
  if (wanted === "" || formatRelative(owner, apex).toLowerCase().includes(wanted)) return true;
  return splitPriority(type, rdata).value.toLowerCase().includes(wanted);
}

/** What holds for every record that may match, and for few others. */
function candidatesOf(zone: Zone, wanted: string, type: number | undefined, values: StatementValues): string {
  const ofType = type === undefined ? "" : `and type = ${values.add(type)}`;
  if (wanted === "") return ofType;
  return `${ofType} ${wanted === "@" ? atApex(zone, values) : withText(zone, wanted, values)}`;
}

/** The apex is shown as `@`, which also stands for itself in texts. */
function atApex(zone: Zone, values: StatementValues): string {
  const noAddress = `type not in (${TYPE.A}, ${TYPE.AAAA})`;
  return `and (owner_key = ${values.add(nameSortKey(zone.apex.wire))} or ${noAddress})`;
}

function withText(zone: Zone, wanted: string, values: StatementValues): string {
  const pieces = wanted.split(NOT_IN_OCTETS);
  const words = pieces.filter((piece) => !/^\d+$/.test(piece));
  const dotted = /^[\d.]+$/.test(wanted) ? containing([wanted]) : null;
  const hex = /^[\da-f:.]+$/.test(wanted) ? containing(wanted.replace(/[^:]*\..*/, "").split(":")) : null;
  const address = `host('0.0.0.0'::inet + ('x' || encode(rdata, 'hex'))::bit(32)::bigint)`;
  return `
    and (lower(encode(substring(owner for length(owner) - ${values.add(zone.apex.wire.length)}), 'escape'))
        like ${values.add(containing(pieces))}
      or case when type = ${TYPE.A} then ${address} like ${values.add(dotted)}
              when type = ${TYPE.AAAA} then encode(rdata, 'hex') like any(array[${values.add(hex)}, ${WITH_DOTS}])
              when type in (${WRITTEN_TYPES}) then lower(encode(rdata, 'escape')) like ${values.add(containing(words))}
              else true end)`;
}

/** What is shown where the octets have something else: a label's length for a dot, one octet for an escape, quotes. */
const NOT_IN_OCTETS = /\\\d{0,3}|[\s".;()@$]+|[^\x21-\x7e]+/;

/** Types whose value, numbers apart, is names and texts that stand in the octets as they are shown. */
const WRITTEN_TYPES = ["NS", "CNAME", "PTR", "DNAME", "MX", "SRV", "TXT", "SPF", "CAA"].map(typeCode).join(", ");

/** IPv6 addresses that are shown with an IPv4 address at their end (RFC 5952 §5). */
const WITH_DOTS = `'${"0".repeat(20)}%'`;

function containing(pieces: readonly string[]): string {
  return `%${pieces.map(escapeLike).join("%")}%`;
}
