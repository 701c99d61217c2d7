import { FOLLOWED_TYPES, type Follower } from "../../core/dns/follow/follower.ts";
import type { FollowerChange } from "../../core/dns/follow/follower-edits.ts";
import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { serialWarnings } from "../../core/dns/serial.ts";
import { judgeChange, type Token } from "../../core/dns/token.ts";
import type { RecordDifference, ZoneChange } from "../../core/dns/zone-edit.ts";
import { recordOctets, zoneOctets } from "../../core/dns/zone-octets.ts";
import { conflict, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Clock } from "../../platform/clock.ts";
import { type Db, isTransient } from "../../platform/postgres/db.ts";
import { copyDerived } from "../../store/dns/dnssec-records.ts";
import {
  checkRecordsOfChange,
  holdGrowth,
  lookForRoom,
  type QuotaMode,
  settleZone,
  withinQuotas,
} from "../../store/dns/quotas.ts";
import { isAddition } from "../../store/dns/zone-additions.ts";
import {
  differenceOf,
  type Growth,
  insertRecords,
  type JournalColumns,
  lockZoneNamed,
  RECORDS_A_STATEMENT,
  type WrittenChange,
  writeZoneChange,
} from "../../store/dns/zone-changes.ts";
import { boundJournal } from "../../store/dns/zone-journal.ts";
import type { ZoneSize } from "../../store/dns/zone-usage.ts";
import type { Zone, ZoneScope } from "../../store/dns/zones.ts";
import { countLeftOut, type LeftOutCounts, leftOutWarnings } from "../../store/dns/zones-left-out.ts";
import { inSnapshot, inTransaction } from "../../store/transactions.ts";
import type { TogetherChanges } from "./together-changes.ts";
import { ClosedMeanwhile, guardCircles, guardDerived, leadsElsewhere } from "./zone-followers.ts";
import { deriveChange, type ZoneSigner } from "./zone-signing.ts";

/** The zone that is to be changed, and who changes it. */
export interface ZoneTarget {
  readonly scope: ZoneScope;
  readonly apex: DomainName;
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  /** Who is named in the history. */
  readonly actor: string;
  /** By whose policy the change is judged; where there is none, all that the scope has may be changed. */
  readonly token?: Token | undefined;
  /** What signs the change where the zone is signed. Feeds and catalogs, which never are, are changed without. */
  readonly signer?: ZoneSigner;
  /** How the change is judged by the quotas of the zone's company and reseller; enforced unless said. */
  readonly quotas?: QuotaMode;
  /** Reads and writes small changes together with others that come at the same time; each by itself when absent. */
  readonly together?: TogetherChanges;
  /** Asked before much is read at the names of a change. Throws where that is not to happen here and now. */
  readonly admitMuch?: (size: ZoneSize) => void;
  /** Asked under the zone's lock, before all of the zone is gone over. Throws where that is not to happen here. */
  readonly admitWhole?: (zone: ZoneSize) => void;
  /** Writes what is kept beside the zone's records, in the transaction of the change: both are written, or neither. */
  readonly alsoWrite?: (db: Db, zoneId: number) => Promise<void>;
}

/** What a change comes to, from the zone as it was read; without `change` all stays as it is. */
export interface ZonePlan {
  readonly zone: Zone;
  readonly change?: ZoneChange;
  /** Whether the SOA itself was asked to be set. */
  readonly touchesSoa?: boolean;
  readonly warnings: readonly Sentence[];
  /** Where the zone does not fit, when that was read with it. */
  readonly leftOut?: LeftOutCounts;
}

export interface ZoneChanged {
  /** The zone as it is now. */
  readonly zone: Zone;
  /** The ids of the records created, in the plan's order. */
  readonly createdIds: readonly number[];
  /** The same of the followers. */
  readonly followerIds: readonly number[];
  readonly warnings: readonly Sentence[];
  /** False when all stayed as it was. */
  readonly changed: boolean;
  /** Of a change that was only looked at (`quotas: "look"`): what its row of the journal would hold. */
  readonly difference?: JournalColumns;
  /** And what it would hold of followers. */
  readonly followers?: FollowerChange | undefined;
  /** The serial of the zone that such a change was planned on. */
  readonly atSerial?: number;
}

/**
 * Changes a zone: plans on what it reads, then writes if the zone's version is still the one that was read, records,
 * serial and journal in one statement. Overtaken by another change, it plans anew with the zone's row locked.
 * Refuses what the quotas of the zone's company or reseller do not allow. A change that is only looked at is planned and
 * judged in one snapshot, and nothing of it is written.
 * So no change is made on a state that another has altered, and no two share a serial.
 * @param plan reads through the handle it is given and decides; it may be called more than once
 */
export function changeZone(
  db: Db,
  target: ZoneTarget,
  plan: (db: Db) => Promise<Result<ZonePlan, Refusal>>,
): Promise<Result<ZoneChanged, Refusal>> {
  return withinQuotas(db, () => changeWithinQuotas(db, target, plan));
}

