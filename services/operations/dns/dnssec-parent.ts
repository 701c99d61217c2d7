import { dnskeyOf } from "../../core/dns/dnssec/apex-records.ts";
import { isDsOf } from "../../core/dns/dnssec/dnskey.ts";
import { advanceKeys, noteDsSeen, noteParentKeys } from "../../core/dns/dnssec/rollover.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { signingPolicy } from "../../platform/config/dnssec-policy.ts";
import type { LookUpDs, ParentDs } from "../../platform/lookups/ds-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { SigningState, StoredKey } from "../../store/dns/dnssec-keys.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { publishDs, readHostedDs } from "./dnssec-hosted-parent.ts";
import {
  changeSigning,
  findSignedZone,
  type SignedZone,
  type SigningDecision,
  type SigningTarget,
  timingOf,
} from "./zone-signing-state.ts";
import { isNotSigned } from "./zone-signing-switch.ts";

/** What a zone's parent has as DS: read where it is hosted here in the same hand, else asked for. */
export async function askParent(db: Db, apex: DomainName, lookUpDs: LookUpDs): Promise<ParentDs | undefined> {
  return (await readHostedDs(db, apex)) ?? lookUpDs(apex);
}

/** Asks the parent, and notes what it says; when it says nothing, all stays as it is. */
export async function checkParentDs(
  db: Db,
  target: SigningTarget,
  lookUpDs: LookUpDs,
): Promise<Result<SignedZone, Refusal>> {
  const said = await askParent(db, target.apex, lookUpDs);
  return said ? noteParentDs(db, target, said) : findSignedZone(db, target);
}

/**
 * Has a hosted parent take over what CDS says now, and notes that it has.
 * @returns the parent, when that changed it
 */
export async function updateHostedParent(db: Db, target: SigningTarget): Promise<Zone | undefined> {
  const parent = await publishDs(db, target);
  const said = parent && (await readHostedDs(db, target.apex));
  if (said) await noteParentDs(db, target, said);
  return parent;
}

/**
 * Notes what the parent has just said of its DS, and what follows: keys come into use, retire, or lose their DS. From an
 * answer that nobody has validated nothing follows, unless the policy takes it for true: it is noted and shown.
 */
export function noteParentDs(db: Db, target: SigningTarget, said: ParentDs): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state, { now, timing: before }) => {
    const { records, authenticated } = said;
    const dsTtlSeconds = records.length > 0 ? said.ttlSeconds : state.parent.dsTtlSeconds;
    const noted = { ...state, parent: { ds: records, authenticated, dsTtlSeconds, checkedAt: now } };
    if (!authenticated && signingPolicy.parentMustBeAuthenticated) return ok(noted);
    if (records.length === 0) return ok(afterDsGone(noted, state, { now, timing: before }));
    const isPointedTo = (key: StoredKey) => records.some((rdata) => isDsOf(rdata, target.apex, dnskeyOf(key)));
    const tags = new Set(state.keys.filter(isPointedTo).map(({ keyTag }) => keyTag));
    // Caches may have the DS of before for its own TTL.
    const parentDsTtlSeconds = Math.max(before.parentDsTtlSeconds ?? 0, dsTtlSeconds ?? 0);
    const keys = noteParentKeys(state.keys, tags, now, { ...before, parentDsTtlSeconds });
    return ok({ ...noted, keys, dsGoneAt: null });
  });
}

/** Notes the operator's word that the parent has the DS of a key. */
export function confirmDsSeen(db: Db, target: SigningTarget, keyTag: number): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state, { now, timing }) => {
    const keys = noteDsSeen(state.keys, keyTag, now, timing);
    return keys.ok ? ok({ ...state, keys: keys.value, dsGoneAt: null }) : keys;
  });
}

/** Notes the operator's word that the parent has no DS any more. */
export function confirmDsGone(db: Db, target: SigningTarget): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state, moment) =>
    ok(afterDsGone({ ...state, parent: { ...state.parent, ds: [] } }, state, moment)),
  );
}

/** Asks the parent, by CDS and CDNSKEY, to remove its DS, or to have it after all (RFC 8078 §4). */
export function wishForDs(db: Db, target: SigningTarget, dsWanted: boolean): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state, { now }) => {
    const moving = state.keys.find(
      (key) => key.state === "generated" || key.state === "retired" || key.state === "removed",
    );
    if (moving && !dsWanted)
      return refuse(unacceptable("rollover-under-way", { tag: moving.keyTag, state: moving.state }));
    return ok(dsWanted === state.dsWanted ? state : { ...state, dsWanted, dsWishedAt: now });
  });
}

/** Whether the DS in a hosted parent is to follow CDS by itself. */
export function setDsAutomatic(
  db: Db,
  target: SigningTarget,
  dsAutomatic: boolean,
): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state) => ok({ ...state, dsAutomatic }));
}

/** Takes the steps of key changes whose time has come. */
export function advanceZoneKeys(db: Db, target: SigningTarget): Promise<Result<SignedZone, Refusal>> {
  return changeState(db, target, async (state, { now, timing }) =>
    ok({ ...state, keys: advanceKeys(state.keys, now, timing) }),
  );
}

/** @param before tells whether there was any DS until now */
function afterDsGone(state: SigningState, before: SigningState, { now, timing }: Moment): SigningState {
  const hadDs = before.keys.some(({ hasDs }) => hasDs) || (before.parent.ds ?? []).length > 0;
  const keys = noteParentKeys(state.keys, new Set(), now, timing);
  return { ...state, keys, dsGoneAt: hadDs ? now : state.dsGoneAt };
}

interface Moment {
  readonly now: Date;
  readonly timing: Awaited<ReturnType<typeof timingOf>>;
}

/** Changes the state of a signed zone, and of its data what follows from that: a step that no quota may stop midway. */
function changeState(
  db: Db,
  target: SigningTarget,
  change: (state: SigningState, moment: Moment) => Promise<Result<SigningState, Refusal>>,
): Promise<Result<SignedZone, Refusal>> {
  const counted = { ...target, quotas: "count" as const };
  return changeSigning(db, counted, async (transaction, { zone, state }): Promise<Result<SigningDecision, Refusal>> => {
    if (!state) return refuse(isNotSigned(target.domain));
    const now = new Date(target.signer.clock.nowMs());
    const timing = await timingOf(transaction, zone, { now, parent: state.parent });
    const after = await change(state, { now, timing });
    return after.ok ? ok({ state: after.value, extent: extentOf(state, after.value) }) : after;
  });
}

/** How much of the zone's data a change of its keys concerns. */
function extentOf(before: SigningState, after: SigningState): SigningDecision["extent"] {
  const tagsOf = ({ keys }: SigningState, has: (key: StoredKey) => boolean): string =>
    keys
      .filter(has)
      .map(({ keyTag }) => keyTag)
      .join();
  const differs = (has: (key: StoredKey) => boolean) => tagsOf(before, has) !== tagsOf(after, has);
  if (differs(({ signsZone }) => signsZone)) return "zone";
  const changesApex =
    before.dsWanted !== after.dsWanted ||
    differs(({ isPublished }) => isPublished) ||
    differs(({ signsKeySet }) => signsKeySet) ||
    differs(({ state }) => state === "ready") ||
    differs(({ state }) => state === "active");
  return changesApex ? "apex" : "nothing";
}
