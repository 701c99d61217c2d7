import { type Refusal, unacceptable } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { type DomainName, formatDomainName } from "../name.ts";
import type { ResourceRecord } from "../record.ts";
import { TYPE, typeMnemonic } from "../rr-types.ts";
import { FOLLOWED_TYPES, type Follower, type FollowerKind, type StoredFollower } from "./follower.ts";

/** What is to become of a zone's followers. */
export interface FollowerEdits {
  readonly creations: readonly Follower[];
  readonly modifications: readonly {
    readonly kind: FollowerKind;
    readonly id: number;
    /** What the follower is to become, from what it is. */
    readonly change: (current: StoredFollower) => Result<Follower, Refusal>;
  }[];
  readonly deletions: readonly { readonly kind: FollowerKind; readonly id: number }[];
}

/** What a change of a zone writes of its followers. */
export interface FollowerChange {
  readonly deleted: readonly StoredFollower[];
  readonly updated: readonly { readonly before: StoredFollower; readonly after: StoredFollower }[];
  readonly created: readonly Follower[];
}

export const NO_FOLLOWER_EDITS: FollowerEdits = { creations: [], modifications: [], deletions: [] };

/**
 * Applies edits to followers.
 * @param current those with the ids and at the names of the edits (others do no harm)
 * @returns refused when an id is not there or a name would have two
 */
export function editFollowers(
  current: readonly StoredFollower[],
  { creations, modifications, deletions }: FollowerEdits,
): Result<FollowerChange, Refusal> {
  const byId = new Map(current.map((follower) => [follower.id, follower]));
  const named = new Set<number>();
  const take = (kind: FollowerKind, id: number): Result<StoredFollower, Refusal> => {
    const found = byId.get(id);
    if (found?.kind !== kind) return refuse(followerUnknown(kind, id));
    if (named.has(id)) return refuse(unacceptable("follower-twice", { id }));
    named.add(id);
    return ok(found);
  };
  const deleted: StoredFollower[] = [];
  const updated: FollowerChange["updated"][number][] = [];
  for (const { kind, id } of deletions) {
    const found = take(kind, id);
    if (!found.ok) return found;
    deleted.push(found.value);
  }
  for (const { kind, id, change } of modifications) {
    const found = take(kind, id);
    if (!found.ok) return found;
    const after = change(found.value);
    if (!after.ok) return after;
    if (!sameFollower(found.value, after.value)) updated.push({ before: found.value, after: { ...after.value, id } });
  }
  const gone = new Set(deleted.map(({ id }) => id));
  const owners = new Set(current.filter(({ id }) => !gone.has(id)).map(({ owner }) => owner.key));
  for (const { owner } of creations) {
    if (owners.has(owner.key)) return refuse(unacceptable("follower-exists", { name: nameOf(owner) }));
    owners.add(owner.key);
  }
  return ok({ deleted, updated, created: creations });
}

export function followerUnknown(kind: FollowerKind, id: number | string): Refusal {
  return unacceptable(kind === "alias" ? "alias-unknown" : "pool-unknown", { id });
}

export function sameFollower(a: Follower, b: Follower): boolean {
  return a.owner.key === b.owner.key && a.kind === b.kind && sameData(a.definition, b.definition);
}

/** JSON from the database has its members in an order of its own. */
function sameData(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => sameData((a as Named)[key], (b as Named)[key]));
}

type Named = { readonly [key: string]: unknown };

/** How a set of followers becomes another; a name that keeps its kind keeps its id. */
export function followersBetween(before: readonly StoredFollower[], after: readonly Follower[]): FollowerChange {
  const left = new Map(before.map((follower) => [follower.owner.key, follower]));
  const updated: FollowerChange["updated"][number][] = [];
  const created: Follower[] = [];
  for (const follower of after) {
    const was = left.get(follower.owner.key);
    if (was?.kind !== follower.kind) created.push(follower);
    else {
      left.delete(follower.owner.key);
      if (!sameFollower(was, follower)) updated.push({ before: was, after: { ...follower, id: was.id } });
    }
  }
  return { deleted: [...left.values()], updated, created };
}

/** The types that nothing may follow beside: their owner has no addresses of its own, or is somebody else's. */
const CLASHING = [...FOLLOWED_TYPES, TYPE.CNAME, TYPE.NS];

/**
 * What keeps a name from following something.
 * @param records all that the name has besides
 */
export function clashOf(
  { owner }: Pick<Follower, "owner">,
  records: readonly ResourceRecord[],
  apex: DomainName,
): Refusal | undefined {
  const clash = records.find(({ type }) => touchesDerived({ owner, type }, apex));
  return clash && unacceptable("follower-beside-record", { name: nameOf(owner), type: typeMnemonic(clash.type) });
}

/** Whether a record is one that a name that follows something cannot have from others. */
export function touchesDerived({ owner, type }: Pick<ResourceRecord, "owner" | "type">, apex: DomainName): boolean {
  return CLASHING.includes(type) && !(type === TYPE.NS && owner.key === apex.key);
}

export function derivedRecord(owner: DomainName, type: number): Refusal {
  return unacceptable("derived-record", { name: nameOf(owner), type: typeMnemonic(type) });
}

export function nameOf(owner: DomainName): string {
  return formatDomainName(owner).toLowerCase().slice(0, -1) || ".";
}
