import type { FollowedAddresses } from "../../core/dns/follow/evaluate.ts";
import { FOLLOWED_TYPES, type StoredFollower } from "../../core/dns/follow/follower.ts";
import { sameFollower } from "../../core/dns/follow/follower-edits.ts";
import { parseIpAddress } from "../../core/dns/ip-address.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { editsOfRrsets, type RrsetChange } from "../../core/dns/rrset-edits.ts";
import { nextSerialAnyway } from "../../core/dns/serial.ts";
import { editRecords } from "../../core/dns/zone-edit.ts";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type DueFollower, readFollowers } from "../../store/dns/followers.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { findZone, type Zone, zoneDoesNotExist, zoneName } from "../../store/dns/zones.ts";
import { changeZone, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import type { ZoneSigner } from "./zone-signing.ts";

/** Who is named in the history for what is derived. */
const FOLLOW_ACTOR = "follow";

/** A name that follows something, and the addresses that it is to have. */
export interface FollowedName {
  readonly follower: DueFollower;
  /** Undefined: nothing is known, all stays. */
  readonly wanted: FollowedAddresses | undefined;
  readonly problem: Sentence | null;
}

/** What came of the addresses that a zone was to have. */
export interface WrittenAddresses {
  /** As it is now, when it changed. */
  readonly zone: Zone | undefined;
  /** Why some have fewer addresses than they should, and which: their company may have no more records. */
  readonly short?: { readonly ids: ReadonlySet<number>; readonly reason: Refusal };
}

/**
 * Writes the addresses that are others than the zone has. Where the company may have no more records, names that follow go on
 * to do so with as many addresses as they have.
 */
export async function writeAddresses(
  db: Db,
  apex: DomainName,
  lines: readonly FollowedName[],
  signer: ZoneSigner,
): Promise<Result<WrittenAddresses, Refusal>> {
  const known = lines.filter(({ wanted }) => wanted !== undefined);
  if (known.length === 0) return ok({ zone: undefined });
  const target = { scope: {}, apex, domain: zoneName(apex), actor: FOLLOW_ACTOR, signer };
  const changed = await changeAddresses(db, { ...target, quotas: "hold" }, known, (line) => line);
  if (changed.ok) return ok({ zone: changed.value.zone });
  if (sentenceOf(changed.error).code !== "quota-exceeded") return changed;
  const within = await changeAddresses(db, { ...target, quotas: "count" }, known, atMost);
  if (!within.ok) return within;
  const { zone, limited } = within.value;
  return ok({ zone, short: { ids: limited, reason: changed.error } });
}

/**
 * @param limit makes of a line what may be written, by how many addresses its name has
 * @returns the zone as it is now, where it changed, and the followers of which less was written than was to be
 */
async function changeAddresses(
  db: Db,
  target: ZoneTarget & { readonly signer: ZoneSigner },
  known: readonly FollowedName[],
  limit: (line: FollowedName, count: number) => FollowedName,
): Promise<Result<{ readonly zone: Zone | undefined; readonly limited: ReadonlySet<number> }, Refusal>> {
  // Of the plan that was made last.
  let limited = new Set<number>();
  const changed = await changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const zone = await findZone(on, target.scope, target.apex);
    if (!zone) return refuse(zoneDoesNotExist(target.domain));
    const followers = await readFollowers(on, zone.id, { ids: known.map(({ follower }) => follower.id) });
    const byId = new Map(followers.map((follower) => [follower.id, follower]));
    // What is another by now was stirred, and is done again.
    const current = known.filter(({ follower }) => isStill(follower, byId.get(follower.id)));
    const owners = current.map(({ follower }) => follower.owner);
    const records = await readRecordsAt(on, zone.id, owners);
    const counts = new Map<string, number>();
    for (const { owner, type } of records) {
      if (FOLLOWED_TYPES.includes(type)) counts.set(owner.key, (counts.get(owner.key) ?? 0) + 1);
    }
    const fitting = current.map((line) => limit(line, counts.get(line.follower.owner.key) ?? 0));
    const less = current.filter((line, index) => fitting[index] !== line);
    limited = new Set(less.map(({ follower }) => follower.id));
    const edits = editsOfRrsets(records, fitting.flatMap(rrsetsOf));
    if (!edits.ok) return edits;
    const edited = editRecords(zone, records, edits.value);
    if (!edited.ok) return edited;
    const { rows, difference } = edited.value;
    if (difference.added.length + difference.deleted.length === 0) return ok({ zone, warnings: [] });
    const now = new Date(target.signer.clock.nowMs());
    const soa = { ...zone.soa, serial: nextSerialAnyway(zone.soa.serial, zone.serialType, now) };
    return ok({ zone, change: { soa, ttl: zone.ttl, rows, difference, mindsDerived: true }, warnings: [] });
  });
  if (!changed.ok) return changed;
  return ok({ zone: changed.value.changed ? changed.value.zone : undefined, limited });
}

function atMost(line: FollowedName, count: number): FollowedName {
  const { ipv4, ipv6, ...rest } = line.wanted!;
  if (ipv4.length + ipv6.length <= count) return line;
  const first = ipv4.slice(0, count);
  return { ...line, wanted: { ...rest, ipv4: first, ipv6: ipv6.slice(0, count - first.length) } };
}

function isStill(follower: DueFollower, stored: StoredFollower | undefined): boolean {
  return stored !== undefined && sameFollower(follower, stored);
}

function rrsetsOf({ follower: { owner }, wanted }: FollowedName): RrsetChange[] {
  const { ipv4, ipv6, ttl } = wanted!;
  const families = [
    { type: TYPE.A, addresses: ipv4 },
    { type: TYPE.AAAA, addresses: ipv6 },
  ];
  return families.map(({ type, addresses }) => ({
    ...{ owner, type },
    verb: addresses.length > 0 ? "replace" : "delete",
    ttl: addresses.length > 0 ? ttl : undefined,
    rdatas: [...new Set(addresses)].map((address) => parseIpAddress(address)!),
  }));
}
