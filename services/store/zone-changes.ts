import { type DomainName, nameSortKey } from "../core/dns/name.ts";
import { encodeRecords, type ResourceRecord } from "../core/dns/record.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import { encodeSoaRdata, type SoaRdata } from "../core/dns/soa.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result } from "../core/result.ts";
import { type Binding, type Db, queryRows } from "../platform/db.ts";
import { inTransaction } from "./dns-transactions.ts";
import type { RecordDifference, RecordRows } from "./zone-edit.ts";
import { type Zone, type ZoneScope, zoneName } from "./zones.ts";

/** The zone that is to be changed, and who changes it. */
export interface ZoneTarget {
  readonly scope: ZoneScope;
  readonly apex: DomainName;
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  /** Who is named in the history. */
  readonly actor: string;
}

/** What one change writes. */
export interface ZoneChange {
  /** The SOA from now on, its serial included. */
  readonly soa: SoaRdata;
  readonly ttl: number;
  readonly rows: RecordRows;
  readonly difference: RecordDifference;
}

/** What a change comes to, from the zone as it was read; without `change` all stays as it is. */
export interface ZonePlan {
  readonly zone: Zone;
  readonly change?: ZoneChange;
  readonly warnings: readonly string[];
}

export interface ZoneChanged {
  /** The zone as it is now. */
  readonly zone: Zone;
  /** The ids of the records created, in the plan's order. */
  readonly createdIds: readonly number[];
  readonly warnings: readonly string[];
  /** False when all stayed as it was. */
  readonly changed: boolean;
}

/** A journal row above this is left out; readers of the journal then take the whole zone. */
const MOST_JOURNAL_OCTETS = 64 * 2 ** 20;

/** Records that one statement inserts; more of them are written by several in one transaction. */
const RECORDS_A_STATEMENT = 10_000;

/**
 * Changes a zone: plans on what it reads, then writes if the zone's version is still the one that was read, records,
 * serial and journal in one statement. Overtaken by another change, it plans anew with the zone's row locked.
 * So no change is made on a state that another has altered, and no two share a serial.
 * @param plan reads through the handle it is given and decides; it may be called more than once
 */
export async function changeZone(
  db: Db,
  target: ZoneTarget,
  plan: (db: Db) => Promise<Result<ZonePlan, Refusal>>,
): Promise<Result<ZoneChanged, Refusal>> {
  const attempt = async (on: Db): Promise<Result<ZoneChanged, Refusal> | "overtaken"> => {
    const planned = await plan(on);
    if (!planned.ok) return planned;
    const { zone, change, warnings } = planned.value;
    if (!change) return ok({ zone, createdIds: [], warnings, changed: false });
    const createdIds = await writeChange(on, zone, change, target.actor);
    if (!createdIds) return "overtaken";
    const { soa, ttl } = change;
    return ok({ zone: { ...zone, soa, ttl, version: zone.version + 1 }, createdIds, warnings, changed: true });
  };
  const attemptLocked = async (transaction: Db) => {
    await queryRows(transaction, "select 1 from zones where name = ? for update", [zoneName(target.apex)]);
    return attempt(transaction);
  };
  let outcome = await attempt(db);
  // Once is enough, unless the zone whose row was locked was deleted and another of its name made.
  while (outcome === "overtaken") outcome = await inTransaction(db, attemptLocked);
  return outcome;
}

/** The SOA record of a zone. */
export function soaRecord(apex: DomainName, soa: SoaRdata, ttl: number): ResourceRecord {
  return { owner: apex, type: TYPE.SOA, ttl, rdata: encodeSoaRdata(soa) };
}

/** @returns the ids of the records created, or undefined when the zone has changed since it was read */
async function writeChange(
  db: Db,
  zone: Zone,
  change: ZoneChange,
  actor: string,
): Promise<readonly number[] | undefined> {
  const { created } = change.rows;
  if (created.length <= RECORDS_A_STATEMENT) return writeStatement(db, zone, change, actor);
  return db.transaction(async (transaction) => {
    const createdIds = await writeStatement(
      transaction,
      zone,
      { ...change, rows: { ...change.rows, created: [] } },
      actor,
    );
    return createdIds && insertRecords(transaction, zone.id, created);
  });
}

/** Inserts records of a zone that the transaction has made or locked. @returns their ids, in order */
export async function insertRecords(db: Db, zoneId: number, records: readonly ResourceRecord[]): Promise<number[]> {
  const ids: number[] = [];
  for (let start = 0; start < records.length; start += RECORDS_A_STATEMENT) {
    const columns = columnsOf(records.slice(start, start + RECORDS_A_STATEMENT));
    const sql = `${INSERT_RECORDS("(select ?::bigint as id) as zone")} returning id`;
    for (const { id } of await queryRows<{ id: number }>(db, sql, [zoneId, ...columns])) ids.push(id);
  }
  return ids.sort((a, b) => a - b);
}

