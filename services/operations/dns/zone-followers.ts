import { findCircles, type Steps } from "../../core/dns/follow/circles.ts";
import { FOLLOWED_TYPES, type Follower, type StoredFollower, targetsOf } from "../../core/dns/follow/follower.ts";
import {
  clashOf,
  derivedRecord,
  editFollowers,
  type FollowerChange,
  type FollowerEdits,
  touchesDerived,
} from "../../core/dns/follow/follower-edits.ts";
import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { mayRead, type Token } from "../../core/dns/token.ts";
import type { StoredRecord, ZoneChange } from "../../core/dns/zone-edit.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  countFollowers,
  countTargets,
  haveOtherZones,
  lockCircles,
  readFollowers,
  readSteps,
} from "../../store/dns/followers.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { Overtaken } from "../../store/transactions.ts";

/** What edits of a zone's followers come to. */
export interface PlannedFollowers {
  readonly change: FollowerChange;
  /** All records at the names that they touch. */
  readonly records: readonly StoredRecord[];
  /** Ids of the derived records that go with their followers. */
  readonly deletionIds: readonly number[];
}

/**
 * Plans edits of followers. The records that were derived go with a follower that is deleted; those of one that is
 * modified stay until it is known what they are to be.
 * @param token what it may not read is not there for it
 */
export async function planFollowers(
  db: Db,
  zone: Zone,
  edits: FollowerEdits,
  token: Token | undefined,
): Promise<Result<PlannedFollowers, Refusal>> {
  const ids = [...edits.deletions, ...edits.modifications].map(({ id }) => id);
  const current = await readFollowers(db, zone.id, { ids, names: edits.creations.map(({ owner }) => owner) });
  const known = current.filter((follower) => mayReadFollower(token, follower));
  const change = editFollowers(known, edits);
  if (!change.ok) return change;
  const { deleted, created } = change.value;
  const problem = await judgeFollowers(db, zone, change.value);
  if (problem) return refuse(problem);
  const records = await readRecordsAt(
    db,
    zone.id,
    [...deleted, ...created].map(({ owner }) => owner),
  );
  const gone = new Set(deleted.map(({ owner }) => owner.key));
  const isDerived = ({ owner, type }: ResourceRecord) => gone.has(owner.key) && FOLLOWED_TYPES.includes(type);
  return ok({ change: change.value, records, deletionIds: records.filter(isDerived).map(({ id }) => id) });
}

/** Whether all that is derived of a follower may be read, and so it itself. */
export function mayReadFollower(token: Token | undefined, { owner }: Pick<Follower, "owner">): boolean {
  return FOLLOWED_TYPES.every((type) => mayRead(token, { owner, type }));
}

/** What keeps followers from being made: a way back to themselves, or that there are too many. */
export async function judgeFollowers(
  db: Db,
  zone: Pick<Zone, "id">,
  change: FollowerChange,
): Promise<Refusal | undefined> {
  const { deleted, updated, created } = change;
  const changed = [...created, ...updated.map(({ after }) => after)];
  if (changed.length === 0) return undefined;
  if (await closesCircle(db, change)) return unacceptable("alias-loop");
  const { followersAZone, targetsACompany } = followPolicy;
  const count = (await countFollowers(db, zone.id)) + created.length - deleted.length;
  if (count > followersAZone) return unacceptable("too-many-followers", { most: followersAZone });
  const targets = await countTargets(db, zone.id, changed.flatMap(targetsOf));
  return targets > targetsACompany ? unacceptable("too-many-targets", { most: targetsACompany }) : undefined;
}

const NOBODY: Pick<FollowerChange, "deleted" | "updated"> = { deleted: [], updated: [] };

/** The same of a zone that is made with followers. */
export async function judgeFirstFollowers(db: Db, created: readonly Follower[]): Promise<Refusal | undefined> {
  return (await closesCircle(db, { ...NOBODY, created })) ? unacceptable("alias-loop") : undefined;
}

/**
 * Whether something would follow itself by what a change has followed that was not followed before. A circle that there is
 * already stands in the way of no other change: it could not be mended else.
 */
async function closesCircle(db: Db, { deleted, updated, created }: FollowerChange): Promise<boolean> {
  const added = [
    ...created.flatMap((follower) => stepsOf(follower)),
    ...updated.flatMap(({ before, after }) => stepsOf(after, before)),
  ];
  if (added.length === 0) return false;
  const gone = [...deleted, ...updated.map(({ before }) => before)];
  const steps = await readWays(db, gone, [...created, ...updated.map(({ after }) => after)]);
  const isCircular = findCircles(steps);
  return added.some(([from, to]) => isCircular(from, to));
}

type Step = readonly [from: string, to: string];

/** @param before whose steps are left out */
function stepsOf(follower: Follower, before?: Follower): Step[] {
  const from = keyOf(follower.owner);
  const known = new Set(before && keyOf(before.owner) === from ? targetsOf(before).map(keyOf) : []);
  return targetsOf(follower)
    .map(keyOf)
    .flatMap((to): Step[] => (known.has(to) ? [] : [[from, to]]));
}

