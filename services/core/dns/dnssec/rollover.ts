import { type Refusal, unacceptable } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import type { KeyRole } from "./dnskey.ts";
import type { SigningPolicy } from "./policy.ts";

/**
 * Where a key is in its life (RFC 7583 §3). `generated`: it signs already, unpublished, while a new algorithm comes in.
 * `published`: in the DNSKEY RRset, on its way into all caches. `ready`: the parent should have its DS. `active`: in use.
 * `retired`: its successor is in use, caches may still need it. `removed`: out of the DNSKEY RRset, its signatures stay
 * until caches have forgotten that it was there.
 */
export const KEY_STATES = ["generated", "published", "ready", "active", "retired", "removed"] as const;
export type KeyState = (typeof KEY_STATES)[number];

/** A key in its life. */
export interface KeyLife {
  readonly role: KeyRole;
  readonly algorithm: number;
  readonly keyTag: number;
  readonly state: KeyState;
  /** When it entered its state. */
  readonly since: Date;
  /** When it is to leave it; null when that waits for something else than time. */
  readonly due: Date | null;
  /** Whether it stands in the DNSKEY RRset, signs that, and signs all other data. */
  readonly isPublished: boolean;
  readonly signsKeySet: boolean;
  readonly signsZone: boolean;
  /** Whether its DS has been seen at the parent, and not gone since. */
  readonly hasDs: boolean;
}

/** What the waits depend on, beside the policy. */
export interface ZoneTiming {
  readonly policy: SigningPolicy;
  /** So long caches may keep the zone's data and signatures, from now on: its largest TTL (RFC 7583 §2, TTLsig). */
  readonly largestTtlSeconds: number;
  /** TTL of the DS as last seen at the parent; null when none has been. The policy's holds where it is longer. */
  readonly parentDsTtlSeconds: number | null;
}

/** The keys that a zone is signed with from its first moment: no cache knows it as signed, but many know its data. */
export function firstLives<Key extends Pick<KeyLife, "role" | "algorithm" | "keyTag">>(
  keys: readonly Key[],
  now: Date,
  timing: ZoneTiming,
): (Key & KeyLife)[] {
  const { policy, largestTtlSeconds } = timing;
  // RFC 4035 §4.3: data without signatures that caches hold would be bogus from the moment of the DS on.
  const due = after(now, policy.propagationSeconds + Math.max(policy.keyTtlSeconds, largestTtlSeconds));
  return keys.map((key) => ({
    ...key,
    ...{ since: now, isPublished: true, hasDs: false },
    ...(key.role === "zsk"
      ? { state: "active", due: null, signsKeySet: false, signsZone: true }
      : { state: "published", due, signsKeySet: true, signsZone: key.role === "csk" }),
  }));
}

/** What keys a rollover brings in. */
export interface RolloverRequest {
  /** The role to replace; for another algorithm all keys are replaced, by those of `layout`. */
  readonly roles: readonly KeyRole[];
  readonly algorithm: number;
}

/** Whether keys may be replaced now, and by keys of which roles: one rollover at a time, and none before the first DS. */
export function checkRollover(lives: readonly KeyLife[], { roles, algorithm }: RolloverRequest): Refusal | undefined {
  const moving = lives.find((life) => isMoving(life, lives));
  if (moving) return unacceptable("rollover-under-way", { tag: moving.keyTag, state: moving.state });
  const changesAlgorithm = lives.some((life) => life.algorithm !== algorithm);
  for (const role of roles) {
    if (!changesAlgorithm && !lives.some((life) => life.role === role)) return unacceptable("no-such-role", { role });
    if (role === "zsk" && !changesAlgorithm) continue;
    const waiting = lives.find((life) => life.role !== "zsk" && !life.hasDs);
    if (waiting) return unacceptable("ds-not-seen", { tag: waiting.keyTag });
  }
  return undefined;
}

