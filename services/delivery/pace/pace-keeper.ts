import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Phrases } from "../../core/mail/bounce/phrases.ts";
import { judgePace, type PaceSignal, type ProviderReplies } from "../../core/mail/pace/replies.ts";
import { recentMap } from "../../core/recent-map.ts";
import { exchangePace, type PaceGrant } from "../../operations/mail/pace-exchange.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listLimited } from "../../store/mail/pace/source-paces.ts";
import type { AttemptResult } from "../decide.ts";
import type { AttemptFacts, LearntPace, Leave } from "../shaping.ts";
import { WakeUp } from "../wake-up.ts";
import {
  expectedWaitMs,
  isSettled,
  makeEntry,
  needsLeave,
  type PaceEntry,
  reportOf,
  takeOut,
  type Waiter,
} from "./pace-entry.ts";

export interface PaceKeeperOptions {
  readonly db: Db;
  readonly replies: readonly ProviderReplies[];
  readonly wordings: { readonly phrases: Phrases };
  readonly observe: Observe;
  /** Messages an hour of one source, by config/delivery.json; null: as fast as it goes. */
  configuredPerHour(provider: string): number | null;
  /** Time where it is not the database's: in simulations. */
  readonly simulated?: SimulatedTime;
}

export interface SimulatedTime {
  /** When it began, in milliseconds since the epoch, */
  readonly epochMs: number;
  /** and how much faster it goes from there on. */
  readonly timesFaster: number;
}

/** Leave is for about so long. */
const PORTION_MS = 1_000;
/** Who has less than this part of what it was granted asks for more. */
const LOW = 1 / 3;
/** The database is asked so often at most, as a part of a portion. */
const EARLY = 1 / 5;
/** Leave that the database was not asked about for so long is void. */
const STALE_MS = 10_000;
/** What others have learnt about sources is read as often. */
const READ_ALL_MS = 10_000;
/** Who used leave, or wanted it, within so long gets the next one. */
const BUSY_MS = 3_000;
/** What was not used for so long is no longer asked about. */
const IDLE_MS = 60_000;
/** Sources at providers that are remembered; half of the number at least. */
const MOST_ENTRIES = 20_000;
/** Of one source; the far side's words say it all the while. */
const MOST_SIGNALS = 100;

/**
 * A worker's part of the pace that the deployment keeps: it takes leave from the database ahead of need, in small
 * portions, hands it to the messages in the order in which they came, gives back what is not used, and tells what
 * providers say. What nobody limits passes without a look at the database.
 */
export class PaceKeeper implements LearntPace {
  readonly #options: PaceKeeperOptions;
  /** Sessions are this one's. */
  readonly #id = randomUUID();
  readonly #timesFaster: number;
  readonly #entries = recentMap<string, PaceEntry>(MOST_ENTRIES);
  /** Those that are limited, which are never forgotten while they are used. */
  readonly #limited = new Map<string, PaceEntry>();
  /** Limited by what others learnt: to be asked about before the first message. */
  #known: ReadonlySet<string> = new Set();
  #readAtMs = Number.NEGATIVE_INFINITY;
  readonly #wakeUp = new WakeUp();
  #stopping = false;
  #running: Promise<void> | undefined;
  #onLeave: () => void = () => {};

  constructor(options: PaceKeeperOptions) {
    this.#options = options;
    this.#timesFaster = options.simulated?.timesFaster ?? 1;
  }

  /** Reads what others, and those before, have learnt: to be called before anything is sent, and now and then. */
  async read(): Promise<void> {
    this.#known = new Set((await listLimited(this.#options.db)).map(nameOf));
    this.#readAtMs = this.#nowMs();
    for (const name of this.#known) {
      const entry = this.#entries.get(name);
      if (entry !== undefined && !entry.isLimited) this.#limit(entry);
    }
  }

  /** @param onLeave called when there is leave to send that nobody waits for */
  start(onLeave: () => void): void {
    this.#onLeave = onLeave;
    this.#running = this.#run();
  }

