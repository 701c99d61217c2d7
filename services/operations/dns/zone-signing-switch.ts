import { isSigningAlgorithm, type SigningAlgorithm } from "../../core/dns/dnssec/algorithm.ts";
import type { Denial } from "../../core/dns/dnssec/denial.ts";
import { type KeyRole, readDsKeyTag } from "../../core/dns/dnssec/dnskey.ts";
import {
  checkRollover,
  dsWaitSeconds,
  firstLives,
  nextLives,
  type RolloverRequest,
} from "../../core/dns/dnssec/rollover.ts";
import { DERIVED_TYPES } from "../../core/dns/dnssec/signature-plan.ts";
import { MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import { typeMnemonic } from "../../core/dns/rr-types.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { signingPolicy } from "../../platform/config/dnssec-policy.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { SigningState } from "../../store/dns/dnssec-keys.ts";
import { findRecordOfType } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import {
  changeSigning,
  type KeyMaterial,
  keyFrom,
  makeKeys,
  type NewKey,
  type SignedZone,
  type SigningDecision,
  type SigningTarget,
  timingOf,
} from "./zone-signing-state.ts";

/** One key for everything, or one for the key set and one for all else. */
export const KEY_LAYOUTS = ["csk", "ksk-zsk"] as const;
export type KeyLayout = (typeof KEY_LAYOUTS)[number];

/** How a zone is to be signed; what is absent stays, or is the default of a zone that is signed for the first time. */
export interface SigningWish {
  readonly denial?: Denial | undefined;
  readonly algorithm?: SigningAlgorithm | undefined;
  readonly layout?: KeyLayout | undefined;
  /** Keys to sign with instead of new ones. */
  readonly keys?: readonly KeyMaterial[] | undefined;
}

/**
 * Signs a zone, or changes how it is signed: another kind of denial is in force at once, another algorithm begins a
 * rollover. Refuses a zone that has DNSSEC records of its own: those are served as they are.
 */
export function enableSigning(db: Db, target: SigningTarget, wish: SigningWish): Promise<Result<SignedZone, Refusal>> {
  return changeSigning(db, target, async (transaction, { zone, state }) => {
    const denial = wish.denial ?? state?.denial ?? "nsec";
    const problem = denial === "nsec3" ? checkRoomForHashes(zone) : undefined;
    if (problem) return refuse(problem);
    return state
      ? changeWish(transaction, target, { zone, state }, wish)
      : begin(transaction, target, zone, { ...wish, denial });
  });
}

/**
 * Stops signing a zone. Refuses while the parent has, or caches may have, a DS: the zone would vanish for validators.
 * What the parent has is what was noted last.
 * @param options.force stops whatever the parent has
 */
export function disableSigning(
  db: Db,
  target: SigningTarget,
  options: { readonly force: boolean },
): Promise<Result<SignedZone, Refusal>> {
  return changeSigning(db, target, async (_, { state }) => {
    if (!state) return ok({ state, extent: "nothing" });
    const obstacle = options.force ? undefined : obstacleToDisabling(state, target);
    return obstacle ? refuse(obstacle) : ok({ state: undefined, extent: "zone" });
  });
}

/** Begins to replace keys: one role, or all for another algorithm. Refuses while another replacement is under way. */
export function startRollover(
  db: Db,
  target: SigningTarget,
  request: RolloverRequest,
  material?: readonly KeyMaterial[],
): Promise<Result<SignedZone, Refusal>> {
  return changeSigning(db, target, (transaction, before) =>
    planRollover(transaction, target, before, { request, material }),
  );
}

/** Begins to replace the key of a role by one of the algorithm in use. Refuses as {@link startRollover} does. */
export function rollOverRole(db: Db, target: SigningTarget, role: KeyRole): Promise<Result<SignedZone, Refusal>> {
  return changeSigning(db, target, async (transaction, before) => {
    const algorithm = before.state?.keys.at(-1)?.algorithm;
    if (algorithm === undefined) return refuse(isNotSigned(target.domain));
    return planRollover(transaction, target, before, { request: { roles: [role], algorithm } });
  });
}

/** Begins to replace all keys by those of another algorithm; its own changes nothing. Refuses as {@link startRollover} does. */
export function rollOverAlgorithm(
  db: Db,
  target: SigningTarget,
  wish: Pick<SigningWish, "algorithm" | "layout">,
): Promise<Result<SignedZone, Refusal>> {
  return changeSigning(db, target, async (transaction, { zone, state }) =>
    state ? changeWish(transaction, target, { zone, state }, wish) : refuse(isNotSigned(target.domain)),
  );
}

/** What is said of a zone that would have to be signed. */
export function isNotSigned(domain: string): Refusal {
  return unacceptable("not-signed", { domain });
}

async function begin(
  db: Db,
  { signer, domain }: SigningTarget,
  zone: Zone,
  wish: SigningWish & { readonly denial: Denial },
): Promise<Result<SigningDecision, Refusal>> {
  const foreign = await findRecordOfType(db, zone.id, DERIVED_TYPES);
  if (foreign !== undefined) {
    return refuse(unacceptable("signed-by-others", { domain, type: typeMnemonic(foreign) }));
  }
  const now = new Date(signer.clock.nowMs());
  const roles = wish.layout === "ksk-zsk" ? (["ksk", "zsk"] as const) : (["csk"] as const);
  const keys = wish.keys
    ? wish.keys.map((key) => keyFrom(key, signer))
    : await makeKeys(roles, wish.algorithm ?? signingPolicy.algorithm, [], signer);
  const problem = checkNewKeys(keys, { isWhole: true });
  if (problem) return refuse(problem);
  const lives = firstLives(keys, now, await timingOf(db, zone, { now }));
  const wished = { denial: wish.denial, dsWanted: true, dsWishedAt: null, dsAutomatic: true };
  const parent = { ds: null, authenticated: null, dsTtlSeconds: null, checkedAt: null };
  return ok({ state: { ...wished, dsGoneAt: null, parent, keys: lives }, extent: "zone" });
}

async function changeWish(
  db: Db,
  target: SigningTarget,
  { zone, state }: { readonly zone: Zone; readonly state: SigningState },
  { denial = state.denial, algorithm, layout, keys }: SigningWish,
): Promise<Result<SigningDecision, Refusal>> {
  const current = state.keys.at(-1)!.algorithm;
  const hasLayout: KeyLayout = state.keys.some(({ role }) => role === "csk") ? "csk" : "ksk-zsk";
  if (keys) return refuse(unacceptable("signed-already", { domain: target.domain }));
  if (algorithm !== undefined && algorithm !== current) {
    if (denial !== state.denial) return refuse(unacceptable("denial-and-algorithm"));
    const roles = (layout ?? hasLayout) === "csk" ? (["csk"] as const) : (["ksk", "zsk"] as const);
    return planRollover(db, target, { zone, state }, { request: { roles, algorithm } });
  }
  if (layout !== undefined && layout !== hasLayout) {
    return refuse(unacceptable("key-layout", { has: hasLayout, wanted: layout }));
  }
  const wished = state.dsWanted ? {} : { dsWanted: true, dsWishedAt: new Date(target.signer.clock.nowMs()) };
  const next = { ...state, ...wished, denial };
  if (denial !== state.denial) return ok({ state: next, extent: "zone" });
  return ok({ state: next, extent: state.dsWanted ? "nothing" : "apex" });
}

async function planRollover(
  db: Db,
  { domain, signer }: SigningTarget,
  { zone, state }: SignedZone,
  { request, material }: { readonly request: RolloverRequest; readonly material?: readonly KeyMaterial[] | undefined },
): Promise<Result<SigningDecision, Refusal>> {
  if (!state) return refuse(isNotSigned(domain));
  const { algorithm } = request;
  if (!isSigningAlgorithm(algorithm)) return refuse(unacceptable("signing-algorithm", { algorithm }));
  const problem = checkRollover(state.keys, request) ?? obstacleOfWithdrawal(state, request);
  if (problem) return refuse(problem);
  const keys = material
    ? material.map((key) => keyFrom(key, signer))
    : await makeKeys(request.roles, algorithm, state.keys, signer);
  const known = keys.find(({ keyTag }) => state.keys.some((key) => key.keyTag === keyTag));
  if (known) return refuse(unacceptable("key-exists", { domain, tag: known.keyTag }));
  const changesAlgorithm = state.keys.some((key) => key.algorithm !== algorithm);
  const unfitting = checkNewKeys(keys, { isWhole: changesAlgorithm });
  if (unfitting) return refuse(unfitting);
  const now = new Date(signer.clock.nowMs());
  const lives = nextLives(state.keys, keys, now, await timingOf(db, zone, { now, parent: state.parent }));
  const extent = lives.some(({ signsZone }) => signsZone) ? "zone" : "apex";
  return ok({ state: { ...state, keys: [...state.keys, ...lives] }, extent });
}

/** A key that a DS points to cannot come while CDS asks the parent to have none. */
function obstacleOfWithdrawal({ keys, dsWanted }: SigningState, request: RolloverRequest): Refusal | undefined {
  const isForZoneAlone = request.roles.every((role) => role === "zsk") && keys[0]!.algorithm === request.algorithm;
  return dsWanted || isForZoneAlone ? undefined : unacceptable("ds-being-withdrawn");
}

/**
 * Whether keys can come in together: of one algorithm, told apart by their tags, and one for the key set and one for all
 * else, or one for both.
 * @param options.isWhole whether they sign the zone by themselves; else one of the two may come alone
 */
function checkNewKeys(keys: readonly NewKey[], { isWhole }: { readonly isWhole: boolean }): Refusal | undefined {
  const [first, second] = keys;
  const roles = keys.map(({ role }) => role).sort();
  const fits = roles.join() === "csk" || roles.join() === "ksk,zsk" || (!isWhole && keys.length === 1);
  if (!fits) return unacceptable("key-set-incomplete");
  if (!second) return undefined;
  if (first!.algorithm !== second.algorithm) return unacceptable("key-algorithms-differ");
  return first!.keyTag === second.keyTag ? unacceptable("key-tags-equal", { tag: second.keyTag }) : undefined;
}

function obstacleToDisabling(
  { keys, dsGoneAt, parent }: SigningState,
  { domain, signer }: SigningTarget,
): Refusal | undefined {
  if (parent.ds && parent.ds.length > 0) {
    const tags = [...new Set(parent.ds.map(readDsKeyTag))].join(", ");
    return unacceptable("parent-has-ds", { domain, tags });
  }
  const known = keys.find(({ hasDs }) => hasDs);
  if (known) {
    return unacceptable("parent-had-ds", { domain, tags: known.keyTag });
  }
  if (!dsGoneAt) return undefined;
  const timing = { policy: signingPolicy, parentDsTtlSeconds: parent.dsTtlSeconds };
  const free = dsGoneAt.getTime() + dsWaitSeconds(timing) * 1000;
  if (free <= signer.clock.nowMs()) return undefined;
  const until = new Date(free).toISOString();
  return unacceptable("ds-in-caches", { domain, until });
}

function checkRoomForHashes({ apex }: Zone): Refusal | undefined {
  const hashedLabelOctets = 1 + 32;
  if (apex.wire.length + hashedLabelOctets <= MAX_NAME_OCTETS) return undefined;
  return unacceptable("too-long-for-nsec3");
}
