import { type Bucket, draw, holdToPins, rateInForce } from "../../core/mail/pace/allowance.ts";
import { isUntaught, learn, type PaceEvidence } from "../../core/mail/pace/controller.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  byPaceName,
  databaseNowMs,
  findPaces,
  listOtherSessions,
  lockPaces,
  makePaces,
  type PaceCount,
  type PaceKey,
  paceName,
  type SourcePace,
  storePaces,
} from "../../store/mail/pace/source-paces.ts";
import type { KeptDay } from "../../store/mail/pace/warm-up-days.ts";
import {
  readPlans,
  stepPlan,
  storePlans,
  type WarmUpGrant,
  type WarmUpReport,
  type WarmUpState,
} from "./warm-up-exchange.ts";

/** What a worker has done with a source at a provider since it asked last, and what it would do. */
export interface PaceReport extends PaceKey {
  /** Of config/delivery.json; null: as fast as it goes. */
  readonly configuredPerHour: number | null;
  /** Leave that it keeps, in messages. */
  readonly held: number;
  /** Leave that it gives back, in messages. */
  readonly returned: number;
  /** It has mail for the provider. */
  readonly isBusy: boolean;
  readonly tried: number;
  readonly delivered: number;
  /** By replies that want less. */
  readonly deferred: number;
  /** Messages an hour that were taken from this worker in the last minute. */
  readonly acceptedPerHour: number;
  /** It asks for the first time, and sent without a limit before. */
  readonly isJoining: boolean;
  readonly signals: PaceEvidence["signals"];
  /** Sessions that it has open. */
  readonly sessions: number;
  /** Of a source that sends by a plan, as it is new. */
  readonly warmUp?: WarmUpReport | undefined;
}

/** What a worker may do until it asks again. */
export interface PaceGrant extends PaceKey {
  /** Messages, beside those for which it holds leave; undefined: as many as it likes. */
  readonly tokens: number | undefined;
  /** For how long nothing may be sent. */
  readonly waitMs: number;
  /** Messages an hour, of all workers; undefined: as many as they like. */
  readonly ratePerHour: number | undefined;
  /** When there may be leave for the next message, in milliseconds from now. */
  readonly nextMs: number;
  /** Undefined: as configured. */
  readonly connections: number | undefined;
  readonly messagesPerConnection: number | undefined;
  /** Of a source that sends by a plan: then `tokens` are of it as well. */
  readonly warmUp: WarmUpGrant | undefined;
}

interface PaceExchange {
  readonly worker: string;
  /** For how long a grant is meant to last. */
  readonly portionMs: number;
  /** Milliseconds since the epoch where time is not the database's: in simulations. */
  readonly nowMs?: number | undefined;
}

/** A worker that was silent for so long has no sessions any more. */
const SESSIONS_FOR_SECONDS = 15;
/** What was tried is measured over so long, and over so many messages where few are allowed. */
const METER_MS = 5_000;
const METER_MESSAGES = 5;
const HOUR_MS = 3_600_000;

/**
 * Takes in what a worker did, has it learnt from, and hands out leave for the next portion. What a worker holds that dies
 * is small, and comes back as the rate fills up again; its sessions are others' after a while.
 */
export async function exchangePace(
  db: Db,
  reports: readonly PaceReport[],
  exchange: PaceExchange,
): Promise<PaceGrant[]> {
  const nowMs = exchange.nowMs ?? (await databaseNowMs(db));
  const kept = new Set((await findPaces(db, reports)).map(paceName));
  const limited = reports.filter(
    (report) =>
      kept.has(paceName(report)) ||
      report.configuredPerHour !== null ||
      report.signals.length > 0 ||
      report.warmUp !== undefined,
  );
  const grants =
    limited.length === 0
      ? []
      : await db.transaction(async (transaction) => {
          const fresh = limited.filter((report) => !kept.has(paceName(report)));
          if (fresh.length > 0) await makePaces(transaction, fresh, nowMs);
          return exchangeLimited(transaction, limited, { ...exchange, nowMs });
        });
  const granted = byPaceName(grants);
  return reports.map((report) => granted.get(paceName(report)) ?? unlimited(report));
}

async function exchangeLimited(
  transaction: Transaction,
  reports: readonly PaceReport[],
  exchange: PaceExchange & { readonly nowMs: number },
): Promise<PaceGrant[]> {
  const { worker, nowMs } = exchange;
  const paces = await lockPaces(transaction, reports);
  const reported = byPaceName(reports);
  const pairs = paces.map((pace) => ({ pace, report: reported.get(paceName(pace))! }));
  const counted = pairs.filter(({ pace, report }) => areSessionsLimited(pace, report)).map(({ pace }) => pace);
  const others = byPaceName(counted.length === 0 ? [] : await listOtherSessions(transaction, counted, worker, nowMs));
  const warming = reports.filter(({ warmUp }) => warmUp !== undefined);
  const plans = await readPlans(transaction, warming, nowMs);
  const planned = byPaceName(plans);
  const steps = pairs.map(({ pace, report }) => {
    const other = others.get(paceName(pace)) ?? { sessions: 0, granted: 0, workers: 0 };
    const plan = planned.get(paceName(pace));
    return step(pace, report, { ...exchange, other, plan });
  });
  await storePaces(transaction, {
    paces: steps.map(({ pace }) => pace),
    counts: steps.flatMap(({ count }) => count ?? []),
    shares: steps.flatMap(({ grant, report }) => {
      const { source, provider, sessions, isBusy } = report;
      return (grant.connections === undefined || !isBusy) && sessions === 0
        ? []
        : [{ source, provider, sessions, granted: grant.connections ?? 0 }];
    }),
    worker,
    shareSeconds: SESSIONS_FOR_SECONDS,
    nowMs,
  });
  await storePlans(
    transaction,
    plans,
    steps.flatMap(({ day }) => day ?? []),
  );
  return steps.map(({ grant }) => grant);
}