/** The lives of keys that come in beside others. */
export function nextLives<Key extends Pick<KeyLife, "role" | "algorithm" | "keyTag">>(
  lives: readonly KeyLife[],
  keys: readonly Key[],
  now: Date,
  timing: ZoneTiming,
): (Key & KeyLife)[] {
  const { policy, largestTtlSeconds } = timing;
  return keys.map((key) => {
    const common = { ...key, since: now, hasDs: false };
    if (lives.some(({ algorithm }) => algorithm !== key.algorithm)) {
      // RFC 6781 §4.1.4: signatures of a new algorithm are in all caches before its DNSKEY is.
      const due = after(now, policy.propagationSeconds + largestTtlSeconds);
      const signing = { isPublished: false, signsKeySet: false, signsZone: key.role !== "ksk" };
      return { ...common, ...signing, state: "generated", due };
    }
    // RFC 6781 §4.1.3: a combined key comes by double signature, so that its signatures have to be in caches as well:
    // what they keep from before has only its predecessor's.
    const inCaches = Math.max(policy.keyTtlSeconds, key.role === "csk" ? largestTtlSeconds : 0);
    const due = after(now, policy.propagationSeconds + inCaches);
    const signing = { isPublished: true, signsKeySet: key.role !== "zsk", signsZone: key.role === "csk" };
    return { ...common, ...signing, state: "published", due };
  });
}

/**
 * Takes the steps whose time has come, as many as there are: after a week off several may be due.
 * Waits are counted from the moment of the step, never from when it was due.
 * @returns the keys that are left; the same objects where nothing changed
 */
export function advanceKeys<Key extends KeyLife>(keys: readonly Key[], now: Date, timing: ZoneTiming): readonly Key[] {
  // A ZSK goes when the KSK that vouches for it has gone.
  const entryPointsFirst = [...keys].sort((a, b) => Number(a.role === "zsk") - Number(b.role === "zsk"));
  const advanced = entryPointsFirst.reduce<readonly Key[]>((current, { keyTag }) => {
    const key = current.find((candidate) => candidate.keyTag === keyTag);
    return key?.due && key.due <= now ? stepOf(key, current, { now, timing }) : current;
  }, keys);
  return followKsk(advanced, now);
}

/** Whether {@link advanceKeys} changes anything. */
export function hasStepToTake(keys: readonly KeyLife[], now: Date): boolean {
  return keys.some((key) => (key.due && key.due <= now) || hasKskInUse(key, keys));
}

/**
 * Notes that the parent has the DS of a key: the key is in use from now on, and its predecessors retire.
 * Refuses a key that is not there or has no DS; repeating it changes nothing.
 */
export function noteDsSeen<Key extends KeyLife>(
  keys: readonly Key[],
  keyTag: number,
  now: Date,
  timing: ZoneTiming,
): Result<readonly Key[], Refusal> {
  const key = keys.find((candidate) => candidate.keyTag === keyTag && candidate.role !== "zsk");
  if (!key) return refuse(unacceptable("no-key-for-ds", { tag: keyTag }));
  if (key.hasDs) return ok(keys);
  // It was gone for a while.
  if (key.state === "active") return ok(keys.map((other) => (other === key ? { ...key, hasDs: true } : other)));
  if (key.state !== "published" && key.state !== "ready") {
    return refuse(unacceptable("ds-would-break", { tag: keyTag, state: key.state }));
  }
  return ok(
    followKsk(
      keys.map((other) => afterDsOf(key, other, now, timing)),
      now,
    ),
  );
}

/**
 * Notes of which keys the parent has a DS: those that wait for it come into use, as {@link noteDsSeen} does; of the
 * others it is known from now on whether they have one.
 * @param tags of the zone's keys that a DS of the parent points to
 */
