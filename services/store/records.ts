import { type DomainName, nameFromStoredWire, nameSortKey } from "../core/dns/name.ts";
import { type Db, queryRows } from "../platform/db.ts";
import type { StoredRecord } from "./zone-edit.ts";

/** A row as the queries of records give it: id, owner, type, ttl, rdata. */
export type RecordRow = readonly [id: number, owner: Buffer, type: number, ttl: number, rdata: Buffer];

export function recordOf([id, owner, type, ttl, rdata]: RecordRow): StoredRecord {
  return { id, owner: nameFromStoredWire(owner), type, ttl, rdata };
}

/** All records of a zone (its SOA is none of them), in canonical order of names, then by type and age. */
export async function readAllRecords(db: Db, zoneId: number): Promise<StoredRecord[]> {
  const rows = await queryRows<RecordRow>(
    db,
    "select id, owner, type, ttl, rdata from records where zone_id = ? order by owner_key, type, id",
    [zoneId],
    { rowMode: "array" },
  );
  // Records of one owner come together and share its name: a large zone has many of them.
  const records: StoredRecord[] = [];
  for (const row of rows) {
    const last = records.at(-1);
    const sharesOwner = last !== undefined && row[1].equals(last.owner.wire);
    records.push(
      sharesOwner ? { id: row[0], owner: last.owner, type: row[2], ttl: row[3], rdata: row[4] } : recordOf(row),
    );
  }
  return records;
}

/** The records at these names. */
export async function readRecordsAt(db: Db, zoneId: number, names: readonly DomainName[]): Promise<StoredRecord[]> {
  if (names.length === 0) return [];
  const rows = await queryRows<RecordRow>(
    db,
    "select id, owner, type, ttl, rdata from records where zone_id = ? and owner_key = any(?::bytea[])",
    [zoneId, names.map((name) => nameSortKey(name.wire))],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
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
      where zone_id = ? and owner_key > ? and owner_key < ? order by owner_key, type, id limit ?`,
    [zoneId, key, end, limit],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}
