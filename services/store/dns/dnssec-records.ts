import { readRrsig } from "../../core/dns/dnssec/rrsig.ts";
import { nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { type CopyField, copyIn } from "../copy-in.ts";

/** The columns of `derived_records` that take what {@link derivedColumns} gives, and their types. */
export const DERIVED_COLUMNS = ["owner", "owner_key", "type", "ttl", "rdata", "expires"] as const;
export const DERIVED_SQL_TYPES = ["bytea", "bytea", "integer", "bigint", "bytea", "bigint"];

export function derivedColumns({ owner, type, ttl, rdata }: ResourceRecord) {
  return [owner.wire, nameSortKey(owner.wire), type, ttl, rdata, expiryOf(type, rdata)] as const;
}

/** All that signing made of a zone, in canonical order of names. */
export async function readAllDerived(db: Db, zoneId: number): Promise<StoredRecord[]> {
  const rows = await queryRows<DerivedRow>(
    db,
    "select id, owner, type, ttl, rdata from derived_records where zone_id = $1 order by owner_key, type, id",
    [zoneId],
    { rowMode: "array" },
  );
  return rows.map(derivedOf);
}

/**
 * What signing made at some names, and at the closest denial record before each place of a chain; before the first is
 * the last.
 * @param owners, places as `nameSortKey` writes them
 */
export async function readDerivedAround(
  db: Db,
  zoneId: number,
  owners: readonly Uint8Array[],
  places: readonly Uint8Array[],
): Promise<StoredRecord[]> {
  const rows = await queryRows<DerivedRow>(db, READ_AROUND, [owners, zoneId, zoneId, places, zoneId], {
    name: "read-derived-around",
    rowMode: "array",
  });
  return rows.map(derivedOf);
}

/** Signatures that end before a time, those first that end first. @param expires seconds since 1970 */
export async function readExpiring(db: Db, zoneId: number, expires: number, limit: number): Promise<StoredRecord[]> {
  const rows = await queryRows<DerivedRow>(
    db,
    `select id, owner, type, ttl, rdata from derived_records
      where zone_id = $1 and type = 46 and expires < $2 order by expires, id limit $3`,
    [zoneId, expires, limit],
    { rowMode: "array" },
  );
  return rows.map(derivedOf);
}

/** When the first signature of a zone ends, in seconds since 1970; undefined when it has none. */
export async function firstExpiry(db: Db, zoneId: number): Promise<number | undefined> {
  const [row] = await queryRows<{ expires: number | null }>(
    db,
    "select min(expires) as expires from derived_records where zone_id = $1 and type = 46",
    [zoneId],
  );
  return row?.expires ?? undefined;
}

/** Writes derived records through COPY, into a zone that the transaction has locked. */
export async function copyDerived(
  transaction: Transaction,
  zoneId: number,
  records: readonly ResourceRecord[],
): Promise<void> {
  // A name server, which changes zones that are never signed, may not write here.
  if (records.length === 0) return;
  const target = `derived_records (zone_id, ${DERIVED_COLUMNS.join(", ")})`;
  const { finished } = await copyIn(transaction, target, rowsToCopy(zoneId, records));
  await finished;
}

type DerivedRow = readonly [id: number, owner: Buffer, type: number, ttl: number, rdata: Buffer];

/** `offset 0` keeps the planner to the index, whatever it believes of the size of zones. */
const READ_AROUND = `
  with wanted as (
    select unnest($1::bytea[]) as owner_key
    union
    select coalesce(
        (select d.owner_key from derived_records d
          where d.zone_id = $2 and d.type in (47, 50) and d.owner_key < place.owner_key
          order by d.owner_key desc limit 1),
        (select d.owner_key from derived_records d
          where d.zone_id = $3 and d.type in (47, 50) order by d.owner_key desc limit 1))
      from unnest($4::bytea[]) as place (owner_key)
  )
  select d.id, d.owner, d.type, d.ttl, d.rdata
    from wanted cross join lateral (
      select * from derived_records where zone_id = $5 and owner_key = wanted.owner_key offset 0
    ) d`;

function derivedOf([id, owner, type, ttl, rdata]: DerivedRow): StoredRecord {
  return { id, owner: nameFromStoredWire(owner), type, ttl, rdata };
}

function expiryOf(type: number, rdata: Uint8Array): number {
  return type === TYPE.RRSIG ? readRrsig(rdata).expiration : 0;
}

function* rowsToCopy(zoneId: number, records: readonly ResourceRecord[]): Generator<CopyField[]> {
  for (const record of records) {
    const [owner, ownerKey, type, ttl, rdata, expires] = derivedColumns(record);
    yield [{ int8: zoneId }, owner, ownerKey, { int4: type }, { int8: ttl }, rdata, { int8: expires }];
  }
}