export function noteParentKeys<Key extends KeyLife>(
  keys: readonly Key[],
  tags: ReadonlySet<number>,
  now: Date,
  timing: ZoneTiming,
): readonly Key[] {
  const awaited = keys.filter(
    ({ keyTag, role, state }) => role !== "zsk" && tags.has(keyTag) && (state === "published" || state === "ready"),
  );
  const settled = awaited.reduce((current, { keyTag }) => {
    const seen = noteDsSeen(current, keyTag, now, timing);
    return seen.ok ? seen.value : current;
  }, keys);
  return settled.map((key) =>
    key.role !== "zsk" && (key.state === "active" || key.state === "retired")
      ? withDs(key, tags.has(key.keyTag), now, timing)
      : key,
  );
}

/** The keys whose DS the parent should have, for CDS and CDNSKEY: those that are to come, else those in use. */
export function keysForParent<Key extends KeyLife>(keys: readonly Key[]): readonly Key[] {
  const entryPoints = keys.filter(({ role }) => role !== "zsk");
  const ready = entryPoints.filter(({ state }) => state === "ready");
  return ready.length > 0 ? ready : entryPoints.filter(({ state }) => state === "active");
}

/**
 * The keys whose DS is handed out: those of {@link keysForParent}, or a zone's first ones on their way there, whose DS may
 * take days to get to the parent. One of any other key would have the parent point to what caches, or the zone, do not have.
 */
export function keysWithDs<Key extends KeyLife>(keys: readonly Key[]): readonly Key[] {
  const forParent = keysForParent(keys);
  return forParent.length > 0 ? forParent : keys.filter(({ role, state }) => role !== "zsk" && state === "published");
}

/** Those whose age calls for a successor, by role. */
export function rolesOutlived(keys: readonly KeyLife[], now: Date, { lifetimeSeconds }: SigningPolicy): KeyRole[] {
  const outlived = keys.filter(({ role, state, since }) => {
    const lifetime = lifetimeSeconds[role];
    return state === "active" && lifetime !== null && after(since, lifetime) <= now;
  });
  return [...new Set(outlived.map(({ role }) => role))];
}

/** When the next step by time is due, lifetimes included; null when none is. */
export function nextStepAt(keys: readonly KeyLife[], { lifetimeSeconds }: SigningPolicy): Date | null {
  const times = keys.flatMap(({ due, role, state, since }) => {
    const lifetime = lifetimeSeconds[role];
    const ends = state === "active" && lifetime !== null ? [after(since, lifetime)] : [];
    return due ? [due, ...ends] : ends;
  });
  return times.length === 0 ? null : new Date(Math.min(...times.map((time) => time.getTime())));
}

interface StepScope {
  readonly now: Date;
  readonly timing: ZoneTiming;
}

/** The keys after the step that is due for one of them. */
function stepOf<Key extends KeyLife>(key: Key, keys: readonly Key[], scope: StepScope): readonly Key[] {
  const { now, timing } = scope;
  const { policy, largestTtlSeconds } = timing;
  const become = (changes: Partial<KeyLife>): readonly Key[] =>
    keys.map((other) => (other === key ? { ...key, since: now, due: null, ...changes } : other));
  switch (key.state) {
    case "generated": {
      const due = after(now, policy.propagationSeconds + policy.keyTtlSeconds);
      return become({ state: "published", isPublished: true, signsKeySet: key.role !== "zsk", due });
    }
    case "published":
      if (key.role !== "zsk") return become({ state: "ready" });
      // With a new algorithm the ZSK follows its KSK, whose DS decides.
      if (changesAlgorithm(keys)) return become({ state: "ready" });
      return become({ state: "active", signsZone: true }).map((other) =>
        other.role === "zsk" && other.keyTag !== key.keyTag && other.state === "active"
          ? retire(other, { signsZone: false }, now, policy.propagationSeconds + largestTtlSeconds)
          : other,
      );
    case "retired": {
      // RFC 7583 §3.3.1: the key set is left only when nothing can lead to the key any more.
      if (key.hasDs) return become({ state: "retired", since: key.since, due: after(now, dsWaitSeconds(timing)) });
      const voucher = key.role === "zsk" && key.signsZone && keys.find((other) => isVoucherOf(other, key));
      if (voucher) return become({ state: "retired", since: key.since, due: voucher.due });
      const removed = { isPublished: false, signsKeySet: false, hasDs: false };
      if (!key.signsZone || !changesAlgorithm(keys)) return keys.filter((other) => other !== key);
      // RFC 6781 §4.1.4: the signatures of an algorithm outlast its DNSKEY in caches.
      const due = after(now, policy.propagationSeconds + policy.keyTtlSeconds);
      return become({ state: "removed", ...removed, due });
    }
    case "removed":
      return keys.filter((other) => other !== key);
    case "ready":
    case "active":
      return become({});
  }
}