/** Whether it matters what other workers have. */
function areSessionsLimited({ memory, pins }: SourcePace, { signals }: PaceReport): boolean {
  return (
    memory.connections !== null ||
    pins.connections !== null ||
    signals.some(({ concerns }) => concerns === "connections")
  );
}

interface Surroundings extends PaceExchange {
  readonly nowMs: number;
  /** What all other workers have together. */
  readonly other: { readonly sessions: number; readonly granted: number; readonly workers: number };
  /** Where the source is new, and follows one. */
  readonly plan: WarmUpState | undefined;
}

interface PaceStep {
  readonly pace: SourcePace;
  readonly grant: PaceGrant;
  readonly report: PaceReport;
  readonly count: PaceCount | undefined;
  /** Of the plan. */
  readonly day: KeptDay | undefined;
}

/** One source at one provider: what is known of it afterwards, and what the worker may do. */
function step(before: SourcePace, report: PaceReport, surroundings: Surroundings): PaceStep {
  const { nowMs, other, plan } = surroundings;
  const { pace, rate } = takeIn(before, report, surroundings);
  const { memory, pins } = pace;
  const planned = plan && report.warmUp && stepPlan(plan, { ...report, ...report.warmUp }, nowMs);
  const wanted = wantedOf({ rate, memory }, report, surroundings, planned?.wanted);
  const drawn: { bucket: Bucket; granted: number } =
    rate === null
      ? { bucket: { tokens: 1, filledAtMs: nowMs }, granted: wanted }
      : draw(before, rate, { nowMs, returned: report.returned, wanted });
  const settled = planned?.settle(drawn.granted);
  const connections = pins.connections ?? memory.connections;
  const { source, provider, tried, delivered, deferred } = report;
  const isIdle = tried + delivered + deferred === 0;
  const planMs = settled?.waitMs ?? 0;
  return {
    pace: { ...pace, ...drawn.bucket },
    report,
    day: settled?.day,
    count:
      isIdle || (rate === null && isUntaught(memory, nowMs))
        ? undefined
        : { source, provider, allowed: rate, tried, delivered, deferred },
    grant: {
      source,
      provider,
      tokens: rate === null && settled === undefined ? undefined : drawn.granted,
      waitMs: Math.max(0, memory.waitsUntilMs - nowMs, planMs),
      ratePerHour: rate ?? undefined,
      nextMs: Math.max(planMs, rate === null ? 0 : (Math.max(0, 1 - drawn.bucket.tokens) * HOUR_MS) / rate),
      connections: connections === null ? undefined : shareOf(connections, other),
      messagesPerConnection: pins.messagesPerConnection ?? memory.messagesPerConnection ?? undefined,
      warmUp: settled?.grant,
    },
  };
}

/** What is learnt from a report. */
function takeIn(
  before: SourcePace,
  report: PaceReport,
  { nowMs, other }: Surroundings,
): { readonly pace: SourcePace; readonly rate: number | null } {
  const measured = measure(before, report.tried, nowMs);
  const { triedPerHour } = measured;
  const { acceptedPerHour, isJoining, signals } = report;
  const joiningPerHour = isJoining ? acceptedPerHour : 0;
  const sessions = report.sessions + other.sessions;
  const evidence = { nowMs, triedPerHour, acceptedPerHour, joiningPerHour, sessions, signals };
  const memory = holdToPins(learn(before.memory, evidence), before.pins, nowMs);
  return {
    pace: { ...before, ...measured, memory, usedAtMs: nowMs },
    rate: rateInForce(memory, before.pins, report.configuredPerHour),
  };
}

/** For how many messages a worker is to have leave, where there is some. @param planned undefined where there is no plan */
function wantedOf(
  { rate, memory }: { readonly rate: number | null; readonly memory: SourcePace["memory"] },
  { isBusy, held }: PaceReport,
  { nowMs, portionMs }: Surroundings,
  planned: number | undefined,
): number {
  if (memory.waitsUntilMs > nowMs || !isBusy) return 0;
  const portion = rate === null ? undefined : Math.max(0, Math.ceil((rate * portionMs) / HOUR_MS) - held);
  if (portion === undefined) return planned ?? 0;
  return Math.min(portion, planned ?? portion);
}

/** Each worker that has sessions, or wants them, has an equal part; what others leave may be had as well. */
function shareOf(connections: number, other: Surroundings["other"]): number {
  const left = Math.max(0, connections - other.granted);
  const fair = Math.ceil(connections / (other.workers + 1));
  return Math.min(left, fair);
}

function measure(
  { meteredAtMs, metered, triedPerHour, memory }: SourcePace,
  tried: number,
  nowMs: number,
): Pick<SourcePace, "meteredAtMs" | "metered" | "triedPerHour"> {
  const ms = nowMs - meteredAtMs;
  if (ms < Math.max(METER_MS, (METER_MESSAGES * HOUR_MS) / (memory.ratePerHour ?? Number.POSITIVE_INFINITY)))
    return { meteredAtMs, metered: metered + tried, triedPerHour };
  return { meteredAtMs: nowMs, metered: 0, triedPerHour: ((metered + tried) * HOUR_MS) / ms };
}

function unlimited({ source, provider }: PaceKey): PaceGrant {
  const unlimited = {
    tokens: undefined,
    ratePerHour: undefined,
    connections: undefined,
    messagesPerConnection: undefined,
    warmUp: undefined,
  };
  return { source, provider, waitMs: 0, nextMs: 0, ...unlimited };
}
