import type { Follower } from "../../core/dns/follow/follower.ts";
import { followersBetween } from "../../core/dns/follow/follower-edits.ts";
import { nameFromStoredText } from "../../core/dns/name.ts";
import { type ResourceRecord, readRecords } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { nextSerial } from "../../core/dns/serial.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";
import { judgeWholeZone } from "../../core/dns/token.ts";
import { checkWholeZoneSteps } from "../../core/dns/zone-checks.ts";
import { differenceSteps, exactKey } from "../../core/dns/zone-edit.ts";
import { outdatedWarnings } from "../../core/dns/zone-warnings.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Steps } from "../../core/steps.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { readAllFollowers } from "../../store/dns/followers.ts";
import { readAllRecords } from "../../store/dns/records.ts";
import {
  type JournalFollowers,
  listVersionsSince,
  readVersion,
  type StoredVersion,
} from "../../store/dns/zone-history.ts";
import { findZone, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { changeZone, type ZoneChanged, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { judgeFollowers, keptBy, withDerivedAsIs } from "./zone-followers.ts";

/**
 * Makes a zone what it was when it had a serial, records and SOA, as one change with a new serial. Refuses a serial
 * that the history does not reach back to.
 */
export async function rollBackZone(
  db: Db,
  target: ZoneTarget,
  serial: number,
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  const barred = target.token && judgeWholeZone(target.token);
  if (barred) return refuse(barred);
  return changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const zone = await findZone(on, target.scope, target.apex);
    if (!zone) return refuse(zoneDoesNotExist(target.domain));
    if (zone.soa.serial === serial) return ok({ zone, warnings: [] });
    const forgotten = unacceptable("history-too-short", { serial });
    const versions = await findVersionsBack(on, zone, serial);
    if (!versions) return refuse(forgotten);
    const current = await readAllRecords(on, zone.id);
    const followersNow = await readAllFollowers(on, zone.id);
    const then = await undoVersions(on, zone, versions, { records: current, followers: followersNow });
    if (!then) return refuse(forgotten);
    const { soa: soaThen } = then;
    const followers = followersBetween(followersNow, then.followers);
    const records = withDerivedAsIs(then.records, current, keptBy(followers, followersNow));
    const unlawful = await judgeFollowers(on, zone, followers);
    if (unlawful) return refuse(unlawful);
    const mname = decodeSoaRdata(soaThen.rdata).mname;
    const checked = await runInTurns(checkWholeZoneSteps({ apex: zone.apex, records, mname }));
    if (!checked.ok) return refuse(unacceptable(checked.error));
    const next = nextSerial(zone.soa.serial, zone.serialType, now);
    if (!next.ok) return refuse(unacceptable(next.error));
    const difference = await runInTurns(differenceSteps(current, records));
    const rows = { deletedIds: difference.deleted.map(({ id }) => id), updated: [], created: difference.added };
    const soa = { ...decodeSoaRdata(soaThen.rdata), serial: next.value };
    const change = { soa, ttl: soaThen.ttl, rows, difference, followers, mindsDerived: true };
    const outdated = outdatedWarnings(zone, next.value, records);
    return ok({ zone, change, warnings: [...outdated, ...checked.value] });
  });
}

/** The versions since the zone last had a serial, newest first; undefined when the journal does not hold all of them. */
async function findVersionsBack(db: Db, zone: Zone, serial: number): Promise<number[] | undefined> {
  const rows = await listVersionsSince(db, zone.id, serial);
  let expected: number | null = zone.soa.serial;
  for (const row of rows) {
    if (row.serial !== expected) return undefined;
    expected = row.serialBefore;
  }
  return rows.length > 0 && expected === serial ? rows.map(({ version }) => version) : undefined;
}

/** What a zone was. */
interface FormerZone {
  readonly soa: ResourceRecord;
  readonly records: readonly ResourceRecord[];
  readonly followers: readonly Follower[];
}

/**
 * Undoes versions, newest first, one after the other: each may be as large as a zone.
 * @returns undefined when one of them has left the journal meanwhile
 */
async function undoVersions(
  db: Db,
  zone: Zone,
  versions: readonly number[],
  current: Omit<FormerZone, "soa">,
): Promise<FormerZone | undefined> {
  const records = new Map(current.records.map((record) => [exactKey(record), record]));
  const followers = new Map(current.followers.map((follower) => [follower.owner.key, follower]));
  let soa: ResourceRecord | undefined;
  for (const version of versions) {
    const change = await readVersion(db, zone.id, version);
    soa = change && (await runInTurns(undoSteps(records, change)));
    if (!change || !soa) return undefined;
    undoFollowers(followers, change.followers);
  }
  return soa && { soa, records: [...records.values()], followers: [...followers.values()] };
}

function undoFollowers(followers: Map<string, Follower>, change: JournalFollowers | null): void {
  for (const { owner } of change?.added ?? []) followers.delete(nameFromStoredText(owner).key);
  for (const { owner, ...definition } of change?.deleted ?? []) {
    const name = nameFromStoredText(owner);
    followers.set(name.key, { owner: name, ...definition } as Follower);
  }
}

/** Undoes one change. @returns the SOA before it */
function* undoSteps(
  records: Map<string, ResourceRecord>,
  { deleted, added }: StoredVersion,
): Steps<ResourceRecord | undefined> {
  let soa: ResourceRecord | undefined;
  for (const record of readRecords(added)) {
    records.delete(exactKey(record));
    yield;
  }
  for (const record of readRecords(deleted)) {
    if (record.type === TYPE.SOA) soa = record;
    else records.set(exactKey(record), record);
    yield;
  }
  return soa;
}
