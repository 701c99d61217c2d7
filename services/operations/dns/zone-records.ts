import { FOLLOWED_TYPES } from "../../core/dns/follow/follower.ts";
import type { FollowerChange } from "../../core/dns/follow/follower-edits.ts";
import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { editsOfRrsets, type RrsetChange } from "../../core/dns/rrset-edits.ts";
import { nextSerial, nextSerialAnyway, serialIsAhead } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { judgeAsked, mayRead } from "../../core/dns/token.ts";
import {
  editRecords,
  type Modification,
  type RecordDraft,
  type RecordEdits,
  type StoredRecord,
  type ZoneEdits,
} from "../../core/dns/zone-edit.ts";
import { alteredTargets, findWarnings, outdatedWarnings, surroundingsOf } from "../../core/dns/zone-warnings.ts";
import { addToGroup } from "../../core/groups.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt, readRecordsBelowEach, readRecordsPointingTo } from "../../store/dns/records.ts";
import { measureExcerpt, readExcerpt, readLargeExcerpt, type ZoneExcerpt } from "../../store/dns/zone-excerpts.ts";
import { type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { changeZone, judgeSerial, type ZoneChanged, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { checkPlaces, planFollowers } from "./zone-followers.ts";

/** So many records below a new zone cut are enough to warn of them, and so many below all that one change makes. */
const RECORDS_BELOW = { each: 10, together: 10_000 };

/** So many records that point to what is no target any more are enough. */
const RECORDS_POINTING = 20;

/**
 * Of so many names above a change's records it is asked what stands there. The names above deep records of a large
 * batch could be millions; what is beyond is not looked at for warnings.
 */
const MOST_NAMES_ABOVE = 50_000;

/**
 * Applies edits to a zone's records and followers; the serial increases once for each created, modified or deleted. An id of
 * what a token may not read is refused as one that is not there.
 */
export function changeRecords(
  db: Db,
  target: ZoneTarget,
  edits: ZoneEdits,
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  const names = knownNames(target.apex, edits.creations, edits.modifications);
  const ids = [...edits.deletionIds, ...edits.modifications.map(({ id }) => id)];
  const named = new Set(ids);
  return changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const excerpt = await excerptFor(on, target, names, ids);
    if (!excerpt) return refuse(zoneDoesNotExist(target.domain));
    const changedMeanwhile = judgeSerial(target, excerpt.zone, edits.atSerial);
    if (changedMeanwhile) return refuse(changedMeanwhile);
    const found = excerpt.records.filter((record) => mayRead(target.token, record) || !named.has(record.id));
    const barred = target.token && judgeAsked(target.token, askedBy(edits, found));
    if (barred) return refuse(barred);
    if (!edits.followers) return planEdits(on, { ...excerpt, records: found, names }, { edits, now });
    const planned = await planFollowers(on, excerpt.zone, edits.followers, target.token);
    if (!planned.ok) return planned;
    const { change, records, deletionIds } = planned.value;
    const all = [...new Map([...found, ...records].map((record) => [record.id, record])).values()];
    const withDerived = { ...edits, deletionIds: [...edits.deletionIds, ...deletionIds] };
    const derived = { change, deletions: deletionIds.length };
    return planEdits(on, { ...excerpt, records: all, names }, { edits: withDerived, now, derived });
  });
}

/** The RRsets that edits ask for. Whoever is not for them is not to learn what they have, by what speaks against an edit. */
function askedBy({ creations, modifications, followers }: ZoneEdits, records: readonly StoredRecord[]) {
  const byId = new Map(records.map((record) => [record.id, record]));
  const modified = modifications.flatMap(({ id, draft }) => {
    const current = byId.get(id);
    const wanted = current && draft(current);
    return wanted?.ok ? [wanted.value] : [];
  });
  const followed = (followers?.creations ?? []).flatMap(({ owner }) => FOLLOWED_TYPES.map((type) => ({ owner, type })));
  return [...creations, ...modified, ...followed];
}

