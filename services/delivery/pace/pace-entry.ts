import { RecentCount } from "../../core/mail/pace/recent-count.ts";
import type { PaceSignal } from "../../core/mail/pace/replies.ts";
import type { PaceGrant, PaceReport } from "../../operations/mail/pace-exchange.ts";

type HeardSignal = PaceSignal & { readonly messages: number; readonly beganAtMs: number };

/** A source at a provider, as this worker knows it. Times are the keeper's. */
export interface PaceEntry {
  readonly source: string;
  readonly provider: string;
  readonly configuredPerHour: number | null;
  /** The database is asked about it, as something is limited, or was. */
  isLimited: boolean;
  /** What it may do; undefined before the first word of the database. */
  grant: PaceGrant | undefined;
  /** Messages that may be sent now: of the leave granted, what none has taken. */
  tokens: number;
  /** When the grant was asked for. */
  askedAtMs: number;
  /** When there may be more leave. */
  nextAtMs: number;
  waitsUntilMs: number;
  /** The database is to be asked although nothing changed here. */
  isDoubtful: boolean;
  usedAtMs: number;
  readonly accepted: RecentCount;
  tried: number;
  delivered: number;
  deferred: number;
  /** Messages that were put off, or refused for what the provider thinks of the source: of a source that is new. */
  unwelcome: number;
  signals: HeardSignal[];
  sessions: number;
  /** Messages that wait for leave, the longest first. */
  readonly waiters: Set<Waiter>;
}

/** A message that waits for leave of the first of some sources that has it. */
export interface Waiter {
  readonly entries: readonly PaceEntry[];
  /** @param source undefined where nothing is limited any more; null: it is not to wait any longer */
  settle(source: string | undefined | null): void;
}

export function makeEntry(
  key: { readonly source: string; readonly provider: string },
  configuredPerHour: number | null,
  nowMs: number,
): PaceEntry {
  return {
    ...key,
    configuredPerHour,
    isLimited: configuredPerHour !== null,
    isDoubtful: false,
    grant: undefined,
    ...{ tokens: 0, askedAtMs: nowMs, nextAtMs: nowMs, waitsUntilMs: 0, usedAtMs: nowMs },
    accepted: new RecentCount(),
    ...{ tried: 0, delivered: 0, deferred: 0, unwelcome: 0, signals: [], sessions: 0 },
    waiters: new Set(),
  };
}

/** Whether a message takes leave there. */
export function needsLeave({ isLimited, grant }: PaceEntry): boolean {
  return isLimited && (grant === undefined || grant.tokens !== undefined);
}

/**
 * For how long a message would wait that comes now.
 * @returns milliseconds; 0 where that is not known
 */
export function expectedWaitMs(entry: PaceEntry, nowMs: number): number {
  const { grant, waitsUntilMs, nextAtMs, tokens, waiters } = entry;
  if (waitsUntilMs > nowMs) return waitsUntilMs - nowMs;
  if (!needsLeave(entry) || grant?.ratePerHour === undefined || tokens >= 1) return 0;
  return Math.max(0, nextAtMs - nowMs) + (waiters.size * HOUR_MS) / grant.ratePerHour;
}

/** Leave that is still good. */
export function tokensOf({ tokens, askedAtMs }: PaceEntry, nowMs: number): number {
  return nowMs - askedAtMs < STALE_MS ? tokens : 0;
}

/** Takes in what the database said to what was asked at a time. */
export function applyGrant(entry: PaceEntry, grant: PaceGrant, askedAtMs: number): void {
  // Leave that a plan has for another day is void.
  const left = entry.grant?.warmUp?.number === grant.warmUp?.number ? tokensOf(entry, askedAtMs) : 0;
  entry.grant = grant;
  entry.isDoubtful = false;
  entry.tokens = left + (grant.tokens ?? 0);
  entry.askedAtMs = askedAtMs;
  entry.nextAtMs = askedAtMs + grant.nextMs;
  const heard = entry.signals.length > 0 ? entry.waitsUntilMs : 0;
  entry.waitsUntilMs = Math.max(heard, grant.waitMs > 0 ? askedAtMs + grant.waitMs : 0);
}

/** What is told to the database. @param isWarming the source is new, and sends by a plan */
export function reportOf(
  entry: PaceEntry,
  { nowMs, isBusy, isWarming }: { readonly nowMs: number; readonly isBusy: boolean; readonly isWarming: boolean },
): PaceReport {
  const { source, provider, configuredPerHour, tokens, tried, delivered, deferred, sessions } = entry;
  return {
    ...{ source, provider, configuredPerHour, isBusy, tried, delivered, deferred, sessions },
    held: isBusy ? tokens : 0,
    returned: isBusy ? 0 : tokens,
    acceptedPerHour: entry.accepted.perHour(nowMs),
    isJoining: entry.grant === undefined,
    signals: entry.signals.map(({ beganAtMs, ...signal }) => ({ ...signal, ageMs: nowMs - beganAtMs })),
    warmUp: isWarming
      ? { number: entry.grant?.warmUp?.number, waiting: entry.waiters.size, deferred: entry.unwelcome }
      : undefined,
  };
}

/** Takes out what is being reported. @returns puts it in again, where the database did not take it */
export function takeOut(entry: PaceEntry, { returned }: PaceReport): () => void {
  const { tried, delivered, deferred, unwelcome, signals } = entry;
  Object.assign(entry, { tried: 0, delivered: 0, deferred: 0, unwelcome: 0, signals: [] });
  entry.tokens -= returned;
  return () => {
    entry.tokens += returned;
    entry.tried += tried;
    entry.delivered += delivered;
    entry.deferred += deferred;
    entry.unwelcome += unwelcome;
    entry.signals.unshift(...signals);
  };
}

/** Whether there is nothing to tell, and nobody to tell it to. */
export function isSettled({ tokens, tried, delivered, deferred, unwelcome, signals, waiters }: PaceEntry): boolean {
  return tokens === 0 && tried + delivered + deferred + unwelcome === 0 && signals.length === 0 && waiters.size === 0;
}

const HOUR_MS = 3_600_000;
/** Leave that the database was not asked about for so long is void. */
const STALE_MS = 10_000;
