import type { Phrases } from "../../core/mail/bounce/phrases.ts";
import { judgePace, type PaceSignal, type ProviderReplies } from "../../core/mail/pace/replies.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type AttemptResult, concernOf } from "../decide.ts";
import { FREE, type LearntPace, type Leave, type PacedAttempt, type Wait } from "../shaping.ts";
import { KnownPaces } from "./known-paces.ts";
import { expectedWaitMs, needsLeave, type PaceEntry, tokensOf, type Waiter } from "./pace-entry.ts";
import { COMING_MS, PaceExchanger, PORTION_MS, type SimulatedTime } from "./pace-exchanger.ts";

interface PaceKeeperOptions {
  readonly db: Db;
  readonly replies: readonly ProviderReplies[];
  readonly wordings: { readonly phrases: Phrases };
  readonly observe: Observe;
  /** Messages an hour of one source, by config/delivery.json; null: as fast as it goes. */
  configuredPerHour(provider: string): number | null;
  /** Time where it is not the database's: in simulations. */
  readonly simulated?: SimulatedTime;
}

/** Who has less than this part of what it was granted asks for more. */
const LOW = 1 / 3;
/** Of one source; the far side's words say it all the while. */
const MOST_SIGNALS = 100;

/**
 * A worker's part of the pace that the deployment keeps: it takes leave from the database ahead of need, in small
 * portions, hands it to the messages in the order in which they came, gives back what is not used, and tells what
 * providers say. What nobody limits passes without a look at the database.
 */
export class PaceKeeper implements LearntPace {
  readonly #options: PaceKeeperOptions;
  readonly #timesFaster: number;
  readonly #paces: KnownPaces;
  readonly #exchanger: PaceExchanger;
  #onLeave: () => void = () => {};