/** What becomes of a key when the parent has the DS of `seen`. */
function afterDsOf<Key extends KeyLife>(seen: Key, other: Key, now: Date, timing: ZoneTiming): Key {
  if (other.keyTag === seen.keyTag) return { ...seen, state: "active", since: now, due: null, hasDs: true };
  const isOther = other.algorithm !== seen.algorithm;
  if (other.state !== "active" || (!isOther && other.role === "zsk")) return other;
  // Whoever sees a successor's DS says by that that this one's is gone, unless it is seen beside it.
  // One that came before its time does not shorten what the successor's own data and DNSKEY still need.
  const leftSeconds = seen.due ? (seen.due.getTime() - now.getTime()) / 1000 : 0;
  return retire(other, { hasDs: false }, now, Math.max(dsWaitSeconds(timing), leftSeconds));
}

/** ZSKs of a new algorithm come into use with their KSK, or after it, where its DS came early. */
function followKsk<Key extends KeyLife>(keys: readonly Key[], now: Date): readonly Key[] {
  return keys.map((key) => (hasKskInUse(key, keys) ? { ...key, state: "active", since: now, due: null } : key));
}

/** Whether a key is a ZSK that is ready and whose KSK is in use. */
function hasKskInUse({ role, state, algorithm }: KeyLife, keys: readonly KeyLife[]): boolean {
  const isActiveKsk = (other: KeyLife) =>
    other.role === "ksk" && other.state === "active" && other.algorithm === algorithm;
  return role === "zsk" && state === "ready" && keys.some(isActiveKsk);
}

/** A key of which it is known whether the parent has its DS. */
function withDs<Key extends KeyLife>(key: Key, hasDs: boolean, now: Date, timing: ZoneTiming): Key {
  if (hasDs === key.hasDs) return key;
  // RFC 7583 §3.3.1: from the moment when it is gone, caches have it for its TTL.
  const hasJustLost = key.state === "retired" && !hasDs;
  return hasJustLost ? { ...key, hasDs, due: after(now, dsWaitSeconds(timing)) } : { ...key, hasDs };
}

function retire<Key extends KeyLife>(key: Key, changes: Partial<KeyLife>, now: Date, waitSeconds: number): Key {
  return { ...key, ...changes, state: "retired", since: now, due: after(now, waitSeconds) };
}

/** Until no cache has a DS that the parent no longer has. */
export function dsWaitSeconds({ policy, parentDsTtlSeconds }: Omit<ZoneTiming, "largestTtlSeconds">): number {
  return policy.parentPropagationSeconds + Math.max(policy.dsTtlSeconds, parentDsTtlSeconds ?? 0);
}

/** Whether a KSK of the same algorithm is still there to go with a ZSK. */
function isVoucherOf({ role, algorithm, state }: KeyLife, key: KeyLife): boolean {
  return role === "ksk" && algorithm === key.algorithm && state === "retired";
}

/** Whether a key is on its way in or out; a zone's first keys are at home before their DS is seen. */
function isMoving({ role, state }: KeyLife, lives: readonly KeyLife[]): boolean {
  if (state === "active") return false;
  const isFirst = role !== "zsk" && !lives.some((life) => life.state === "active" && life.role !== "zsk");
  return !(isFirst && (state === "published" || state === "ready"));
}

function changesAlgorithm(keys: readonly KeyLife[]): boolean {
  return new Set(keys.map(({ algorithm }) => algorithm)).size > 1;
}

function after(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
