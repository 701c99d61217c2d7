import type { DomainName } from "../../core/dns/name.ts";
import { encodeRecords, type ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { encodeSoaRdata, type SoaRdata } from "../../core/dns/soa.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import { type Db, isTransient, queryRows } from "../../platform/db.ts";
import { inTransaction } from "../transactions.ts";
import { copyDerived } from "./dnssec-records.ts";
import {
  CACHED,
  deletionOf,
  derivedDeletionOf,
  derivedInsertionOf,
  insertionOf,
  JOURNAL,
  overwritingOf,
  SIGNED_JOURNAL,
  type StatementPart,
  writeChangeSql,
} from "./zone-change-sql.ts";
import type { RecordDifference, ZoneChange } from "./zone-edit.ts";
import { deriveChange, type ZoneSigner } from "./zone-signing.ts";
import { type Zone, type ZoneScope, zoneName } from "./zones.ts";

/** The zone that is to be changed, and who changes it. */
export interface ZoneTarget {
  readonly scope: ZoneScope;
  readonly apex: DomainName;
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  /** Who is named in the history. */
  readonly actor: string;
  /** What signs the change where the zone is signed; without it such a zone cannot be changed. */
  readonly signer?: ZoneSigner;
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

/** From so many derived records on that come and go, readers of the journal take the whole zone as well. */
const MOST_DERIVED_JOURNALLED = 50_000;

/** Records that one statement inserts: to write out more of them would hold up everybody else. */
const RECORDS_A_STATEMENT = 2_000;

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
  const attempt = async (on: Db): Promise<Attempt> => {
    const planned = await plan(on);
    if (!planned.ok) return planned;
    const { zone, change, warnings } = planned.value;
    if (!change) return ok({ zone, createdIds: [], warnings, changed: false });
    const signed = await signChange(on, zone, change, target);
    if (!signed) return "overtaken";
    if (!signed.ok) return signed;
    const createdIds = await writeChange(on, zone, signed.value, target.actor);
    if (!createdIds) return "overtaken";
    const { soa, ttl } = change;
    return ok({ zone: { ...zone, soa, ttl, version: zone.version + 1 }, createdIds, warnings, changed: true });
  };
  const attemptLocked = async (transaction: Db) => {
    await queryRows(transaction, "select 1 from zones where name = ? for update", [zoneName(target.apex)]);
    return attempt(transaction);
  };
  let outcome = await unlessVictim(db, attempt);
  // Once is enough, unless the zone whose row was locked was deleted and another of its name made.
  for (let tries = 0; outcome === "overtaken"; tries += 1) {
    if (tries === MOST_TRIES) throw new Error(`${target.domain} is never as it was read`);
    outcome = await inTransaction(db, attemptLocked);
  }
  return outcome;
}

type Attempt = Result<ZoneChanged, Refusal> | "overtaken";

const MOST_TRIES = 5;

/**
 * Of a deadlock between others PostgreSQL may take for its victim whoever waits for the same row; an attempt that was
 * a transaction by itself has written nothing then, and may be made again.
 */
async function unlessVictim(db: Db, attempt: (db: Db) => Promise<Attempt>): Promise<Attempt> {
  try {
    return await attempt(db);
  } catch (error) {
    if (db.isTransaction || !isTransient(error)) throw error;
    return "overtaken";
  }
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
  const derived = change.derived?.added ?? [];
  if (created.length + derived.length <= RECORDS_A_STATEMENT) return writeStatement(db, zone, change, actor);
  return db.transaction(async (transaction) => {
    const createdIds = await writeStatement(transaction, zone, change, actor, { insertsRecords: false });
    if (!createdIds) return undefined;
    await copyDerived(transaction, zone.id, derived);
    return insertRecords(transaction, zone.id, created);
  });
}

/** The change with what signing adds to it, where the zone is signed; undefined when it is so no longer. */
async function signChange(
  db: Db,
  zone: Zone,
  change: ZoneChange,
  { signer, domain }: ZoneTarget,
): Promise<Result<ZoneChange, Refusal> | undefined> {
  if (!zone.signed || change.derived) return ok(change);
  if (!signer) throw new Error(`the signed zone ${domain} is changed without a signer`);
  const derived = await deriveChange(db, zone, change, { signer });
  if (!derived?.ok) return derived;
  // RFC 7583 §2: the waits of key changes have to be as long as caches keep what signatures are of.
  const ttl = change.difference.deleted.reduce((largest, record) => Math.max(largest, record.ttl), zone.ttl);
  const cachedUntil = ttl > change.ttl ? { cachedUntil: new Date(signer.clock.nowMs() + ttl * 1000) } : {};
  return ok({ ...change, derived: derived.value, ...cachedUntil });
}

/** Inserts records of a zone that the transaction has made or locked. @returns their ids, in order */
export async function insertRecords(db: Db, zoneId: number, records: readonly ResourceRecord[]): Promise<number[]> {
  const ids: number[] = [];
  for (let start = 0; start < records.length; start += RECORDS_A_STATEMENT) {
    const insertion = insertionOf(
      records.slice(start, start + RECORDS_A_STATEMENT),
      "(select ?::bigint as id) as zone",
    );
    for (const { id } of await queryRows<{ id: number }>(db, insertion.sql, [zoneId, ...insertion.values]))
      ids.push(id);
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
  change: ZoneChange,
  actor: string,
  options: { readonly insertsRecords: boolean } = { insertsRecords: true },
): Promise<readonly number[] | undefined> {
  const { soa, ttl, rows, derived } = change;
  const times = [soa.refresh, soa.retry, soa.expire, soa.minimum, ttl];
  const parts: StatementPart[] = [];
  if (rows.deletedIds.length > 0) parts.push(deletionOf(rows.deletedIds));
  if (rows.updated.length > 0) parts.push(overwritingOf(rows.updated));
  if (rows.created.length > 0 && options.insertsRecords) parts.push(insertionOf(rows.created, "zone"));
  if (derived && derived.deleted.length > 0) parts.push(derivedDeletionOf(derived.deleted));
  if (derived && derived.added.length > 0 && options.insertsRecords) parts.push(derivedInsertionOf(derived.added));
  if (change.cachedUntil) parts.push({ ...CACHED, values: [change.cachedUntil] });
  const journal = journalPart(zone, change, actor);
  if (journal) parts.push(journal);
  const written = await queryRows<{ created_ids: string[] }>(
    db,
    writeChangeSql(parts),
    [
      ...[soa.serial, soa.mname.wire, soa.rname.wire, ...times, zone.id, zone.version],
      ...parts.flatMap(({ values }) => values),
    ],
    { name: `write zone: ${parts.map(({ name }) => name).join(" ")}` },
  );
  // An array of bigint arrives as texts.
  return written[0]?.created_ids.map(Number);
}

/** The step that writes the journal row; undefined when it would be too large to keep. */
function journalPart(
  zone: Zone,
  { soa, ttl, difference, derived }: ZoneChange,
  actor: string,
): StatementPart | undefined {
  const [deleted, added] = journalColumns(
    soaRecord(zone.apex, zone.soa, zone.ttl),
    soaRecord(zone.apex, soa, ttl),
    difference,
  );
  if (!deleted || !added) return undefined;
  const values = [zone.soa.serial, actor, deleted, added];
  if (!derived) return { ...JOURNAL, values };
  if (derived.deleted.length + derived.added.length > MOST_DERIVED_JOURNALLED) return undefined;
  return { ...SIGNED_JOURNAL, values: [...values, encodeRecords(derived.deleted), encodeRecords(derived.added)] };
}
