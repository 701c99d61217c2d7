import { setTimeout as sleep } from "node:timers/promises";
import type { AttemptLog } from "../operations/mail/attempt-log.ts";
import { type InvalidationRule, recordOutcomes } from "../operations/mail/outcomes.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { WakeUp } from "../platform/wake-up.ts";
import { refuseAway } from "../store/mail/machines.ts";
import { noteWarmUpDeliveries } from "../store/mail/pace/warm-up-days.ts";
import type { DeliveryOutcome } from "../store/mail/queue/deliveries.ts";
import { beginWork } from "../store/mail/queue/mail-work.ts";
import { type PartitionRelease, releasePartitions } from "../store/mail/queue/queue-leases.ts";
import { addTlsSessions } from "../store/mail/reports/sent-tls-reports.ts";
import type { Scale } from "./policy.ts";

export interface OutcomeWriterOptions {
  readonly db: Db;
  readonly workerId: string;
  /** A number for the machine that has an instance, as far as what is stored together goes. */
  readonly placeOf: (instanceId: number) => number;
  /** A window is stored after so long, or with so many outcomes, whichever comes first. */
  readonly window: () => Pick<Scale, "flushMs" | "flushOutcomes">;
  readonly rule: InvalidationRule;
  /** Undefined where attempts are not kept. */
  readonly attempts: AttemptLog | undefined;
  readonly observe: Observe;
}

const RETRY_MS = 500;
/** Transactions at a time. */
const AT_ONCE = 4;

/** What came of the instances of one place within a window. */
class Window {
  readonly outcomes: DeliveryOutcome[] = [];
  readonly releases: PartitionRelease[] = [];
  /** Called once it is stored. */
  readonly onStored: (() => void)[] = [];
  /** It could not be stored, while what is of another place could. */
  isAlone = false;

  append({ outcomes, releases, onStored }: Window): void {
    this.outcomes.push(...outcomes);
    this.releases.push(...releases);
    this.onStored.push(...onStored);
  }
}

/**
 * Writes outcomes in batches: of all that came within a window each place's in one commit. Nothing is dropped: what
 * cannot be stored is kept and tried again, and partitions are given back only after their outcomes. With a window being
 * written and another one full the lanes wait, so that little is forgotten should this process die. A place that alone
 * cannot store has its own lanes wait, and no others.
 */
