import {
  DAY_MS,
  dayAt,
  dayNumber,
  judgeDay,
  type PauseReason,
  plannedFor,
  roomOf,
  type WarmUpDay,
  type WarmUpPast,
  type WarmUpRoom,
} from "../../core/mail/pace/warm-up.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { byPaceName, type PaceKey, paceName } from "../../store/mail/pace/source-paces.ts";
import { findLastDays, type KeptDay, storeDays } from "../../store/mail/pace/warm-up-days.ts";
import { findWarmUps, prolongWarmUps, type WarmUp } from "../../store/mail/pace/warm-ups.ts";

/** What a worker has to say of a source that sends by a plan. */
export interface WarmUpReport {
  /** The day that the leave is of that it holds or gives back. */
  readonly number: number | undefined;
  /** Messages that wait for leave. */
  readonly waiting: number;
  /** Messages that the provider put off, or refused for what it thinks of the source. */
  readonly deferred: number;
}

/** What goes for a source that sends by a plan. */
export interface WarmUpGrant {
  /** The day that the leave is of. */
  readonly number: number;
  /** There may be leave for more messages at this time. */
  readonly isOpen: boolean;
  /** Only for recipients who opened or clicked within so many days, where another address has the rest; null: for all. */
  readonly touchedWithinDays: number | null;
  /** Why it was paused just now. */
  readonly pausedFor: PauseReason | undefined;
}

/** The plan of a source at a provider, at this moment. */
export interface WarmUpState extends PaceKey {
  readonly warmUp: WarmUp;
  readonly day: WarmUpDay;
  readonly past: WarmUpPast;
}

/** A look at the plan is worth it after so long, whatever it said: an operator may have changed his mind. */
const MOST_WAIT_MS = 900_000;
const PAUSED_WAIT_MS = 60_000;

/** The plans of those keys that have one which is not over, with the rows of `source_paces` locked. */
export async function readPlans(
  transaction: Transaction,
  keys: readonly PaceKey[],
  nowMs: number,
): Promise<readonly WarmUpState[]> {
  if (keys.length === 0) return [];
  const warmUps = new Map(
    (await findWarmUps(transaction, [...new Set(keys.map(({ source }) => source))])).map((one) => [one.source, one]),
  );
  const running = keys.flatMap(({ source, provider }) => {
    const warmUp = warmUps.get(source);
    if (warmUp === undefined || warmUp.stoppedAtMs !== null) return [];
    const number = dayNumber(warmUp.startedAtMs, warmUp.pausedAtMs ?? nowMs);
    return [{ source, provider, warmUp, number, since: number + 1 - warmUp.plan.pause.complaints.days }];
  });
  const pasts = byPaceName(await findLastDays(transaction, running));
  return running.flatMap(({ source, provider, warmUp, number }) => {
    const past = pasts.get(paceName({ source, provider })) ?? NO_PAST;
    const day = dayAt(warmUp.plan, provider, number, past.last);
    return day === undefined ? [] : [{ source, provider, warmUp, day, past }];
  });
}

const NO_PAST: WarmUpPast = { last: undefined, recentlySent: 0, recentComplaints: 0 };

/** What a worker asks for, beside what its report says. */
interface WarmUpDemand extends WarmUpReport {
  readonly held: number;
  readonly returned: number;
  readonly tried: number;
}

/** A plan with a report taken in: how much leave there is for the worker, and what follows from how much it gets. */
interface PlannedStep {
  /** Messages that the worker may have leave for. */
  readonly wanted: number;
  settle(granted: number): { readonly day: KeptDay; readonly grant: WarmUpGrant; readonly waitMs: number };
}

/** Takes in what a worker did, and judges the day by it. */
export function stepPlan(state: WarmUpState, demand: WarmUpDemand, nowMs: number): PlannedStep {
  const { warmUp, day: before, past } = state;
  const { plan, startedAtMs, pausedAtMs } = warmUp;
  const isOfToday = demand.number === before.number;
  // Leave of another day is void: that day has it counted as sent.
  const returned = isOfToday ? Math.min(demand.returned, before.sent) : 0;
  const reported = { ...before, sent: before.sent - returned, deferred: before.deferred + demand.deferred };
  const day = judgeDay(plan, reported, past, nowMs);
  const room: WarmUpRoom =
    pausedAtMs === null
      ? roomOf(plan, day, nowMs - startedAtMs - day.number * DAY_MS, nowMs)
      : { messages: 0, nextMs: PAUSED_WAIT_MS, touchedWithinDays: null };
  const held = isOfToday ? demand.held : 0;
  return {
    // None ahead of need: what a worker that dies holds is counted as sent.
    wanted: Math.max(0, Math.min(room.messages, demand.waiting + demand.tried - held)),
    settle: (granted) => ({
      day: { source: state.source, provider: state.provider, ...day, sent: day.sent + granted },
      grant: {
        number: day.number,
        isOpen: room.messages > granted,
        touchedWithinDays: room.touchedWithinDays,
        pausedFor: day.pausedUntilMs > before.pausedUntilMs ? (day.pausedFor ?? undefined) : undefined,
      },
      waitMs: room.messages === 0 && held === 0 ? Math.min(MOST_WAIT_MS, room.nextMs) : 0,
    }),
  };
}

/** Stores what became of the plans, and when they end. */
export async function storePlans(
  transaction: Transaction,
  states: readonly WarmUpState[],
  days: readonly KeptDay[],
): Promise<void> {
  await storeDays(transaction, days);
  const before = byPaceName(states);
  const later = days.flatMap((day) => {
    const state = before.get(paceName(day))!;
    if (!day.isRepeated || state.day.isRepeated) return [];
    const { plan, startedAtMs } = state.warmUp;
    const days = plannedFor(plan, day.provider).length + day.number - day.step + 1;
    return [{ source: day.source, endsAtMs: startedAtMs + days * DAY_MS }];
  });
  await prolongWarmUps(transaction, later);
}
