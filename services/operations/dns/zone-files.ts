import { DERIVED_TYPES } from "../../core/dns/dnssec/signature-plan.ts";
import { type FirstFault, sayAll } from "../../core/dns/fault-list.ts";
import { FOLLOWED_TYPES, type Follower } from "../../core/dns/follow/follower.ts";
import { clashOf, type FollowerChange, followersBetween, nameOf } from "../../core/dns/follow/follower-edits.ts";
import { formatFollowers, type PlacedFollower, readFollowers } from "../../core/dns/follow/zone-file-comments.ts";
import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { nextSerial, serialIsAhead } from "../../core/dns/serial.ts";
import { decodeSoaRdata, type SoaRdata, soaRecord } from "../../core/dns/soa.ts";
import { judgeWholeZone } from "../../core/dns/token.ts";
import { checkWholeZoneSteps, checkZoneName } from "../../core/dns/zone-checks.ts";
import { differenceSteps } from "../../core/dns/zone-edit.ts";
import {
  formatRecordLines,
  formatZoneFileHead,
  parseZoneFileSteps,
  type TextPosition,
  type ZoneBounds,
  type ZoneFile,
} from "../../core/dns/zone-file/zone-file.ts";
import { duplicatedZone } from "../../core/dns/zone-tenancy.ts";
import { digestWarnings, outdatedWarnings } from "../../core/dns/zone-warnings.ts";
import { type Refusal, sentenceOf, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Steps } from "../../core/steps.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { readAllFollowers } from "../../store/dns/followers.ts";
import { findQuotaOwner } from "../../store/dns/quota-settings.ts";
import { readAllRecords, recordPages, wholeRrsets } from "../../store/dns/records.ts";
import type { JournalColumns } from "../../store/dns/zone-changes.ts";
import { readZoneUsage } from "../../store/dns/zone-usage.ts";
import { findZone, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { inSnapshot } from "../../store/transactions.ts";
import { changeZone, judgeSerial, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { createZone, type NewZone, type ZoneOwner } from "./zone-creation.ts";
import { measureNewZone, measureReplacement } from "./zone-file-size.ts";
import { judgeFollowers, keptBy, withDerivedAsIs } from "./zone-followers.ts";
import type { WantedSoa } from "./zone-records.ts";
import { madeBySigning } from "./zone-signing.ts";
import { checkSoa } from "./zone-soa.ts";

/** A zone put in place by a master file. */
export interface ZoneFileApplied {
  readonly zone: Zone;
  /** How many records the zone has now, its SOA not counted. */
  readonly records: number;
  readonly warnings: readonly Sentence[];
  /** As of {@link ZoneChanged}. */
  readonly difference?: JournalColumns | undefined;
  readonly followers?: FollowerChange | undefined;
  readonly atSerial?: number | undefined;
}

/** A master file that a zone may be made of. */
interface CheckedFile {
  readonly soa: SoaRdata | undefined;
  readonly soaTtl: number | undefined;
  readonly records: readonly ResourceRecord[];
  /** The names that are to follow others; undefined: those that do. */
  readonly followers?: readonly Follower[] | undefined;
  readonly warnings: readonly Sentence[];
  /** Of the zone that it is meant for; undefined: whatever it has. */
  readonly atSerial?: number | undefined;
}

/**
 * A zone as a master file, all of it from one moment.
 * @param find finds the zone, in the snapshot that it is given
 * @param compose makes the file, in the same snapshot
 * @returns undefined when there is none
 */
export function exportZone(
  db: Db,
  find: (snapshot: Db) => Promise<Zone | undefined>,
  compose: (snapshot: Db, zone: Zone) => Promise<string> = composeFile,
): Promise<{ readonly zone: Zone; readonly text: string } | undefined> {
  return inSnapshot(db, async (snapshot) => {
    const zone = await find(snapshot);
    return zone && { zone, text: await compose(snapshot, zone) };
  });
}

async function composeFile(snapshot: Db, zone: Zone): Promise<string> {
  let text = "";
  for await (const piece of zoneFilePieces(snapshot, zone)) text += piece;
  return text;
}

/** A zone as a master file, piece by piece: that of a large zone need never be held as a whole. */
export async function* zoneFilePieces(db: Db, zone: Zone): AsyncGenerator<string> {
  const { apex, ttl } = zone;
  yield formatZoneFileHead({ apex, soa: soaRecord(apex, zone.soa, ttl), ttl });
  if (zone.hasFollowers) yield formatFollowers(await readAllFollowers(db, zone.id));
  for await (const records of wholeRrsets(recordPages(db, zone.id))) yield formatRecordLines(records, apex);
}

/**
 * Puts a master file in the place of all records of a zone, as one change. A SOA in it becomes the zone's, with its
 * serial when that is ahead.
 * @param file.bounds what the zone may come to; none unless given
 * @param file.atSerial of the zone that it is meant for: refused when the zone was changed meanwhile
 */
export async function replaceZone(
  db: Db,
  target: ZoneTarget,
  {
    text,
    bounds,
    atSerial,
  }: { readonly text: string; readonly bounds?: ZoneBounds; readonly atSerial?: number | undefined },
  now: Date,
): Promise<Result<ZoneFileApplied, Refusal>> {
  const barred = target.token && judgeWholeZone(target.token);
  if (barred) return refuse(barred);
  const found = await findZone(db, target.scope, target.apex);
  if (!found) return refuse(zoneDoesNotExist(target.domain));
  const file = await runInTurns(readZoneFile({ text, bounds }, target.apex, found));
  return file.ok ? putInPlace(db, target, { ...file.value, atSerial }, now) : file;
}

/** Puts records, and a SOA where there is one, in the place of all that a zone has, as one change. */
export async function replaceRecords(
  db: Db,
  target: ZoneTarget,
  { records, soa }: { readonly records: readonly ResourceRecord[]; readonly soa: WantedSoa | undefined },
  now: Date,
): Promise<Result<ZoneFileApplied, Refusal>> {
  const barred = target.token && judgeWholeZone(target.token);
  if (barred) return refuse(barred);
  const checked = await checkRecords(target.apex, records, soa?.soa);
  if (!checked.ok) return checked;
  return putInPlace(db, target, { soa: soa?.soa, soaTtl: soa?.ttl, records, warnings: checked.value }, now);
}

/** What is wrong with all records of a zone together; warnings where nothing is. */
export async function checkRecords(
  apex: DomainName,
  records: readonly ResourceRecord[],
  soa: SoaRdata | undefined,
): Promise<Result<Sentence[], Refusal>> {
  const problem = soa && checkSoa(soa);
  if (problem) return refuse(unacceptable(problem));
  const checked = await runInTurns(checkWholeZoneSteps({ apex, records, mname: soa?.mname }));
  return checked.ok ? checked : refuse(unacceptable(checked.error));
}

/** A new zone of a master file, which has to have a SOA. */
export async function readNewZone(
  text: string,
  { apex, domain, bounds }: { readonly apex: DomainName; readonly domain: string; readonly bounds?: ZoneBounds },
): Promise<Result<NewZone & { readonly warnings: readonly Sentence[] }, Refusal>> {
  const file = await runInTurns(readZoneFile({ text, bounds }, apex, undefined));
  if (!file.ok) return file;
  const { soa, soaTtl: ttl, records, followers, warnings } = file.value;
  if (!soa || ttl === undefined) return refuse(unacceptable("file-without-soa"));
  return ok({ apex, domain, serialType: "numeric", soa, ttl, records, followers, warnings });
}

async function putInPlace(
  db: Db,
  target: ZoneTarget,
  file: CheckedFile,
  now: Date,
): Promise<Result<ZoneFileApplied, Refusal>> {
  const changed = await changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const zone = await findZone(on, target.scope, target.apex);
    if (!zone) return refuse(zoneDoesNotExist(target.domain));
    const changedMeanwhile = judgeSerial(target, zone, file.atSerial);
    if (changedMeanwhile) return refuse(changedMeanwhile);
    return planReplacement(on, zone, file, now);
  });
  if (!changed.ok) return changed;
  const { zone, warnings, difference, followers, atSerial } = changed.value;
  return ok({ zone, records: file.records.length, warnings, difference, followers, atSerial });
}

