import { isIP } from "node:net";
import {
  DAY_MS,
  dayAt,
  dayNumber,
  daysOf,
  type PauseReason,
  plannedFor,
  type WarmUpPlan,
} from "../../core/mail/pace/warm-up.ts";
import { SYSTEM_SOURCE } from "../../core/mail/queue/destination-queue.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { recordAudit } from "../../store/console/audit.ts";
import { databaseNowMs } from "../../store/mail/pace/source-paces.ts";
import { type CountedDay, listDays } from "../../store/mail/pace/warm-up-days.ts";
import {
  findWarmUp,
  insertWarmUp,
  listWarmUps,
  pauseWarmUp,
  resumeWarmUp,
  stopWarmUp,
  type WarmUp,
} from "../../store/mail/pace/warm-ups.ts";
import { announceMail } from "../../store/mail/queue/queue.ts";
import { wakePaced } from "../../store/mail/queue/queue-leases.ts";

/** `over`: the plan came to its end; `stopped`: an operator ended it. In both the source sends without one. */
type WarmUpStateName = "running" | "paused" | "over" | "stopped";

/** What a source's plan has come to at a provider today. */
export interface ProviderProgress {
  readonly provider: string;
  /** The day of the plan, from 1. */
  readonly day: number;
  readonly planned: number;
  readonly sent: number;
  readonly deferred: number;
  readonly complained: number;
  readonly pausedFor: PauseReason | null;
  readonly pausedUntil: Date | null;
}

/** A source that sends by a plan, as people are shown it. */
export interface WarmUpView {
  readonly source: string;
  readonly state: WarmUpStateName;
  readonly startedAt: Date;
  readonly startedBy: string;
  readonly endsAt: Date;
  /** Who paused or stopped it. */
  readonly changedBy: string | null;
  /** Days since it began, from 1. */
  readonly day: number;
  /** Those that the plan has. */
  readonly days: number;
  /** Where something was sent; where the plan is over there, not. */
  readonly providers: readonly ProviderProgress[];
}

/** A day of a plan: as it went, or as it is to come. */
interface PlannedDay {
  readonly at: Date;
  readonly day: number;
  readonly planned: number;
  /** Null: it is to come. */
  readonly sent: number | null;
  readonly deferred: number | null;
  readonly complained: number | null;
}

/** All sources that send by a plan, or did. */
export async function viewWarmUps(db: Db): Promise<WarmUpView[]> {
  const [warmUps, days, nowMs] = await Promise.all([listWarmUps(db), listDays(db), databaseNowMs(db)]);
  return warmUps.map((warmUp) => viewOf(warmUp, days, nowMs));
}

/** One of them, with each day of each provider. @returns undefined where there is none */
export async function viewWarmUp(db: Db, source: string) {
  const [warmUp, days, nowMs] = await Promise.all([findWarmUp(db, source), listDays(db, source), databaseNowMs(db)]);
  if (warmUp === undefined) return undefined;
  const providers = [...new Set(days.map(({ provider }) => provider))];
  return {
    ...viewOf(warmUp, days, nowMs),
    courses: providers.map((provider) => ({
      provider,
      days: courseOf(
        warmUp,
        days.filter((day) => day.provider === provider),
      ),
    })),
  };
}

/** What an operator does with a plan. */
interface WarmUpOrder {
  readonly source: string;
  readonly by: string;
  /** False where whoever asks writes the audit log. */
  readonly audited: boolean;
}

/**
 * Has a source send by a plan from now on.
 * @param day the day of the plan that it begins with, from 1
 */
export async function startWarmUp(
  db: Db,
  order: WarmUpOrder,
  { plan, day }: { readonly plan: WarmUpPlan; readonly day: number },
): Promise<Result<void, "no-source" | "no-such-day" | "warm-up-runs">> {
  const { source, by } = order;
  if (source !== SYSTEM_SOURCE && isIP(source) === 0) return refuse("no-source");
  const days = daysOf(plan);
  if (!Number.isSafeInteger(day) || day < 1 || day > days) return refuse("no-such-day");
  const nowMs = await databaseNowMs(db);
  const startedAtMs = nowMs - (day - 1) * DAY_MS;
  const given = { source, plan, startedAtMs, startedBy: by, endsAtMs: startedAtMs + days * DAY_MS, nowMs };
  const isStarted = await db.transaction(async (transaction) => {
    if (!(await insertWarmUp(transaction, given))) return false;
    await writeAudit(transaction, "start", { ...order, nowMs }, { day });
    return true;
  });
  return isStarted ? ok(undefined) : refuse("warm-up-runs");
}