/**
 * Refuses a change that is meant for a zone of another serial.
 * @param atSerial undefined: it is meant for the zone as it is
 */
export function judgeSerial({ domain }: ZoneTarget, { soa }: Zone, atSerial: number | undefined): Refusal | undefined {
  if (atSerial === undefined || atSerial === soa.serial) return undefined;
  return conflict("zone-changed", { domain, serial: soa.serial });
}

async function changeWithinQuotas(
  db: Db,
  target: ZoneTarget,
  plan: (db: Db) => Promise<Result<ZonePlan, Refusal>>,
): Promise<Result<ZoneChanged, Refusal>> {
  const attempt = async (on: Db): Promise<Attempt> => {
    const planned = withoutNothing(await plan(on));
    if (!planned.ok) return planned;
    const { zone, change, touchesSoa, warnings, leftOut } = planned.value;
    if (!change) {
      await target.alsoWrite?.(on, zone.id);
      return ok({ zone, createdIds: [], followerIds: [], warnings, changed: false });
    }
    const barred =
      target.token && judgeChange(target.token, zone, { ...change, touchesSoa, difference: withFollowed(change) });
    if (barred) return refuse(barred);
    const derived = await guardDerived(on, zone, change);
    if (derived) return refuse(derived);
    const signed = await signChange(on, zone, change, target);
    if (!signed) return "overtaken";
    if (!signed.ok) return signed;
    const tooMany = await checkRecords(on, target, zone, signed.value);
    if (tooMany) return refuse(tooMany);
    const { soa, ttl } = change;
    const leap = serialWarnings(zone.soa.serial, soa.serial);
    const said = [...leftOutWarnings(leftOut ?? (await countLeftOut(on, zone.id))), ...leap, ...warnings];
    const after = { ...zone, soa, ttl, version: zone.version + 1 };
    if (target.quotas === "look") {
      await lookForRoom(on, zone.id, growthOf(zone, signed.value));
      const difference = differenceOf(zone, change);
      const none = { createdIds: [], followerIds: [] };
      const looked = { difference, followers: change.followers, atSerial: zone.soa.serial };
      return ok({ zone: after, ...none, warnings: said, changed: true, ...looked });
    }
    const written = await writeGuarded(on, zone, signed.value, target);
    if (!written) return "overtaken";
    const { createdIds, followerIds } = written;
    return ok({ zone: after, createdIds, followerIds, warnings: said, changed: true });
  };
  const attemptLocked = async (transaction: Db) => {
    await lockZoneNamed(transaction, target.apex);
    return attempt(transaction);
  };
  let outcome = target.quotas === "look" ? await inSnapshot(db, attempt) : await unlessVictim(db, attempt);
  // Once is enough, unless the zone whose row was locked was deleted and another of its name made.
  for (let tries = 0; outcome === "overtaken"; tries += 1) {
    if (tries === MOST_TRIES) throw new Error(`${target.domain} is never as it was read`);
    outcome = await inTransaction(db, attemptLocked);
  }
  return outcome;
}

/** A plan of whole zones tells of followers even where none of them changes. */
function withoutNothing(planned: Result<ZonePlan, Refusal>): Result<ZonePlan, Refusal> {
  const followers = planned.ok ? planned.value.change?.followers : undefined;
  if (!planned.ok || !followers || followers.deleted.length + followers.updated.length + followers.created.length > 0) {
    return planned;
  }
  return ok({ ...planned.value, change: { ...planned.value.change!, followers: undefined } });
}