/**
 * Makes a zone of a master file, or puts the file in the place of the company's zone of that name: by the operator's
 * command, for the reseller.
 */
export async function importZone(
  db: Db,
  owner: ZoneOwner,
  target: ZoneTarget,
  { text, now }: { readonly text: string; readonly now: Date },
): Promise<Result<ZoneFileApplied, Refusal>> {
  const existing = await findZone(db, target.scope, target.apex);
  const size = target.quotas === "count" ? ok(undefined) : await measureImport(db, owner, target, text);
  if (!size.ok) return size;
  if (existing?.crmId === owner.crmId.toLowerCase()) return replaceZone(db, target, { text }, now);
  if (existing) return refuse(duplicatedZone(target.domain));
  const lawful = checkZoneName(target.apex);
  if (!lawful.ok) return refuse(unacceptable(lawful.error));
  const added = await readNewZone(text, target);
  if (!added.ok) return added;
  const charged = { ...owner, byOperator: true, quotas: target.quotas };
  const created = await createZone(db, charged, added.value, target.actor);
  if (!created.ok) return created;
  const { zone, warnings: ofPlace } = created.value;
  return ok({ zone, records: added.value.records.length, warnings: [...ofPlace, ...added.value.warnings] });
}

/** Refuses a file that expands to more than the quotas allow; unknown companies are refused where the zone is made. */
async function measureImport(
  db: Db,
  owner: ZoneOwner,
  target: ZoneTarget,
  text: string,
): Promise<Result<unknown, Refusal>> {
  if (await readZoneUsage(db, target.scope, target.apex)) return measureReplacement(db, target, text);
  const company = await findQuotaOwner(db, owner.resellerId, owner.crmId);
  if (company?.companyId === undefined) return ok(undefined);
  const charged = { resellerId: owner.resellerId, companyId: company.companyId };
  return measureNewZone(db, charged, { apex: target.apex, text });
}