const CHANGES = { pause: pauseWarmUp, resume: resumeWarmUp, stop: stopWarmUp };
export type WarmUpVerb = keyof typeof CHANGES;

/**
 * `pause`: nothing leaves from the source, and its days stand still; `resume`: they go on; `stop`: it sends without a plan.
 * @returns false where there is nothing to change so
 */
export async function changeWarmUp(db: Db, order: WarmUpOrder, verb: WarmUpVerb): Promise<boolean> {
  const nowMs = await databaseNowMs(db);
  const isChanged = await db.transaction(async (transaction) => {
    if (!(await CHANGES[verb](transaction, { ...order, nowMs }))) return false;
    await writeAudit(transaction, verb, { ...order, nowMs }, {});
    return true;
  });
  if (isChanged && verb !== "pause") {
    await wakePaced(db, { sources: [order.source], isPlanned: true });
    await announceMail(db);
  }
  return isChanged;
}

async function writeAudit(
  transaction: Parameters<typeof insertWarmUp>[0],
  verb: string,
  { source, by, audited, nowMs }: WarmUpOrder & { readonly nowMs: number },
  detail: object,
): Promise<void> {
  if (!audited) return;
  const about = { role: "operator" as const, scope: null };
  const entry = { actor: by, address: "", action: `warm-up.${verb}`, object: source, detail, about };
  await recordAudit(transaction, entry, new Date(nowMs));
}

function stateOf({ stoppedAtMs, pausedAtMs, endsAtMs }: WarmUp, nowMs: number): WarmUpStateName {
  if (stoppedAtMs !== null) return "stopped";
  if (pausedAtMs !== null) return "paused";
  return endsAtMs <= nowMs ? "over" : "running";
}

function viewOf(warmUp: WarmUp, all: readonly CountedDay[], nowMs: number): WarmUpView {
  const { source, plan, startedAtMs, startedBy, endsAtMs, pausedAtMs, pausedBy, stoppedAtMs, stoppedBy } = warmUp;
  const number = dayNumber(startedAtMs, stoppedAtMs ?? pausedAtMs ?? nowMs);
  const last = new Map(all.filter((day) => day.source === source).map((day) => [day.provider, day]));
  return {
    source,
    state: stateOf(warmUp, nowMs),
    startedAt: new Date(startedAtMs),
    startedBy,
    endsAt: new Date(endsAtMs),
    changedBy: stoppedBy ?? pausedBy,
    day: number + 1,
    days: daysOf(plan),
    providers: [...last.values()].flatMap((latest) => progressOf(plan, latest, number, nowMs) ?? []),
  };
}

function progressOf(plan: WarmUpPlan, last: CountedDay, number: number, nowMs: number): ProviderProgress | undefined {
  const day = dayAt(plan, last.provider, number, last);
  if (day === undefined) return undefined;
  const isPaused = day.pausedUntilMs > nowMs;
  return {
    provider: last.provider,
    day: day.step + 1,
    planned: day.planned,
    sent: day.sent,
    deferred: day.deferred,
    complained: day.number === last.number ? last.complained : 0,
    pausedFor: isPaused ? day.pausedFor : null,
    pausedUntil: isPaused ? new Date(day.pausedUntilMs) : null,
  };
}

/** The days of a provider that something is known of, and those of the plan that follow. */
function courseOf({ plan, startedAtMs }: WarmUp, known: readonly CountedDay[]): PlannedDay[] {
  const atOf = (number: number) => new Date(startedAtMs + number * DAY_MS);
  const past = known.map(({ number, step, planned, sent, deferred, complained }) => {
    return { at: atOf(number), day: step + 1, planned, sent, deferred, complained };
  });
  const { number, step, isRepeated } = known.at(-1)!;
  const next = step + 1 - Number(isRepeated);
  const toCome = plannedFor(plan, known[0]!.provider)
    .slice(next)
    .map((planned, index) => ({
      ...{ at: atOf(number + 1 + index), day: next + index + 1, planned },
      ...{ sent: null, deferred: null, complained: null },
    }));
  return [...past, ...toCome];
}