function keyOf({ wire }: DomainName): string {
  return Buffer.from(nameSortKey(wire)).toString("hex");
}

/** What some followers lead to, and the followers there in turn. @param gone names that follow nothing any more */
async function readWays(db: Db, gone: readonly Pick<Follower, "owner">[], from: readonly Follower[]): Promise<Steps> {
  const steps = new Map<string, readonly string[]>(gone.map(({ owner }) => [keyOf(owner), []]));
  for (const follower of from) steps.set(keyOf(follower.owner), targetsOf(follower).map(keyOf));
  let unknown = [...new Set([...steps.values()].flat())].filter((key) => !steps.has(key));
  while (unknown.length > 0) {
    const found = await readSteps(db, unknown);
    for (const key of unknown) steps.set(key, found.get(key) ?? []);
    unknown = [...new Set([...found.values()].flat())].filter((key) => !steps.has(key));
  }
  return steps;
}

/** Finds which of what some followers follow leads back to them. */
export async function findWaysBack(
  db: Db,
  followers: readonly Follower[],
): Promise<(follower: Follower, target: DomainName) => boolean> {
  const isCircular = findCircles(await readWays(db, [], followers));
  return ({ owner }, target) => isCircular(keyOf(owner), keyOf(target));
}

/** A circle was closed by two changes that did not see each other: this one is to be planned anew, and is refused then. */
export class ClosedMeanwhile extends Overtaken {}

/**
 * Keeps two changes from closing a circle through their zones, each without seeing the other: looks once more, one change
 * at a time, at what the followers lead to that a transaction has written. It is to lock nothing after this, so that
 * nobody waits in a circle, and for no longer than a commit takes.
 * @throws ClosedMeanwhile
 */
export async function guardCircles(transaction: Db, change: FollowerChange): Promise<void> {
  await lockCircles(transaction);
  if (await closesCircle(transaction, change)) throw new ClosedMeanwhile("a circle of followers was closed meanwhile");
}

/** Whether followers of a change, or those that they lead to, follow names in other zones hosted here. */
export async function leadsElsewhere(
  db: Db,
  zone: Pick<Zone, "id">,
  { updated, created }: FollowerChange,
): Promise<boolean> {
  const changed = [...created, ...updated.map(({ after }) => after)];
  if (changed.every((follower) => targetsOf(follower).length === 0)) return false;
  const steps = await readWays(db, [], changed);
  return haveOtherZones(db, zone.id, [...steps.values()].flat());
}

/**
 * Records with the derived ones of some names put back as they are: what somebody else says of them does not count.
 * @param kept followers whose names keep what they have
 */
export function withDerivedAsIs<Current extends ResourceRecord>(
  records: readonly ResourceRecord[],
  current: readonly Current[],
  kept: readonly Pick<Follower, "owner">[],
): readonly ResourceRecord[] {
  if (kept.length === 0) return records;
  const owners = new Set(kept.map(({ owner }) => owner.key));
  const isDerived = ({ owner, type }: ResourceRecord) => owners.has(owner.key) && FOLLOWED_TYPES.includes(type);
  return [...records.filter((record) => !isDerived(record)), ...current.filter(isDerived)];
}

/** The followers that a change leaves where they were, altered or not. */
export function keptBy(change: FollowerChange, before: readonly StoredFollower[]): readonly StoredFollower[] {
  const gone = new Set(change.deleted.map(({ id }) => id));
  return before.filter(({ id }) => !gone.has(id));
}

/** What keeps a name that is to follow something from doing so, by the records that it will have. */
export function checkPlaces(
  followers: readonly Pick<Follower, "owner">[],
  apex: DomainName,
  recordsAt: (owner: DomainName) => readonly ResourceRecord[],
): Refusal | undefined {
  for (const follower of followers) {
    const clash = clashOf(follower, recordsAt(follower.owner), apex);
    if (clash) return clash;
  }
  return undefined;
}

/**
 * Refuses a change by hand of what is derived: addresses of a name that follows something, and what would take its place.
 * Deletions of what a follower that goes had are none.
 */
export async function guardDerived(db: Db, zone: Zone, change: ZoneChange): Promise<Refusal | undefined> {
  if (!zone.hasFollowers || change.mindsDerived) return undefined;
  const { deleted, added } = change.difference;
  const touched = [...added, ...deleted.filter(({ type }) => FOLLOWED_TYPES.includes(type))].filter((record) =>
    touchesDerived(record, zone.apex),
  );
  const names = [...new Map(touched.map(({ owner }) => [owner.key, owner])).values()];
  const followers = await readFollowers(db, zone.id, { names });
  const gone = new Set(change.followers?.deleted.map(({ id }) => id));
  const kept = new Set(followers.filter(({ id }) => !gone.has(id)).map(({ owner }) => owner.key));
  const clash = touched.find(({ owner }) => kept.has(owner.key));
  return clash && derivedRecord(clash.owner, clash.type);
}