export class OutcomeWriter {
  readonly #options: OutcomeWriterOptions;
  #gathering = new Map<number, Window>();
  /** In transactions that are under way. */
  readonly #writing = new Map<number, Window>();
  /** What could not be stored, and what came since. */
  readonly #failing = new Map<number, Window>();
  readonly #retries = new Set<Promise<void>>();
  readonly #windowFull = new WakeUp();
  #running: Promise<void> | undefined;
  #room: (() => void)[] = [];

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
  }

  /** @param onStored what is to follow once it is stored */
  add(outcome: DeliveryOutcome, onStored?: () => void): void {
    const window = this.#windowOf(outcome.instanceId);
    window.outcomes.push(outcome);
    if (onStored) window.onStored.push(onStored);
    this.#start();
  }

  /** Gives a partition back once everything added so far of its instance is stored. */
  release(release: PartitionRelease): void {
    this.#windowOf(release.instanceId).releases.push(release);
    this.#start();
  }

  #windowOf(instanceId: number): Window {
    const place = this.#options.placeOf(instanceId);
    const failing = this.#failing.get(place);
    if (failing !== undefined) return failing;
    const window = this.#gathering.get(place) ?? new Window();
    this.#gathering.set(place, window);
    return window;
  }

  /** Partitions that are still to be given back, with their instances. */
  get unreleased(): ReadonlyMap<number, number> {
    const windows = [this.#gathering, this.#writing, this.#failing].flatMap((map) => [...map.values()]);
    const releases = windows.flatMap((window) => window.releases);
    return new Map(releases.map(({ instanceId, partitionId }) => [partitionId, instanceId]));
  }

  /** Resolves when there is room for more outcomes of an instance. */
  async waitForRoom(instanceId: number): Promise<void> {
    while (!this.#hasRoom(instanceId)) await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  /**
   * What is known to fail alone leaves room to others. A place without unstored outcomes may always begin a message: when its
   * outcome is stored, places that still fail are known to fail alone.
   */
  #hasRoom(instanceId: number): boolean {
    const place = this.#options.placeOf(instanceId);
    if (this.#failing.get(place)?.isAlone) return false;
    const maps = [this.#gathering, this.#writing, this.#failing];
    const unstored = maps.reduce((sum, windows) => sum + countOf(windows), 0);
    return unstored < 2 * this.#options.window().flushOutcomes || !maps.some((windows) => windows.has(place));
  }

  /** Resolves when everything added so far is stored. */
  async drain(): Promise<void> {
    while (this.#running !== undefined || this.#retries.size > 0) await Promise.all([this.#running, ...this.#retries]);
  }

  #start(): void {
    if (this.#gathering.size === 0) return;
    if (countOf(this.#gathering) >= this.#options.window().flushOutcomes) this.#windowFull.ring();
    this.#running ??= this.#writeAll().finally(() => {
      this.#running = undefined;
      this.#start();
    });
  }

  async #writeAll(): Promise<void> {
    const { flushMs, flushOutcomes } = this.#options.window();
    while (this.#gathering.size > 0) {
      await this.#windowFull.wait(countOf(this.#gathering) < flushOutcomes ? flushMs : 0);
      const windows = [...this.#gathering];
      this.#gathering = new Map();
      for (const [place, window] of windows) this.#writing.set(place, window);
      await fewAtOnce(windows, { pieces: AT_ONCE }, async ([place, window]) => {
        const isStored = await this.#write(window);
        this.#writing.delete(place);
        if (!isStored) this.#keep(place, window);
      });
      this.#callAll(this.#room.splice(0));
    }
  }

  /** Has what could not be stored be tried again, together with what comes of its place meanwhile. */
  #keep(place: number, window: Window): void {
    const since = this.#gathering.get(place);
    this.#gathering.delete(place);
    if (since !== undefined) window.append(since);
    this.#failing.set(place, window);
    const retry = this.#writeAgain(place).finally(() => this.#retries.delete(retry));
    this.#retries.add(retry);
  }

  async #writeAgain(place: number): Promise<void> {
    for (;;) {
      await sleep(RETRY_MS);
      const window = this.#failing.get(place)!;
      const { isAlone } = window;
      const since = Object.assign(new Window(), { isAlone });
      this.#writing.set(place, window);
      this.#failing.set(place, since);
      const isStored = await this.#write(window);
      this.#writing.delete(place);
      this.#failing.delete(place);
      if (!isStored) {
        window.append(since);
        window.isAlone ||= since.isAlone;
        this.#failing.set(place, window);
        continue;
      }
      since.isAlone = false;
      if (since.outcomes.length + since.releases.length > 0) this.#gathering.set(place, since);
      this.#start();
      this.#callAll(this.#room.splice(0));
      return;
    }
  }

  async #write(window: Window): Promise<boolean> {
    const { outcomes } = window;
    try {
      await this.#store(window);
    } catch (error) {
      this.#options.observe({ kind: "outcomes-not-stored", level: "error", outcomes: outcomes.length, err: error });
      return false;
    }
    // The database is there: who cannot be stored is alone with it.
    for (const failing of this.#failing.values()) failing.isAlone = true;
    this.#callAll(window.onStored);
    return true;
  }

  async #store({ outcomes, releases }: Window): Promise<void> {
    const { db, workerId, rule, attempts } = this.#options;
    const instanceIds = [...new Set([...outcomes, ...releases].map(({ instanceId }) => instanceId))];
    refuseAway(db, instanceIds);
    const tried = outcomes.length > 0 ? await attempts?.prepare(db, outcomes) : undefined;
    const alsoChanged = releases.map(({ instanceId, partitionId }) => ({ instanceId, id: partitionId }));
    await db.transaction(async (transaction) => {
      const now = await beginWork(transaction, instanceIds);
      const settled = await recordOutcomes(transaction, { now, alsoChanged }, outcomes, rule);
      await addTlsSessions(
        transaction,
        outcomes.flatMap(({ tlsSessions = [] }) => tlsSessions),
      );
      await noteWarmUpDeliveries(
        transaction,
        outcomes.flatMap(({ instanceId, deliveryId, warmUp }) =>
          warmUp ? [{ instanceId, deliveryId, ...warmUp }] : [],
        ),
      );
      if (tried !== undefined) await attempts?.store(transaction, tried, settled);
      await releasePartitions(transaction, workerId, releases, now);
    });
  }

  #callAll(calls: readonly (() => void)[]): void {
    for (const call of calls) call();
  }
}

/** Outcomes in windows; not those that a place alone cannot store. */
function countOf(windows: ReadonlyMap<number, Window>): number {
  let count = 0;
  for (const { outcomes, isAlone } of windows.values()) if (!isAlone) count += outcomes.length;
  return count;
}
