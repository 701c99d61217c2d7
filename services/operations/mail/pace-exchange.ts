import { type Bucket, draw, rateInForce } from "../../core/mail/pace/allowance.ts";
import { isUntaught, learn, type PaceEvidence } from "../../core/mail/pace/controller.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  databaseNowMs,
  findPaces,
  listOtherSessions,
  lockPaces,
  makePaces,
  type PaceCount,
  type PaceKey,
  type SourcePace,
  storePaces,
} from "../../store/mail/pace/source-paces.ts";

/** What a worker has done with a source at a provider since it asked last, and what it would do. */
export interface PaceReport extends PaceKey {
  /** Of config/delivery.json; null: as fast as it goes. */
  readonly configuredPerHour: number | null;
  /** Leave that it still has, */
  readonly held: number;
  /** and that it gives back. */
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
}

export interface PaceExchange {
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
  const kept = new Set((await findPaces(db, reports)).map(nameOf));
  const limited = reports.filter(
    (report) => kept.has(nameOf(report)) || report.configuredPerHour !== null || report.signals.length > 0,
  );
  const grants =
    limited.length === 0
      ? []
      : await db.transaction(async (transaction) => {
          const fresh = limited.filter((report) => !kept.has(nameOf(report)));
          if (fresh.length > 0) await makePaces(transaction, fresh, nowMs);
          return exchangeLimited(transaction, limited, { ...exchange, nowMs });
        });
  const granted = new Map(grants.map((grant) => [nameOf(grant), grant]));
  return reports.map((report) => granted.get(nameOf(report)) ?? unlimited(report));
}

async function exchangeLimited(
  transaction: Transaction,
  reports: readonly PaceReport[],
  exchange: PaceExchange & { readonly nowMs: number },
): Promise<PaceGrant[]> {
  const { worker, nowMs } = exchange;
  const paces = await lockPaces(transaction, reports);
  const pairs = paces.map((pace) => ({ pace, report: reports.find((report) => nameOf(report) === nameOf(pace))! }));
  const counted = pairs.filter(({ pace, report }) => areSessionsLimited(pace, report)).map(({ pace }) => pace);
  const others = counted.length === 0 ? [] : await listOtherSessions(transaction, counted, worker, nowMs);
  const steps = pairs.map(({ pace, report }) => {
    const other = others.find((other) => nameOf(other) === nameOf(pace));
    return step(pace, report, { ...exchange, other: other ?? { sessions: 0, granted: 0, workers: 0 } });
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
}

/** One source at one provider: what is known of it afterwards, and what the worker may do. */
function step(
  before: SourcePace,
  report: PaceReport,
  { nowMs, portionMs, other }: Surroundings,
): { pace: SourcePace; grant: PaceGrant; report: PaceReport; count: PaceCount | undefined } {
  const measured = measure(before, report.tried, nowMs);
  const { triedPerHour } = measured;
  const { acceptedPerHour, isJoining, signals } = report;
  const joiningPerHour = isJoining ? acceptedPerHour : 0;
  const sessions = report.sessions + other.sessions;
  const memory = learn(before.memory, { nowMs, triedPerHour, acceptedPerHour, joiningPerHour, sessions, signals });
  const { pins } = before;
  const rate = rateInForce(memory, pins, report.configuredPerHour);
  const isWaiting = memory.waitsUntilMs > nowMs;
  const portion =
    rate === null || isWaiting || !report.isBusy
      ? 0
      : Math.max(0, Math.ceil((rate * portionMs) / HOUR_MS) - report.held);
  const drawn: { bucket: Bucket; granted: number } =
    rate === null
      ? { bucket: { tokens: 1, filledAtMs: nowMs }, granted: 0 }
      : draw(before, rate, { nowMs, returned: report.returned, wanted: portion });
  const connections = pins.connections ?? memory.connections;
  const pace = { ...before, ...measured, ...drawn.bucket, memory, usedAtMs: nowMs };
  const { source, provider, tried, delivered, deferred } = report;
  const isIdle = tried + delivered + deferred === 0;
  return {
    pace,
    report,
    count:
      isIdle || (rate === null && isUntaught(memory, nowMs))
        ? undefined
        : { source, provider, allowed: rate ?? 0, tried, delivered, deferred },
    grant: {
      source,
      provider,
      tokens: rate === null ? undefined : drawn.granted,
      waitMs: Math.max(0, memory.waitsUntilMs - nowMs),
      ratePerHour: rate ?? undefined,
      nextMs: rate === null ? 0 : (Math.max(0, 1 - drawn.bucket.tokens) * HOUR_MS) / rate,
      connections: connections === null ? undefined : shareOf(connections, other),
      messagesPerConnection: pins.messagesPerConnection ?? memory.messagesPerConnection ?? undefined,
    },
  };
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
  };
  return { source, provider, waitMs: 0, nextMs: 0, ...unlimited };
}

function nameOf({ source, provider }: PaceKey): string {
  return `${source} ${provider}`;
}