/** The difference as policies judge it: who makes a name follow something makes its addresses. */
function withFollowed({ difference, followers }: ZoneChange): RecordDifference {
  if (!followers) return difference;
  const addressesOf = (some: readonly Follower[]) =>
    some.flatMap(({ owner }) => FOLLOWED_TYPES.map((type) => ({ owner, type, ttl: 0, rdata: new Uint8Array() })));
  const updated = followers.updated.map(({ after }) => after);
  return {
    deleted: [...difference.deleted, ...addressesOf([...followers.deleted, ...updated])],
    added: [...difference.added, ...addressesOf([...updated, ...followers.created])],
  };
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

function checkRecords(db: Db, { quotas }: ZoneTarget, zone: Zone, { rows }: ZoneChange): Promise<Refusal | undefined> {
  const isAsked = quotas !== "count" && quotas !== "hold";
  return isAsked ? checkRecordsOfChange(db, zone.id, rows.created.length) : Promise.resolve(undefined);
}

/** {@link writeChange} and what goes with it, which with another change may not close a circle of followers either. */
async function writeGuarded(
  db: Db,
  zone: Zone,
  change: ZoneChange,
  target: ZoneTarget,
): Promise<WrittenChange | undefined> {
  const { followers } = change;
  const mayCloseCircle = followers !== undefined && (await leadsElsewhere(db, zone, followers));
  if (!mayCloseCircle && !target.alsoWrite) return writeChange(db, zone, change, target);
  try {
    return await db.transaction(async (transaction) => {
      const written = await writeChange(transaction, zone, change, target);
      if (written) await target.alsoWrite?.(transaction, zone.id);
      if (written && mayCloseCircle) await guardCircles(transaction, followers);
      return written;
    });
  } catch (error) {
    if (error instanceof ClosedMeanwhile) return undefined;
    throw error;
  }
}

/**
 * Writes what fits into what the zone holds by one statement; what needs more is settled in the same transaction.
 * @returns undefined when the zone has changed since it was read
 */
async function writeChange(
  db: Db,
  zone: Zone,
  change: ZoneChange,
  { actor, quotas, together }: ZoneTarget,
): Promise<WrittenChange | undefined> {
  const { created } = change.rows;
  const derived = change.derived?.added ?? [];
  const growth = growthOf(zone, change);
  const isSmall = created.length + derived.length <= RECORDS_A_STATEMENT;
  if (isSmall) {
    const grows = growth.records > 0 || growth.octets > 0;
    const isTogether = together && !quotas && !db.isTransaction && isAddition(zone, change, growth);
    const written = isTogether
      ? await together.write({ zone, change, actor, growth })
      : await writeZoneChange(db, zone, change, { actor, growth, withinHeld: grows });
    if (written || !grows) {
      if (written && isLarge(change)) await boundJournal(db, zone.id);
      return written;
    }
  }
  if (!isSmall && !db.isTransaction) await holdGrowth(db, zone.id, quotas, growth);
  return db.transaction(async (transaction) => {
    const options = { actor, growth, withinHeld: false, insertsRecords: isSmall };
    const written = await writeZoneChange(transaction, zone, change, options);
    if (!written || isSmall) {
      if (written && isLarge(change)) await boundJournal(transaction, zone.id);
      if (written) await settleZone(transaction, zone.id, quotas);
      return written;
    }
    // What is refused is better not written first; what others take meanwhile is seen at the end.
    if (quotas !== "count") await lookForRoom(transaction, zone.id);
    await copyDerived(transaction, zone.id, derived);
    const createdIds = await insertRecords(transaction, zone.id, created);
    if (isLarge(change)) await boundJournal(transaction, zone.id);
    // Last, as others wait for the row of the reseller's quotas until the commit.
    await settleZone(transaction, zone.id, quotas);
    return { ...written, createdIds };
  });
}

/** Whether a few such changes take what the journal of a zone may take. */
function isLarge({ difference, derived }: ZoneChange): boolean {
  const records = difference.deleted.length + difference.added.length;
  return records + (derived?.deleted.length ?? 0) + (derived?.added.length ?? 0) > LARGE_CHANGE_RECORDS;
}

/** Records of a change from which on the journal is looked at at once; smaller ones come to much only by their number. */
const LARGE_CHANGE_RECORDS = 10_000;

function growthOf(zone: Zone, { soa, difference, derived }: ZoneChange): Growth {
  const apexOctets = zone.apex.wire.length;
  const octetsOf = (records: readonly ResourceRecord[] = []) => octetsOfRecords(records, apexOctets);
  const ofSoa = zoneOctets(zone.apex, soa) - zoneOctets(zone.apex, zone.soa);
  const ofDerived = octetsOf(derived?.added) - octetsOf(derived?.deleted);
  return {
    records: difference.added.length - difference.deleted.length,
    octets: ofSoa + octetsOf(difference.added) - octetsOf(difference.deleted) + ofDerived,
  };
}

/** Octets that records take of the zone database, in a zone whose apex has so many in wire form. */
export function octetsOfRecords(records: readonly ResourceRecord[], apexOctets: number): number {
  return records.reduce((sum, { owner, rdata }) => sum + recordOctets(owner.wire, apexOctets, rdata.length), 0);
}

/** The change with what signing adds to it, where the zone is signed; undefined when it is so no longer. */
async function signChange(
  db: Db,
  zone: Zone,
  given: ZoneChange,
  { signer, domain }: ZoneTarget,
): Promise<Result<ZoneChange, Refusal> | undefined> {
  const until = signer && cachedUntil(zone, given, signer.clock);
  const change = until ? { ...given, cachedUntil: until } : given;
  if (!zone.signed || change.derived) return ok(change);
  if (!signer) throw new Error(`the signed zone ${domain} is changed without a signer`);
  const derived = await deriveChange(db, zone, change, { signer });
  return derived?.ok ? ok({ ...change, derived: derived.value }) : derived;
}

/**
 * RFC 7583 §2: the waits of key changes have to be as long as caches keep what signatures are of; and those of a zone's
 * first keys as long as they keep it without signatures. So it counts in zones that are not signed as well.
 */
function cachedUntil(zone: Zone, { ttl, difference }: ZoneChange, clock: Clock): Date | undefined {
  const largest = difference.deleted.reduce((most, record) => Math.max(most, record.ttl), zone.ttl);
  return largest > ttl ? new Date(clock.nowMs() + largest * 1000) : undefined;
}