/** A SOA that is to be the zone's, and its TTL. */
export interface WantedSoa {
  readonly soa: SoaRdata;
  readonly ttl: number;
}

/**
 * Changes RRsets, one after the other, and the SOA where one is wanted, all in one step. The serial increases by one, in a
 * calendar zone also when the day's hundred is used up: who speaks to PowerDNS expects no limit.
 */
export function changeRrsets(
  db: Db,
  target: ZoneTarget,
  { changes, soa }: { readonly changes: readonly RrsetChange[]; readonly soa?: WantedSoa | undefined },
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  const names = knownNames(
    target.apex,
    changes.flatMap(({ rdatas, ...rrset }) => rdatas.map((rdata) => ({ ...rrset, rdata }))),
    [],
  );
  const owners = changes.map(({ owner }) => owner);
  const all = [...new Map([...names, ...owners].map((name) => [name.key, name])).values()];
  return changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const excerpt = await excerptFor(on, target, all, []);
    if (!excerpt) return refuse(zoneDoesNotExist(target.domain));
    const barred = target.token && judgeAsked(target.token, changes);
    if (barred) return refuse(barred);
    const edits = editsOfRrsets(excerpt.records, changes);
    return edits.ok
      ? planEdits(on, { ...excerpt, names: all }, { edits: edits.value, now, soa, isOneStep: true })
      : edits;
  });
}

/** Outside of a transaction a small one is read together with others. */
async function excerptFor(
  on: Db,
  target: ZoneTarget,
  names: readonly DomainName[],
  ids: readonly number[],
): Promise<ZoneExcerpt | undefined> {
  const { apex, scope } = target;
  const ask = { apex, scope, names, ids };
  const isTogether = target.together?.takes(ask) && !on.isTransaction;
  const together = isTogether ? await target.together?.read(ask) : "large";
  if (together !== "large") return together;
  const excerpt = await readExcerpt(on, ask);
  if (excerpt !== "large") return excerpt;
  target.admitMuch?.(await measureExcerpt(on, ask));
  return readLargeExcerpt(on, ask);
}

/** What edits of a zone come to, by what it has at the names that they are about. */
async function planEdits(
  on: Db,
  { zone, records, leftOut, names }: ZoneExcerpt & { readonly names: readonly DomainName[] },
  {
    edits,
    now,
    soa: wanted,
    derived,
    isOneStep = false,
  }: {
    readonly edits: RecordEdits;
    readonly now: Date;
    readonly soa?: WantedSoa | undefined;
    /** What becomes of followers, and how many of the deletions are of what was derived from them. */
    readonly derived?: { readonly change: FollowerChange; readonly deletions: number };
    /** Whether the serial increases by one, and not with every record. */
    readonly isOneStep?: boolean;
  },
): Promise<Result<ZonePlan, Refusal>> {
  const edited = editRecords(zone, records, edits);
  if (!edited.ok) return edited;
  const { changed, touched, rows, difference } = edited.value;
  const followers = derived && isEmpty(derived.change) ? undefined : derived?.change;
  const clash = followers && checkPlaces(followers.created, zone.apex, recordsAtEnd(touched, records));
  if (clash) return refuse(clash);
  const changeCount = edited.value.changeCount - (derived?.deletions ?? 0) + countOf(followers);
  if (changeCount === 0 && !wanted) return ok({ zone, warnings: [] });
  const serial =
    wanted && serialIsAhead(wanted.soa.serial, zone.soa.serial)
      ? ok(wanted.soa.serial)
      : isOneStep
        ? ok(nextSerialAnyway(zone.soa.serial, zone.serialType, now))
        : nextSerial(zone.soa.serial, zone.serialType, now, Math.max(1, changeCount));
  if (!serial.ok) return refuse(unacceptable(serial.error));
  const known = new Map([...byOwner(names, records), ...touched]);
  const targets = alteredTargets(difference, touched);
  const primary = wanted?.soa.mname ?? zone.soa.mname;
  const mname = wanted || targets.some(({ key }) => key === primary.key) ? primary : undefined;
  const rewritten = new Set([...rows.deletedIds, ...rows.updated.map(({ id }) => id)]);
  const looked = lookedAt(zone.apex, changed);
  const doubts = await warningsOf(on, zone, { changed: looked, known, targets, rewritten, mname });
  const outdated = outdatedWarnings(zone, serial.value, known.get(zone.apex.key) ?? []);
  const warnings = [...doubts, ...outdated];
  const soa = { ...(wanted?.soa ?? zone.soa), serial: serial.value };
  const change = { soa, ttl: wanted?.ttl ?? zone.ttl, rows, difference, followers };
  return ok({ zone, change, touchesSoa: wanted !== undefined, warnings, leftOut });
}