  constructor(options: PaceKeeperOptions) {
    this.#options = options;
    const { db, observe, simulated } = options;
    this.#timesFaster = simulated?.timesFaster ?? 1;
    this.#paces = new KnownPaces((provider) => options.configuredPerHour(provider));
    this.#exchanger = new PaceExchanger({
      ...{ db, observe, simulated, paces: this.#paces },
      nowMs: () => this.#nowMs(),
      onLeave: (entry) => this.#serve(entry),
      onNoLeave: (entry) => this.#dismiss(entry),
      onSpareLeave: () => this.#onLeave(),
    });
  }

  /** Reads what others, and those before, have learnt: to be called before anything is sent. */
  read(): Promise<void> {
    return this.#exchanger.read();
  }

  /** @param onLeave called when there is leave to send that nobody waits for */
  start(onLeave: () => void): void {
    this.#onLeave = onLeave;
    this.#exchanger.start();
  }

  /** Nobody waits for leave any more. */
  dismiss(): void {
    this.#exchanger.dismiss();
    for (const entry of this.#paces.limited) this.#dismiss(entry);
  }

  /** Gives back what was not used. To be called when nothing is sent any more. */
  async stop(): Promise<void> {
    this.dismiss();
    await this.#exchanger.stop();
  }

  takeLeave(sources: readonly string[], provider: string): Leave | undefined {
    const nowMs = this.#nowMs();
    for (const source of sources) {
      const entry = this.#paces.of(source, provider, nowMs);
      if (entry.waitsUntilMs > nowMs) continue;
      if (!needsLeave(entry)) return FREE;
      if (this.#take(entry, nowMs)) return { source, provider, isPlanned: this.#paces.isPlanned(entry) };
    }
    return undefined;
  }

  async waitForLeave(sources: readonly string[], provider: string, mostMs: number): Promise<Leave | Wait> {
    const entries = sources.map((source) => this.#paces.of(source, provider, this.#nowMs()));
    const expected = this.#expected(entries);
    if (this.#exchanger.isStopping || expected.waitMs > mostMs) return expected;
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
      this.#exchanger.ring();
    });
    if (source === null) return this.#expected(entries);
    const isPlanned = source !== undefined && this.isWarming(source, provider);
    return { source, provider, isPlanned };
  }

  giveBack({ source, provider }: Leave): void {
    const entry = source === undefined ? undefined : this.#paces.limitedOf(source, provider);
    if (entry === undefined) return;
    entry.tokens += 1;
    this.#serve(entry);
  }

  useLeave(leave: Leave, source: string, provider: string): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#paces.of(source, provider, nowMs);
    if (leave.source !== source || leave.provider !== provider) {
      this.giveBack(leave);
      if (entry.waitsUntilMs > nowMs || this.#paces.isPlanned(entry)) return false;
      if (needsLeave(entry) && !this.#take(entry, nowMs)) return false;
    }
    if (entry.isLimited) entry.tried += 1;
    return true;
  }

  mayUse(source: string, provider: string): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#paces.of(source, provider, nowMs);
    if (entry.waitsUntilMs > nowMs || this.#paces.isPlanned(entry)) return false;
    return !needsLeave(entry) || tokensOf(entry, nowMs) >= 1;
  }

  room(source: string, provider: string): number | undefined {
    const entry = this.#paces.limitedOf(source, provider);
    if (entry === undefined) return undefined;
    const nowMs = this.#nowMs();
    if (entry.waiters.size > 0 || expectedWaitMs(entry, nowMs) > COMING_MS) return 0;
    return needsLeave(entry) ? Math.max(1, Math.floor(tokensOf(entry, nowMs))) : undefined;
  }

  connections(source: string, provider: string): number | undefined {
    return this.#paces.limitedOf(source, provider)?.grant?.connections;
  }

  messagesPerConnection(source: string, provider: string): number | undefined {
    return this.#paces.limitedOf(source, provider)?.grant?.messagesPerConnection;
  }

  mayOpen(source: string, provider: string): boolean {
    const entry = this.#paces.limitedOf(source, provider);
    return entry?.grant?.connections === undefined || entry.sessions < entry.grant.connections;
  }

  opened(source: string, provider: string): void {
    this.#paces.of(source, provider, this.#nowMs()).sessions += 1;
  }

  closed(source: string, provider: string): void {
    const entry = this.#paces.of(source, provider, this.#nowMs());
    entry.sessions = Math.max(0, entry.sessions - 1);
  }

  get isAnyWarming(): boolean {
    return this.#paces.isAnyWarming;
  }

  isWarming(source: string, provider: string): boolean {
    return this.#paces.isWarming(source) && this.#paces.isPlanned(this.#paces.of(source, provider, this.#nowMs()));
  }

  wants(source: string, provider: string, touchedDaysAgo: number | undefined): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#paces.of(source, provider, nowMs);
    if (entry.grant === undefined) return true; // the database is asked first
    const { isOpen = false, touchedWithinDays = null } = entry.grant.warmUp ?? {};
    if (entry.waitsUntilMs > nowMs || !(isOpen || tokensOf(entry, nowMs) >= 1)) return false;
    return touchedWithinDays === null || (touchedDaysAgo !== undefined && touchedDaysAgo <= touchedWithinDays);
  }

  note(
    { source, provider }: { readonly source: string; readonly provider: string },
    result: AttemptResult,
    { messages, durationMs }: PacedAttempt,
  ): boolean {
    const nowMs = this.#nowMs();
    const entry = this.#paces.of(source, provider, nowMs);
    if (result.kind === "accepted") {
      entry.accepted.add(nowMs);
      if (entry.isLimited) entry.delivered += 1;
      return false;
    }
    const signal = this.#signalOf(result, provider);
    if (this.#paces.isPlanned(entry) && (signal !== undefined || this.#isUnwelcome(result))) entry.unwelcome += 1;
    if (signal === undefined) return false;
    entry.deferred += 1;
    this.#options.observe({ kind: "pace-refused", source, provider, concerns: signal.concerns });
    const beganAtMs = nowMs - durationMs * this.#timesFaster;
    if (entry.signals.length < MOST_SIGNALS) entry.signals.push({ ...signal, messages, beganAtMs });
    // A new session may begin at once; anything else waits for the database's word.
    if (signal.concerns !== "messages-per-connection") {
      entry.waitsUntilMs = Math.max(entry.waitsUntilMs, nowMs + PORTION_MS);
    }
    this.#paces.limit(entry);
    this.#exchanger.ring();
    return true;
  }

  #signalOf(result: AttemptResult, provider: string): PaceSignal | undefined {
    if (result.kind !== "failed" || result.failure.kind !== "reply") return undefined;
    const { reply, stage } = result.failure;
    const { replies: table, wordings } = this.#options;
    return judgePace(reply, stage, { provider, table, phrases: wordings.phrases });
  }

  /** Refused for what the provider thinks of the source, and not of the message or the recipient. */
  #isUnwelcome(result: AttemptResult): boolean {
    const { phrases } = this.#options.wordings;
    return result.kind === "failed" && result.failure.kind === "reply" && concernOf(result, phrases) !== "recipient";
  }

  /** Monotonic. */
  #nowMs(): number {
    return performance.now() * this.#timesFaster;
  }

  #take(entry: PaceEntry, nowMs: number): boolean {
    if (tokensOf(entry, nowMs) < 1) return false;
    entry.tokens -= 1;
    if (entry.tokens < (entry.grant?.tokens ?? 0) * LOW) this.#exchanger.ring();
    return true;
  }

  #expected(entries: readonly PaceEntry[]): Wait {
    const nowMs = this.#nowMs();
    return {
      waitMs: Math.min(...entries.map((entry) => expectedWaitMs(entry, nowMs))),
      isPlanned: entries.every((entry) => this.#paces.isPlanned(entry)),
    };
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
}
