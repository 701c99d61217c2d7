import { type DomainName, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { type RecordRow, recordOf } from "./records.ts";
import { findAnyZone, type Zone, zoneName } from "./zones.ts";

/** A response policy zone as lists show it. */
export interface FeedSummary {
  readonly zone: string;
  readonly serial: number;
  /** Distinct triggers. */
  readonly rules: number;
}

/** All feeds, in canonical order of names. */
export function listFeeds(db: Db): Promise<FeedSummary[]> {
  return selectFeeds(db);
}

/** Those that a reseller has active, in canonical order of names. */
export function listActiveFeeds(db: Db, resellerId: string): Promise<FeedSummary[]> {
  return selectFeeds(db)
    .join("rpz_activations", "rpz_activations.zone_id", "rpz_feeds.zone_id")
    .where("rpz_activations.reseller_id", resellerId);
}

export async function findFeed(db: Db, apex: DomainName): Promise<Zone | undefined> {
  const isFeed = await db("zones")
    .where({ name: zoneName(apex), kind: "feed" })
    .first("id");
  return isFeed && findAnyZone(db, apex);
}

/** As {@link findFeed}, its row locked. */
export async function lockFeed(transaction: Transaction, apex: DomainName): Promise<Zone | undefined> {
  await transaction.raw("select 1 from zones where name = ? and kind = 'feed' for update", [zoneName(apex)]);
  return findFeed(transaction, apex);
}

/** Locks all feeds, so that no rule comes meanwhile. @returns their names, by id */
export async function lockAllFeeds(transaction: Transaction): Promise<DomainName[]> {
  const rows = await transaction("zones").where({ kind: "feed" }).orderBy("id").forUpdate().select("apex");
  return rows.map(({ apex }) => nameFromStoredWire(apex));
}

/** Notes that a zone is a feed, without rules. */
export async function insertFeed(transaction: Transaction, zoneId: number): Promise<void> {
  await transaction("rpz_feeds").insert({ zone_id: zoneId });
}

/** Lets a reseller use a feed, or no longer. Doing so again changes nothing. */
export async function writeActivation(db: Db, zoneId: number, resellerId: string, active: boolean): Promise<void> {
  const activation = { zone_id: zoneId, reseller_id: resellerId };
  if (active) await db("rpz_activations").insert(activation).onConflict().ignore();
  else await db("rpz_activations").where(activation).delete();
}

/** Distinct triggers of a feed. */
export async function countRules(db: Db, feed: Zone): Promise<number> {
  const row = await db("rpz_feeds").where({ zone_id: feed.id }).first("rules");
  return row.rules;
}

/** Counts triggers that came, or with a negative number went. */
export async function addTriggers(transaction: Transaction, feed: Zone, more: number): Promise<void> {
  if (more === 0) return;
  await queryRows(transaction, "update rpz_feeds set rules = rules + $1 where zone_id = $2", [more, feed.id]);
}

/** How many of the triggers that some records have would stay without these records. */
export async function countTriggersLeft(
  transaction: Transaction,
  feed: Zone,
  owners: readonly DomainName[],
  recordIds: readonly number[],
): Promise<number> {
  const [left] = await queryRows<{ count: number }>(
    transaction,
    `select count(distinct owner_key) as count from records
      where zone_id = $1 and owner_key = any($2::bytea[]) and not id = any($3::bigint[])`,
    [feed.id, owners.map(({ wire }) => nameSortKey(wire)), recordIds],
  );
  return left!.count;
}

/** Gives a feed its next version without a row in the journal: consumers take the whole zone. */
export async function writeFeedVersion(transaction: Transaction, feed: Zone, serial: number): Promise<void> {
  await queryRows(
    transaction,
    "update zones set serial = $1, version = version + 1, changed_xid = pg_current_xact_id() where id = $2",
    [serial, feed.id],
  );
}

/** Has a rule go by itself at a time; null: never. */
export async function setExpiry(
  transaction: Transaction,
  rule: { readonly recordId: number; readonly zoneId: number; readonly expiresAt: Date | null },
): Promise<void> {
  const { recordId, zoneId, expiresAt } = rule;
  const expiries = transaction("rpz_expiries");
  if (expiresAt === null) await expiries.where({ record_id: recordId }).delete();
  else {
    const row = { record_id: recordId, zone_id: zoneId, expires_at: expiresAt };
    await expiries.insert(row).onConflict("record_id").merge();
  }
}

/** The feeds that have rules whose time has come, by id. */
export async function listFeedsWithExpired(
  db: Db,
  now: Date,
): Promise<{ readonly id: number; readonly apex: DomainName }[]> {
  const rows = await queryRows<{ id: number; apex: Buffer }>(
    db,
    `select z.id, z.apex from zones z
      where z.id in (select e.zone_id from rpz_expiries e where e.expires_at <= $1::timestamptz) order by z.id`,
    [now.toISOString()],
  );
  return rows.map(({ id, apex }) => ({ id, apex: nameFromStoredWire(apex) }));
}

/** Records of a feed whose time has come, `limit` at most. */
export async function readExpired(
  transaction: Transaction,
  feed: Zone,
  now: Date,
  limit: number,
): Promise<StoredRecord[]> {
  const rows = await queryRows<RecordRow>(
    transaction,
    `select r.id, r.owner, r.type, r.ttl, r.rdata from rpz_expiries e join records r on r.id = e.record_id
      where e.zone_id = $1 and e.expires_at <= $2::timestamptz order by r.id limit $3`,
    [feed.id, now.toISOString(), limit],
    { rowMode: "array" },
  );
  return rows.map(recordOf);
}

function selectFeeds(db: Db) {
  return db("rpz_feeds")
    .join("zones", "zones.id", "rpz_feeds.zone_id")
    .select("zones.name as zone", "zones.serial", "rpz_feeds.rules")
    .orderBy("zones.name_key");
}