/** @param zone the zone whose TTL and primary server hold where the file has none; undefined for a new one */
function* readZoneFile(
  { text, bounds }: { readonly text: string; readonly bounds?: ZoneBounds | undefined },
  apex: DomainName,
  zone: Zone | undefined,
): Steps<Result<CheckedFile, Refusal>> {
  const parsed = yield* parseZoneFileSteps(text, {
    origin: apex,
    bounds,
    ...(zone ? { defaultTtlSeconds: zone.ttl } : {}),
  });
  if (!parsed.ok) return refuse(atPositions(parsed.error, (fault) => fault));
  const { soa: soaInFile, records } = parsed.value;
  const soa = soaInFile && decodeSoaRdata(soaInFile.rdata);
  const problem = soa && checkSoa(soa);
  if (problem) return refuse(atPosition(positionOf(parsed.value, soaInFile), problem));
  const mname = soa?.mname ?? zone?.soa.mname;
  const checked = yield* checkWholeZoneSteps({ apex, records, mname });
  if (!checked.ok) {
    // What is missing from the file is missed at its end.
    const end = { line: text.split("\n").length, column: 1 };
    return refuse(atPositions(checked.error, ({ record }) => positionOf(parsed.value, record) ?? end));
  }
  // Whether it is signed may change until the file is applied, where the same is refused without a place.
  const placed = readFollowers(text, apex, followPolicy.followersAZone);
  if (!placed.ok) return refuse(atPosition({ line: placed.error.line, column: 1 }, placed.error.reason));
  const clash = findClash(placed.value, records, apex);
  if (clash) return refuse(clash);
  const derived = zone?.signed ? records.find(({ type }) => DERIVED_TYPES.has(type)) : undefined;
  if (zone && derived) return refuse(atPosition(positionOf(parsed.value, derived), madeBySigning(zone, derived.type)));
  const followers = placed.value.map(({ follower }) => follower);
  const warnings = [...parsed.value.warnings, ...checked.value];
  return ok({ soa, soaTtl: soaInFile?.ttl, records, followers, warnings });
}