/** The journal row of a change, or nulls when it is too large to keep. */
export function journalColumns(
  before: ResourceRecord | undefined,
  after: ResourceRecord,
  difference: RecordDifference,
): readonly [deleted: Uint8Array | null, added: Uint8Array | null] {
  const deleted = encodeRecords(before ? [before, ...difference.deleted] : []);
  const added = encodeRecords([after, ...difference.added]);
  return deleted.length + added.length > MOST_JOURNAL_OCTETS ? [null, null] : [deleted, added];
}

async function writeStatement(
  db: Db,
  zone: Zone,
  { soa, ttl, rows, difference }: ZoneChange,
  actor: string,
): Promise<readonly number[] | undefined> {
  const [deleted, added] = journalColumns(
    soaRecord(zone.apex, zone.soa, zone.ttl),
    soaRecord(zone.apex, soa, ttl),
    difference,
  );
  const times = [soa.refresh, soa.retry, soa.expire, soa.minimum, ttl];
  const steps: [Part, readonly Binding[]][] = [];
  if (rows.deletedIds.length > 0) steps.push(["deleted", [rows.deletedIds]]);
  const updatedIds = rows.updated.map(({ id }) => id);
  if (updatedIds.length > 0) steps.push(["updated", [updatedIds, ...columnsOf(rows.updated), updatedIds]]);
  if (rows.created.length > 0) steps.push(["created", columnsOf(rows.created)]);
  if (deleted && added) steps.push(["journal", [zone.soa.serial, actor, deleted, added]]);
  const parts = steps.map(([part]) => part);
  const written = await queryRows<{ created_ids: string[] }>(
    db,
    writeChangeSql(parts),
    [
      ...[soa.serial, soa.mname.wire, soa.rname.wire, ...times, zone.id, zone.version],
      ...steps.flatMap(([, bindings]) => bindings),
    ],
    { name: `write zone: ${parts.join(" ")}` },
  );
  // An array of bigint arrives as texts.
  return written[0]?.created_ids.map(Number);
}

/** Records as parallel arrays, for `unnest`. */
function columnsOf(records: readonly ResourceRecord[]) {
  return [
    records.map(({ owner }) => owner.wire),
    records.map(({ owner }) => nameSortKey(owner.wire)),
    records.map(({ type }) => type),
    records.map(({ ttl }) => ttl),
    records.map(({ rdata }) => rdata),
  ] as const;
}

const RECORD_ARRAYS = "?::bytea[], ?::bytea[], ?::integer[], ?::bigint[], ?::bytea[]";

/** Ids are given out in the order of the arrays. */
const INSERT_RECORDS = (zone: string) =>
  `insert into records (zone_id, owner, owner_key, type, ttl, rdata)
   select zone.id, r.owner, r.owner_key, r.type, r.ttl, r.rdata
     from ${zone}, unnest(${RECORD_ARRAYS}) with ordinality as r (owner, owner_key, type, ttl, rdata, place)
    order by place`;

type Part = "deleted" | "updated" | "created" | "journal";

/**
 * Whatever the planner believes of the size of zones, their records are to be found by their ids: hence `+ 0`, and the
 * ids once more beside the join.
 */
const WRITE_PARTS: { readonly [part in Part]: string } = {
  deleted: "delete from records using zone where zone_id + 0 = zone.id and records.id = any(?::bigint[])",
  updated: `
    update records
       set owner = r.owner, owner_key = r.owner_key, type = r.type, ttl = r.ttl, rdata = r.rdata
      from zone, unnest(?::bigint[], ${RECORD_ARRAYS}) as r (id, owner, owner_key, type, ttl, rdata)
     where records.zone_id + 0 = zone.id and records.id = r.id and records.id = any(?::bigint[])`,
  created: `${INSERT_RECORDS("zone")} returning id`,
  journal: `
    insert into zone_journal (zone_id, version, serial_before, serial, actor, deleted, added)
    select zone.id, zone.version, ?, zone.serial, ?, ?, ? from zone`,
};

/**
 * One statement is one transaction by itself: all of it happens, or with an outdated version none of it.
 * It has the parts that the change needs: most changes need few, and PostgreSQL sets up every part there is.
 */
function writeChangeSql(parts: readonly Part[]): string {
  const steps = parts.map((part) => `, ${part} as (${WRITE_PARTS[part]})`);
  const createdIds = parts.includes("created") ? "array(select id from created order by id)" : "'{}'::bigint[]";
  return `
    with zone as (
      update zones
         set serial = ?, mname = ?, rname = ?, refresh = ?, retry = ?, expire = ?, minimum = ?, ttl = ?,
             version = version + 1, changed_xid = pg_current_xact_id()
       where id = ? and version = ?
      returning id, version, serial
    )${steps.join("")}
    select ${createdIds} as created_ids from zone`;
}
