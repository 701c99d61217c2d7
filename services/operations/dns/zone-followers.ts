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
import { countFollowers, countTargets, readFollowers, readSteps } from "../../store/dns/followers.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";

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
  { deleted, updated, created }: FollowerChange,
): Promise<Refusal | undefined> {
  const changed = [...created, ...updated.map(({ after }) => after)];
  if (changed.length === 0) return undefined;
  if (await leadBack(db, changed, deleted)) return unacceptable("alias-loop");
  const { followersAZone, targetsACompany } = followPolicy;
  const count = (await countFollowers(db, zone.id)) + created.length - deleted.length;
  if (count > followersAZone) return unacceptable("too-many-followers", { most: followersAZone });
  const targets = await countTargets(db, zone.id, changed.flatMap(targetsOf));
  return targets > targetsACompany ? unacceptable("too-many-targets", { most: targetsACompany }) : undefined;
}

/** Whether some of these would follow themselves, by way of each other and of those that there are. */
async function leadBack(db: Db, changed: readonly Follower[], deleted: readonly Follower[]): Promise<boolean> {
  const keyOf = ({ wire }: DomainName) => Buffer.from(nameSortKey(wire)).toString("hex");
  const steps = new Map<string, readonly string[]>(deleted.map(({ owner }) => [keyOf(owner), []]));
  for (const follower of changed) steps.set(keyOf(follower.owner), targetsOf(follower).map(keyOf));
  let unknown = [...new Set([...steps.values()].flat())].filter((key) => !steps.has(key));
  while (unknown.length > 0) {
    const found = await readSteps(db, unknown);
    for (const key of unknown) steps.set(key, found.get(key) ?? []);
    unknown = [...new Set([...found.values()].flat())].filter((key) => !steps.has(key));
  }
  return hasCircle(steps);
}

/** Takes away what leads nowhere until nothing is left, or only what leads to itself. */
function hasCircle(steps: ReadonlyMap<string, readonly string[]>): boolean {
  const open = new Map([...steps].map(([key, targets]) => [key, new Set(targets).size]));
  const before = new Map<string, string[]>();
  for (const [key, targets] of steps) {
    for (const target of new Set(targets)) {
      const keys = before.get(target);
      if (keys) keys.push(key);
      else before.set(target, [key]);
    }
  }
  const ends = [...open].filter(([, count]) => count === 0).map(([key]) => key);
  for (const end of ends) {
    for (const key of before.get(end) ?? []) {
      const left = open.get(key)! - 1;
      open.set(key, left);
      if (left === 0) ends.push(key);
    }
  }
  return ends.length < steps.size;
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