/** What a name that follows something has in the file beside its addresses, which are taken for those it had. */
function findClash(
  placed: readonly PlacedFollower[],
  records: readonly ResourceRecord[],
  apex: DomainName,
): Refusal | undefined {
  const byOwner = new Map(placed.map((one) => [one.follower.owner.key, one]));
  for (const record of placed.length > 0 ? records : []) {
    const found = byOwner.get(record.owner.key);
    if (!found || FOLLOWED_TYPES.includes(record.type)) continue;
    const clash = clashOf(found.follower, [record], apex);
    if (clash) return atPosition({ line: found.line, column: 1 }, sentenceOf(clash));
  }
  return undefined;
}

async function planReplacement(db: Db, zone: Zone, file: CheckedFile, now: Date): Promise<Result<ZonePlan, Refusal>> {
  const serial =
    file.soa && serialIsAhead(file.soa.serial, zone.soa.serial)
      ? ok(file.soa.serial)
      : nextSerial(zone.soa.serial, zone.serialType, now);
  if (!serial.ok) return refuse(unacceptable(serial.error));
  const current = await readAllRecords(db, zone.id);
  const followersNow = zone.hasFollowers ? await readAllFollowers(db, zone.id) : [];
  const followers = followersBetween(followersNow, file.followers ?? followersNow);
  const unlawful = await judgeFollowers(db, zone, followers);
  if (unlawful) return refuse(unlawful);
  const records = withDerivedAsIs(file.records, current, keptBy(followers, followersNow));
  const difference = await runInTurns(differenceSteps(current, records));
  const rows = { deletedIds: difference.deleted.map(({ id }) => id), updated: [], created: difference.added };
  const soa = { ...(file.soa ?? zone.soa), serial: serial.value };
  const change = { soa, ttl: file.soaTtl ?? zone.ttl, rows, difference, followers, mindsDerived: true };
  const gone = followers.deleted.filter(({ owner }) => !followers.created.some((one) => one.owner.key === owner.key));
  const forgotten = gone.map(({ owner }) => sentence("follower-not-in-file", { name: nameOf(owner) }));
  // A SOA that is taken as it stands in the file is what the signature in the file is of.
  const isAsInFile = file.soa?.serial === serial.value;
  const outdated = (isAsInFile ? digestWarnings : outdatedWarnings)(zone, serial.value, records);
  return ok({ zone, change, warnings: [...outdated, ...file.warnings, ...forgotten] });
}

function positionOf(file: ZoneFile, record: ResourceRecord | undefined): TextPosition | undefined {
  return record && file.positions.get(record);
}

/** All faults of a file that are told, each with its place. */
function atPositions<Fault extends Sentence>(
  fault: FirstFault<Fault>,
  positionOfFault: (fault: Fault) => TextPosition,
): Refusal {
  const said = (one: Fault) => {
    const { line, column } = positionOfFault(one);
    return sentence("file-line", { line, column, reason: one });
  };
  return unacceptable(sayAll([said(fault), ...fault.others.map(said)], fault.leftOut));
}

function atPosition(position: TextPosition | undefined, reason: Sentence): Refusal {
  if (!position) return unacceptable(reason);
  return unacceptable("file-line", { line: position.line, column: position.column, reason });
}
