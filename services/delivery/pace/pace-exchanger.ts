import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { exchangePace, type PaceGrant } from "../../operations/mail/pace-exchange.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { WakeUp } from "../../platform/wake-up.ts";
import { wakePaced } from "../../store/mail/queue/queue-leases.ts";
import type { KnownPaces } from "./known-paces.ts";
import { applyGrant, isSettled, type PaceEntry, reportOf, takeOut } from "./pace-entry.ts";

export interface SimulatedTime {
  /** Its begin, in milliseconds since the epoch. */
  readonly epochMs: number;
  /** How much faster than real time it goes. */
  readonly timesFaster: number;
}

interface PaceExchangerOptions {
  readonly db: Db;
  readonly observe: Observe;
  readonly paces: KnownPaces;
  /** Time where it is not the database's: in simulations. */
  readonly simulated: SimulatedTime | undefined;
  /** Monotonic. */
  nowMs(): number;
  /** There is leave for those who wait. */
  onLeave(entry: PaceEntry): void;
  /** There is no leave for long. */
  onNoLeave(entry: PaceEntry): void;
  /** There is leave to send that nobody waits for. */
  onSpareLeave(): void;
}

/** Leave is for about so long. */
export const PORTION_MS = 1_000;
/** What comes sooner is waited for with a partition in hand. */
export const COMING_MS = 5_000;
/** The database is asked so often at most, as a part of a portion. */
const EARLY = 1 / 5;
/** What others have learnt about sources is read as often. */
const READ_ALL_MS = 10_000;
/** Who used leave, or wanted it, within so long gets the next one. */
const BUSY_MS = 3_000;

/** Tells the database what became of messages, and takes leave for more, now and then and whenever it is asked to. */
export class PaceExchanger {
  readonly #options: PaceExchangerOptions;
  /** Sessions are this one's. */
  readonly #id = randomUUID();
  readonly #timesFaster: number;
  readonly #wakeUp = new WakeUp();
  /** Whose wait ended before its time: what was put off for it is to be woken. */
  #freed: PaceEntry[] = [];
  #readAtMs = Number.NEGATIVE_INFINITY;
  #stopping = false;
  #running: Promise<void> | undefined;

  constructor(options: PaceExchangerOptions) {
    this.#options = options;
    this.#timesFaster = options.simulated?.timesFaster ?? 1;
  }

  async read(): Promise<void> {
    await this.#options.paces.read(this.#options.db, this.#timeMs());
    this.#readAtMs = this.#options.nowMs();
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Has it ask soon. */
  ring(): void {
    this.#wakeUp.ring();
  }

  get isStopping(): boolean {
    return this.#stopping;
  }

  /** No more leave is asked for. */
  dismiss(): void {
    this.#stopping = true;
    this.#wakeUp.ring();
  }

  /** Gives back what was not used. */
  async stop(): Promise<void> {
    this.dismiss();
    await this.#running;
    await this.#exchange(true).catch((error: unknown) => this.#tell(error));
  }

  async #run(): Promise<void> {
    const { nowMs } = this.#options;
    while (!this.#stopping) {
      const startedAtMs = nowMs();
      await this.#exchange(false).catch((error: unknown) => this.#tell(error));
      const least = startedAtMs + PORTION_MS * EARLY - nowMs();
      if (least > 0 && !this.#stopping) await sleep(least / this.#timesFaster);
      await this.#wakeUp.wait((PORTION_MS * (1 - EARLY)) / this.#timesFaster);
    }
  }

  #tell(error: unknown): void {
    this.#options.observe({ kind: "pace-not-exchanged", level: "warn", err: error });
  }

  /** Milliseconds since the epoch where time is not the database's. */
  #timeMs(): number | undefined {
    const { simulated } = this.#options;
    return simulated && simulated.epochMs + (Date.now() - simulated.epochMs) * simulated.timesFaster;
  }

  /** @param isLast nothing is taken any more */
  async #exchange(isLast: boolean): Promise<void> {
    const { db, paces, ...options } = this.#options;
    // What was put off on the old word is stored by now.
    for (const { source, provider } of this.#freed.splice(0)) await wakePaced(db, { provider, sources: [source] });
    if (options.nowMs() - this.#readAtMs >= READ_ALL_MS) {
      await this.read();
      paces.doubtWaits(options.nowMs() + COMING_MS);
    }
    const nowMs = options.nowMs();
    paces.forgetIdle(nowMs);
    const asked = paces.limited.filter((entry) => isLast || isToBeAsked(entry, nowMs));
    if (asked.length === 0) return;
    const reports = asked.map((entry) => {
      const isWarming = paces.isWarming(entry.source);
      return reportOf(entry, { nowMs, isBusy: !isLast && isBusy(entry, nowMs), isWarming });
    });
    const taken = asked.map((entry, index) => takeOut(entry, reports[index]!));
    try {
      const exchange = { worker: this.#id, portionMs: PORTION_MS, nowMs: this.#timeMs() };
      const grants = await exchangePace(db, reports, exchange);
      for (const [index, grant] of grants.entries()) this.#apply(asked[index]!, grant, nowMs);
    } catch (error) {
      for (const giveBack of taken) giveBack();
      throw error;
    }
    if (asked.some(({ tokens }) => tokens >= 1)) options.onSpareLeave();
  }

  #apply(entry: PaceEntry, grant: PaceGrant, askedAtMs: number): void {
    const { paces, observe, onLeave, onNoLeave } = this.#options;
    const isFreed = entry.waitsUntilMs > askedAtMs + COMING_MS && grant.waitMs <= COMING_MS;
    applyGrant(entry, grant, askedAtMs);
    if (isFreed) this.#freed.push(entry);
    const { source, provider } = entry;
    const reason = grant.warmUp?.pausedFor;
    if (reason !== undefined) observe({ kind: "warm-up-paused", level: "warn", source, provider, reason });
    if (!isLimiting(grant) && entry.configuredPerHour === null && entry.signals.length === 0) paces.release(entry);
    if (grant.waitMs > COMING_MS) onNoLeave(entry);
    else onLeave(entry);
  }
}

/** Whether there is something to tell, or to ask for and maybe to be had. */
function isToBeAsked(entry: PaceEntry, nowMs: number): boolean {
  if (entry.isDoubtful || entry.signals.length > 0 || entry.grant === undefined) return true;
  if (nowMs < entry.nextAtMs && entry.tokens < 1) return entry.tried + entry.delivered + entry.deferred > 0;
  return entry.sessions > 0 || !isSettled(entry) || isBusy(entry, nowMs);
}

function isBusy({ waiters, tried, usedAtMs }: PaceEntry, nowMs: number): boolean {
  return waiters.size > 0 || tried > 0 || nowMs - usedAtMs < BUSY_MS;
}

function isLimiting({ tokens, connections, messagesPerConnection, waitMs }: PaceGrant): boolean {
  return tokens !== undefined || connections !== undefined || messagesPerConnection !== undefined || waitMs > 0;
}
