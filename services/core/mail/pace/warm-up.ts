/**
 * How much a new source address may send while it is not known yet: a plan by provider and day, and what has become of it.
 * Pure: time comes as a parameter, what is known goes in and out as data.
 */

/** The content of config/warm-up.json, which a warm-up keeps as it was when it began. */
export interface WarmUpPlan {
  /** By group of config/domain-groups.json; `default` goes for each other domain by itself. The first day comes first. */
  readonly messagesPerDay: Readonly<Record<string, readonly number[]>> & { readonly default: readonly number[] };
  /** What is planned for a day may be sent bit by bit within so many hours from its beginning. */
  readonly spreadHours: number;
  /**
   * To whom, where the pool has another address: from an hour of the day on, those who opened or clicked within so many
   * days; null: anybody. Hours ascend from 0.
   */
  readonly engagement: readonly { readonly fromHour: number; readonly touchedWithinDays: number | null }[];
  readonly pause: {
    /** Nothing is sent for so long; then it is tried again. */
    readonly hours: number;
    /** From how many deferrals on, and from which part of what was sent since it went on last. */
    readonly deferrals: { readonly least: number; readonly percent: number };
    /** The same of complaints, over the last days. */
    readonly complaints: { readonly least: number; readonly percent: number; readonly days: number };
  };
}

export type PauseReason = "deferrals" | "complaints";

/** One day of a warm-up at a provider. A day lasts 24 hours from when the warm-up began, or is a day of it later. */
export interface WarmUpDay {
  /** Days since it began. */
  readonly number: number;
  /** The day of the plan, from 0: behind `number` by the days that were repeated. */
  readonly step: number;
  readonly planned: number;
  /** Messages that set out. */
  readonly sent: number;
  /** Messages that the provider put off, or refused for what it thinks of the source. */
  readonly deferred: number;
  /** Both up to when it went on last. */
  readonly sentBefore: number;
  readonly deferredBefore: number;
  /** 0: it goes on. */
  readonly pausedUntilMs: number;
  readonly pausedFor: PauseReason | null;
  /** The next day has the same plan. */
  readonly isRepeated: boolean;
}

/** What is known of the days before. */
export interface WarmUpPast {
  /** The last one of which something is known. */
  readonly last: WarmUpDay | undefined;
  /** Of the last days, as the plan has it for complaints. */
  readonly recentlySent: number;
  readonly recentComplaints: number;
}

/** What may be sent now. */
export interface WarmUpRoom {
  readonly messages: number;
  /** When there may be more, in milliseconds; 0 while there is some. */
  readonly nextMs: number;
  /** Only to those who opened or clicked within so many days; null: to anybody. */
  readonly touchedWithinDays: number | null;
}

export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Which day it is, from 0. */
export function dayNumber(startedAtMs: number, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - startedAtMs) / DAY_MS));
}

/** What is planned for a provider, from the first day on. */
export function plannedFor({ messagesPerDay }: WarmUpPlan, provider: string): readonly number[] {
  return (Object.hasOwn(messagesPerDay, provider) ? messagesPerDay[provider] : undefined) ?? messagesPerDay.default;
}

/** How many days the longest plan has. */
export function daysOf({ messagesPerDay }: WarmUpPlan): number {
  return Math.max(...Object.values(messagesPerDay).map(({ length }) => length));
}

/**
 * The day that it is at a provider, as far as it has come.
 * @returns undefined when the plan is over there
 */
export function dayAt(
  plan: WarmUpPlan,
  provider: string,
  number: number,
  last: WarmUpDay | undefined,
): WarmUpDay | undefined {
  if (last?.number === number) return last;
  const step = last === undefined ? number : last.step + number - last.number - Number(last.isRepeated);
  const planned = plannedFor(plan, provider)[step];
  if (planned === undefined) return undefined;
  return {
    ...{ number, step, planned, sent: 0, deferred: 0, sentBefore: 0, deferredBefore: 0, isRepeated: false },
    ...{ pausedUntilMs: last?.pausedUntilMs ?? 0, pausedFor: last?.pausedFor ?? null },
  };
}

/** Pauses where deferrals or complaints rose, and goes on where it has paused for long enough and they fell. */
export function judgeDay(
  plan: WarmUpPlan,
  day: WarmUpDay,
  { recentlySent, recentComplaints }: Omit<WarmUpPast, "last">,
  nowMs: number,
): WarmUpDay {
  const { hours, deferrals, complaints } = plan.pause;
  const isPaused = day.pausedUntilMs > nowMs;
  // A day that a pause reaches into is no good one, even if nobody wanted to send.
  if (isPaused) return { ...day, isRepeated: true };
  const goneOn =
    day.pausedFor === null
      ? day
      : { ...day, pausedFor: null, pausedUntilMs: 0, sentBefore: day.sent, deferredBefore: day.deferred };
  const sent = goneOn.sent - goneOn.sentBefore;
  const deferred = goneOn.deferred - goneOn.deferredBefore;
  const pausedFor: PauseReason | null = exceeds(recentComplaints, recentlySent, complaints)
    ? "complaints"
    : exceeds(deferred, sent, deferrals)
      ? "deferrals"
      : null;
  if (pausedFor === null) return goneOn;
  return { ...goneOn, pausedFor, pausedUntilMs: nowMs + hours * HOUR_MS, isRepeated: true };
}

function exceeds(count: number, of: number, { least, percent }: { readonly least: number; readonly percent: number }) {
  return count >= least && count * 100 > of * percent;
}

/** What may be sent of a day. @param sinceMs how long ago it began */
export function roomOf(plan: WarmUpPlan, day: WarmUpDay, sinceMs: number, nowMs: number): WarmUpRoom {
  const hour = Math.floor(sinceMs / HOUR_MS);
  const { touchedWithinDays = null } = plan.engagement.findLast(({ fromHour }) => fromHour <= hour) ?? {};
  if (day.pausedUntilMs > nowMs) return { messages: 0, nextMs: day.pausedUntilMs - nowMs, touchedWithinDays };
  const messages = Math.max(0, dueBy(plan, day.planned, hour) - day.sent);
  return { messages, nextMs: messages > 0 ? 0 : nextStepMs(plan, day, sinceMs), touchedWithinDays };
}

/** What is planned up to the end of an hour. */
function dueBy({ spreadHours }: WarmUpPlan, planned: number, hour: number): number {
  return Math.min(planned, Math.ceil((planned * (hour + 1)) / spreadHours));
}

function nextStepMs(plan: WarmUpPlan, { planned, sent }: WarmUpDay, sinceMs: number): number {
  for (let hour = Math.floor(sinceMs / HOUR_MS) + 1; hour < DAY_MS / HOUR_MS; hour += 1) {
    if (dueBy(plan, planned, hour) > sent) return hour * HOUR_MS - sinceMs;
  }
  return DAY_MS - sinceMs;
}