function isEmpty(change: FollowerChange): boolean {
  return countOf(change) === 0;
}

function countOf(change: FollowerChange | undefined): number {
  return change ? change.deleted.length + change.updated.length + change.created.length : 0;
}

/** The records of a name as a change leaves them. */
function recordsAtEnd(touched: ReadonlyMap<string, readonly ResourceRecord[]>, before: readonly ResourceRecord[]) {
  return ({ key }: DomainName) => touched.get(key) ?? before.filter(({ owner }) => owner.key === key);
}

/**
 * What is doubtful about a change.
 * @param what.changed records that are new or modified
 * @param what.known all records at some names, as they will be; others are read
 * @param what.targets names that lost what others point to, and `rewritten` the ids of records that are not as stored
 * @param what.mname the primary server, when it is new or among the targets
 */
export async function warningsOf(
  db: Db,
  zone: Pick<Zone, "id" | "apex">,
  what: {
    readonly changed: readonly ResourceRecord[];
    readonly known: ReadonlyMap<string, readonly ResourceRecord[]>;
    readonly targets?: readonly DomainName[];
    readonly rewritten?: ReadonlySet<number>;
    readonly mname?: DomainName | undefined;
  },
): Promise<Sentence[]> {
  const { names, subtrees } = surroundingsOf(zone.apex, what.changed, what.mname);
  const unread = names.filter(({ key }) => !what.known.has(key));
  const around = byOwner(unread, await readRecordsAt(db, zone.id, unread));
  const below = await readRecordsBelowEach(db, zone.id, subtrees, RECORDS_BELOW);
  const stored = await readRecordsPointingTo(db, zone.id, what.targets ?? [], RECORDS_POINTING);
  const pointing = stored.filter(({ id }) => !what.rewritten?.has(id));
  const view = {
    recordsAt: ({ key }: DomainName) => what.known.get(key) ?? around.get(key) ?? [],
    recordsBelow: ({ key }: DomainName) => below.get(key) ?? [],
  };
  return findWarnings({ apex: zone.apex, changed: what.changed, pointing, mname: what.mname }, view);
}

/** The names that the edits show by themselves to be needed, so that one query reads the records of most changes. */
function knownNames(
  apex: DomainName,
  creations: readonly RecordDraft[],
  modifications: readonly Modification[],
): DomainName[] {
  const created = creations.map((draft) => ({ ...draft, ttl: 0 }));
  const moved = modifications.flatMap(({ newOwner }) => newOwner ?? []);
  const around = surroundingsOf(apex, lookedAt(apex, created)).names;
  const names = [apex, ...created.map(({ owner }) => owner), ...moved, ...around];
  return [...new Map(names.map((name) => [name.key, name])).values()];
}

/** The first records of a change, as far as the names above them are not too many. */
function lookedAt(apex: DomainName, records: readonly ResourceRecord[]): readonly ResourceRecord[] {
  let namesAbove = 0;
  return records.filter(({ owner }) => {
    namesAbove += owner.labelCount - apex.labelCount;
    return namesAbove <= MOST_NAMES_ABOVE;
  });
}

function byOwner(
  names: readonly DomainName[],
  records: readonly ResourceRecord[],
): Map<string, readonly ResourceRecord[]> {
  const grouped = new Map<string, ResourceRecord[]>(names.map(({ key }) => [key, []]));
  for (const record of records) addToGroup(grouped, record.owner.key, record);
  return grouped;
}
