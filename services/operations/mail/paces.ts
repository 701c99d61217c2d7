import { isIP } from "node:net";
import { providerNamed } from "../../core/mail/address-group.ts";
import { type PacePins, UNPINNED } from "../../core/mail/pace/allowance.ts";
import { SYSTEM_SOURCE } from "../../core/mail/queue/destination-queue.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { domainGroups } from "../../platform/config/domain-groups.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  databaseNowMs,
  findPace,
  listPaceCounts,
  listPaces,
  type PaceKey,
  pinPace,
  resetPace,
  type SourcePace,
} from "../../store/mail/pace/source-paces.ts";
import { announceMail } from "../../store/mail/queue/queue.ts";
import { wakePaced } from "../../store/mail/queue/queue-leases.ts";
import { viewWarmUp } from "./warm-ups.ts";

/** What goes for a source at a provider, as people are shown it. */
export interface PaceView extends PaceKey {
  /** Messages an hour, sessions at once, messages a session; null: as configured. */
  readonly ratePerHour: number | null;
  readonly connections: number | null;
  readonly messagesPerConnection: number | null;
  /** What an operator fixed of these. */
  readonly pins: PacePins;
  readonly pinnedBy: string | null;
  /** What was learnt, beneath the pins. */
  readonly learntPerHour: number | null;
  /** The rate that was refused last. */
  readonly refusedPerHour: number | null;
  /** Nothing is sent for so many seconds. */
  readonly waitSeconds: number;
  readonly triedPerHour: number;
  readonly usedAt: Date;
}

/** Why what somebody has written is no key: mail could not leave from there, or not go there. */
export type KeyRefusal = "no-source" | "no-provider";

/** The key that mail goes by, of what somebody has written: a domain that is in a group means the group. */
export function paceKeyOf({ source, provider: written }: PaceKey): Result<PaceKey, KeyRefusal> {
  if (source !== SYSTEM_SOURCE && isIP(source) === 0) return refuse("no-source");
  const provider = providerNamed(domainGroups, written);
  return provider === undefined ? refuse("no-provider") : ok({ source, provider });
}

/** The same of what is kept already: under the very words too, which may have become no key, or another. */
export async function keptPaceKey(db: Db, written: PaceKey): Promise<Result<PaceKey, KeyRefusal>> {
  return (await findPace(db, written)) === undefined ? paceKeyOf(written) : ok(written);
}

/** All sources and providers of which something is learnt or pinned. */
export async function viewPaces(db: Db): Promise<PaceView[]> {
  const nowMs = await databaseNowMs(db);
  return (await listPaces(db)).map((pace) => viewOf(pace, nowMs));
}

/** One, with what became of its messages, and the plan that a new source follows there. @returns undefined where nothing is kept */
export async function viewPace(db: Db, key: PaceKey, since: Date) {
  const [pace, nowMs] = await Promise.all([findPace(db, key), databaseNowMs(db)]);
  if (pace === undefined) return undefined;
  const [counts, plan] = await Promise.all([listPaceCounts(db, key, since), viewWarmUp(db, key.source)]);
  const isGoing = plan?.state === "running" || plan?.state === "paused";
  const warmUp = (isGoing ? plan.providers.find(({ provider }) => provider === key.provider) : undefined) ?? null;
  return { ...viewOf(pace, nowMs), counts, warmUp };
}

/**
 * Fixes limits; those that are not given stay as they were.
 * @returns refused where nothing is given, or what is given can be no limit
 */
export async function pinLimits(
  db: Db,
  key: PaceKey,
  limits: Partial<PacePins>,
  login: string,
): Promise<Result<PacePins, "no-limit">> {
  const given = Object.values(limits).filter((limit) => limit !== undefined);
  const areLawful = given.every((limit) => limit === null || (Number.isSafeInteger(limit) && limit > 0));
  if (given.length === 0 || !areLawful) return refuse("no-limit");
  const before = (await findPace(db, key))?.pins ?? UNPINNED;
  const pins = { ...before, ...limits };
  await pinPace(db, key, pins, login);
  if (typeof limits.ratePerHour === "number") await freeWaiting(db, key);
  return ok(pins);
}

/** What is learnt goes again. @returns false where nothing is kept */
export async function unpinLimits(db: Db, key: PaceKey): Promise<boolean> {
  if ((await findPace(db, key)) === undefined) return false;
  await pinPace(db, key, UNPINNED, "");
  return true;
}

/** Forgets what was learnt; what is pinned stays so, and what waits for it goes on. @returns false where nothing is kept */
export async function forgetLearnt(db: Db, key: PaceKey): Promise<boolean> {
  if (!(await resetPace(db, key))) return false;
  await freeWaiting(db, key);
  return true;
}

/** Workers that believe that a source waits ask anew before long, and free what they put off meanwhile. */
async function freeWaiting(db: Db, { source, provider }: PaceKey): Promise<void> {
  await wakePaced(db, { provider, sources: [source] });
  await announceMail(db);
}

function viewOf({ memory, pins, ...pace }: SourcePace, nowMs: number): PaceView {
  const { source, provider, pinnedBy, triedPerHour, usedAtMs } = pace;
  return {
    source,
    provider,
    ratePerHour: pins.ratePerHour ?? memory.ratePerHour,
    connections: pins.connections ?? memory.connections,
    messagesPerConnection: pins.messagesPerConnection ?? memory.messagesPerConnection,
    pins,
    pinnedBy,
    learntPerHour: memory.ratePerHour,
    refusedPerHour: memory.refusedPerHour,
    waitSeconds: Math.max(0, Math.ceil((memory.waitsUntilMs - nowMs) / 1000)),
    triedPerHour,
    usedAt: new Date(usedAtMs),
  };
}