  /** Nobody waits for leave any more. */
  dismiss(): void {
    this.#stopping = true;
    for (const entry of this.#limited.values()) this.#dismiss(entry);
    this.#wakeUp.ring();
  }

  /** Gives back what was not used. To be called when nothing is sent any more. */
  async stop(): Promise<void> {
    this.dismiss();
    await this.#running;
    await this.#exchange(true).catch((error: unknown) => this.#tell(error));
  }

  takeLeave(sources: readonly string[], provider: string): Leave | undefined {
    const nowMs = this.#nowMs();
    for (const source of sources) {
      const entry = this.#entryOf(source, provider, nowMs);
      if (entry.waitsUntilMs > nowMs) continue;
      if (!needsLeave(entry)) return FREE;
      if (this.#take(entry, nowMs)) return { source, provider };
    }
    return undefined;
  }

  async waitForLeave(
    sources: readonly string[],
    provider: string,
    mostMs: number,
  ): Promise<Leave | { readonly waitMs: number }> {
    const entries = sources.map((source) => this.#entryOf(source, provider, this.#nowMs()));
    const expectedMs = this.#expectedMs(entries);
    if (this.#stopping || expectedMs > mostMs) return { waitMs: expectedMs };
    const source = await new Promise<string | undefined | null>((resolve) => {
      const waiter: Waiter = {
        entries,
        settle: (settled) => {
          clearTimeout(timer);
          for (const { waiters } of entries) waiters.delete(waiter);
          resolve(settled);
        },
      };
      const timer = setTimeout(() => waiter.settle(null), mostMs / this.#timesFaster);
      for (const { waiters } of entries) waiters.add(waiter);
      this.#wakeUp.ring();
    });
    return source === null ? { waitMs: this.#expectedMs(entries) } : { source, provider };
  }

  giveBack({ source, provider }: Leave): void {
    const entry = source === undefined ? undefined : this.#limited.get(nameOf({ source, provider }));
    if (entry === undefined) return;
    entry.tokens += 1;
    this.#serve(entry);
  }

  useLeave(leave: Leave, source: string, provider: string): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#entryOf(source, provider, nowMs);
    if (leave.source !== source || leave.provider !== provider) {
      this.giveBack(leave);
      if (entry.waitsUntilMs > nowMs || (needsLeave(entry) && !this.#take(entry, nowMs))) return false;
    }
    if (entry.isLimited) entry.tried += 1;
    return true;
  }

  mayUse(source: string, provider: string): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#entryOf(source, provider, nowMs);
    return entry.waitsUntilMs <= nowMs && (!needsLeave(entry) || this.#tokensOf(entry, nowMs) >= 1);
  }

  room(source: string, provider: string): number | undefined {
    const entry = this.#limited.get(nameOf({ source, provider }));
    if (entry === undefined) return undefined;
    const nowMs = this.#nowMs();
    if (entry.waiters.size > 0 || expectedWaitMs(entry, nowMs) > COMING_MS) return 0;
    return needsLeave(entry) ? Math.max(1, Math.floor(this.#tokensOf(entry, nowMs))) : undefined;
  }

  connections(source: string, provider: string): number | undefined {
    return this.#limited.get(nameOf({ source, provider }))?.grant?.connections;
  }

  messagesPerConnection(source: string, provider: string): number | undefined {
    return this.#limited.get(nameOf({ source, provider }))?.grant?.messagesPerConnection;
  }

  mayOpen(source: string, provider: string): boolean {
    const entry = this.#limited.get(nameOf({ source, provider }));
    return entry?.grant?.connections === undefined || entry.sessions < entry.grant.connections;
  }

  opened(source: string, provider: string): void {
    this.#entryOf(source, provider, this.#nowMs()).sessions += 1;
  }

  closed(source: string, provider: string): void {
    const entry = this.#entryOf(source, provider, this.#nowMs());
    entry.sessions = Math.max(0, entry.sessions - 1);
  }

  note(
    { source, provider }: { readonly source: string; readonly provider: string },
    result: AttemptResult,
    { messages, durationMs }: AttemptFacts,
  ): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#entryOf(source, provider, nowMs);
    if (result.kind === "accepted") {
      entry.accepted.add(nowMs);
      if (entry.isLimited) entry.delivered += 1;
      return false;
    }
    const signal = this.#signalOf(result, provider);
    if (signal === undefined) return false;
    entry.deferred += 1;
    this.#options.observe({ kind: "pace-refused", source, provider, concerns: signal.concerns });
    const beganAtMs = nowMs - durationMs * this.#timesFaster;
    if (entry.signals.length < MOST_SIGNALS) entry.signals.push({ ...signal, messages, beganAtMs });
    // A new session may begin at once; anything else waits for the database's word.
    if (signal.concerns !== "messages-per-connection") {
      entry.waitsUntilMs = Math.max(entry.waitsUntilMs, nowMs + PORTION_MS);
    }
    this.#limit(entry);
    this.#wakeUp.ring();
    return true;
  }

  #signalOf(result: AttemptResult, provider: string): PaceSignal | undefined {
    if (result.kind !== "failed" || result.failure.kind !== "reply") return undefined;
    const { reply, stage } = result.failure;
    const { replies: table, wordings } = this.#options;
    return judgePace(reply, stage, { provider, table, phrases: wordings.phrases });
  }

  /** Monotonic. */
  #nowMs(): number {
    return performance.now() * this.#timesFaster;
  }

  #entryOf(source: string, provider: string, nowMs: number): PaceEntry {
    const name = nameOf({ source, provider });
    let entry = this.#limited.get(name) ?? this.#entries.get(name);
    if (entry === undefined) {
      entry = makeEntry({ source, provider }, this.#options.configuredPerHour(provider), nowMs);
      this.#entries.set(name, entry);
      if (entry.isLimited || this.#known.has(name)) this.#limit(entry);
    }
    entry.usedAtMs = nowMs;
    return entry;
  }

  #limit(entry: PaceEntry): void {
    entry.isLimited = true;
    this.#limited.set(nameOf(entry), entry);
  }

  #tokensOf({ tokens, askedAtMs }: PaceEntry, nowMs: number): number {
    return nowMs - askedAtMs < STALE_MS ? tokens : 0;
  }

  #take(entry: PaceEntry, nowMs: number): boolean {
    if (this.#tokensOf(entry, nowMs) < 1) return false;
    entry.tokens -= 1;
    if (entry.tokens < (entry.grant?.tokens ?? 0) * LOW) this.#wakeUp.ring();
    return true;
  }

  #expectedMs(entries: readonly PaceEntry[]): number {
    const nowMs = this.#nowMs();
    return Math.min(...entries.map((entry) => expectedWaitMs(entry, nowMs)));
  }

  /** Hands leave to those who have waited longest. */
  #serve(entry: PaceEntry): void {
    const nowMs = this.#nowMs();
    if (entry.waitsUntilMs > nowMs) return;
    for (const waiter of [...entry.waiters]) {
      if (!needsLeave(entry)) waiter.settle(undefined);
      else if (this.#take(entry, nowMs)) waiter.settle(entry.source);
      else return;
    }
  }

  #dismiss(entry: PaceEntry): void {
    for (const waiter of [...entry.waiters]) waiter.settle(null);
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      const startedAtMs = this.#nowMs();
      await this.#exchange(false).catch((error: unknown) => this.#tell(error));
      const least = startedAtMs + PORTION_MS * EARLY - this.#nowMs();
      if (least > 0 && !this.#stopping) await sleep(least / this.#timesFaster);
      await this.#wakeUp.wait((PORTION_MS * (1 - EARLY)) / this.#timesFaster);
    }
  }

  #tell(error: unknown): void {
    this.#options.observe({ kind: "pace-not-exchanged", level: "warn", err: error });
  }

  /** @param isLast nothing is taken any more */
  async #exchange(isLast: boolean): Promise<void> {
    const { db, simulated } = this.#options;
    if (this.#nowMs() - this.#readAtMs >= READ_ALL_MS) await this.read();
    const nowMs = this.#nowMs();
    this.#forgetIdle(nowMs);
    const asked = [...this.#limited.values()].filter((entry) => isLast || this.#isToBeAsked(entry, nowMs));
    if (asked.length === 0) return;
    const reports = asked.map((entry) => reportOf(entry, { nowMs, isBusy: !isLast && isBusy(entry, nowMs) }));
    const taken = asked.map((entry, index) => takeOut(entry, reports[index]!));
    const time = simulated && simulated.epochMs + (Date.now() - simulated.epochMs) * simulated.timesFaster;
    try {
      const grants = await exchangePace(db, reports, { worker: this.#id, portionMs: PORTION_MS, nowMs: time });
      for (const [index, grant] of grants.entries()) this.#apply(asked[index]!, grant, nowMs);
    } catch (error) {
      for (const giveBack of taken) giveBack();
      throw error;
    }
    if (asked.some(({ tokens }) => tokens >= 1)) this.#onLeave();
  }

  /** Whether there is something to tell, or to ask for and maybe to be had. */
  #isToBeAsked(entry: PaceEntry, nowMs: number): boolean {
    if (entry.signals.length > 0 || entry.grant === undefined) return true;
    if (nowMs < entry.nextAtMs && entry.tokens < 1) return entry.tried + entry.delivered + entry.deferred > 0;
    return entry.sessions > 0 || !isSettled(entry) || isBusy(entry, nowMs);
  }

  #forgetIdle(nowMs: number): void {
    for (const [name, entry] of this.#limited) {
      if (nowMs - entry.usedAtMs < IDLE_MS || entry.sessions > 0 || !isSettled(entry)) continue;
      this.#limited.delete(name);
      this.#entries.delete(name);
    }
  }

  #apply(entry: PaceEntry, grant: PaceGrant, askedAtMs: number): void {
    entry.grant = grant;
    entry.tokens = this.#tokensOf(entry, askedAtMs) + (grant.tokens ?? 0);
    entry.askedAtMs = askedAtMs;
    entry.nextAtMs = askedAtMs + grant.nextMs;
    const heard = entry.signals.length > 0 ? entry.waitsUntilMs : 0;
    entry.waitsUntilMs = Math.max(heard, grant.waitMs > 0 ? askedAtMs + grant.waitMs : 0);
    if (!isLimiting(grant) && entry.configuredPerHour === null && entry.signals.length === 0) {
      entry.isLimited = false;
      this.#limited.delete(nameOf(entry));
    }
    if (grant.waitMs > COMING_MS) this.#dismiss(entry);
    else this.#serve(entry);
  }
}

const FREE: Leave = { source: undefined, provider: "" };
/** What comes sooner is waited for with a partition in hand. */
const COMING_MS = 5_000;

function isBusy({ waiters, tried, usedAtMs }: PaceEntry, nowMs: number): boolean {
  return waiters.size > 0 || tried > 0 || nowMs - usedAtMs < BUSY_MS;
}

function isLimiting({ tokens, connections, messagesPerConnection, waitMs }: PaceGrant): boolean {
  return tokens !== undefined || connections !== undefined || messagesPerConnection !== undefined || waitMs > 0;
}

function nameOf({ source, provider }: { readonly source: string; readonly provider: string }): string {
  return `${source} ${provider}`;
}
