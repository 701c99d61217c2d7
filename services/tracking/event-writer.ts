import { setTimeout as sleep } from "node:timers/promises";
import { type MachineRule, storeTouches, type Touch } from "../operations/mail/tracking-events.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { type Db, isAboutData, type Transaction } from "../platform/postgres/db.ts";
import { WakeUp } from "../platform/wake-up.ts";
import { isWhole } from "../store/mail/machines.ts";
import { keepTouches, takeKeptTouches } from "../store/mail/tracking/kept-touches.ts";
import { findSpoolPosition, saveSpoolPosition } from "../store/mail/tracking/tracking-positions.ts";
import type { Spool, SpoolPosition } from "./spool.ts";

const BACK_OFF_MS = [100, 250, 500, 1_000, 2_000] as const;
/** Between two transactions: what comes meanwhile shares the next one. */
const GATHER_MS = 20;
/** Without a word that there is something new, the spool is looked at so often. */
const IDLE_MS = 1_000;
const KEPT_AT_ONCE = 1_000;
/** While all machines answer, what another process may have kept is looked for so often. */
const LOOK_FOR_KEPT_MS = 60_000;

/**
 * Stores what is in the spool as events: in order, whole batches in one transaction together with the position, so
 * that each record is stored once, whatever ends this process or the database in between. While a machine does not
 * answer, what may be of its instances is kept, and holds up nobody else's.
 */
export class EventWriter {
  readonly #db: Db;
  readonly #spool: Spool<Touch>;
  readonly #rule: MachineRule;
  readonly #observe: Observe;
  #position: SpoolPosition | undefined;
  readonly #wakeUp = new WakeUp();
  /** By the monotonic clock; at once where there may be some. */
  #lookForKeptAtMs = 0;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: { db: Db; spool: Spool<Touch>; rule: MachineRule; observe: Observe }) {
    this.#db = options.db;
    this.#spool = options.spool;
    this.#rule = options.rule;
    this.#observe = options.observe;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Something was appended. */
  wake(): void {
    this.#wakeUp.ring();
  }

  /** Stores what is there, if the database answers; the rest is for the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 0; ; ) {
      try {
        const hasMore = await this.#storeNext();
        if (failures > 0) this.#observe({ kind: "tracking-events-stored-again", level: "info" });
        failures = 0;
        if (hasMore) {
          await sleep(GATHER_MS, undefined, { signal }).catch(() => {});
          continue;
        }
        if (signal.aborted) return;
        await this.#wakeUp.wait(IDLE_MS);
      } catch (error) {
        if (failures === 0) this.#observe({ kind: "tracking-events-wait", level: "warn", err: error });
        if (signal.aborted) return;
        // Whether the last transaction was committed, only the database knows.
        this.#position = undefined;
        await sleep(BACK_OFF_MS[Math.min(failures++, BACK_OFF_MS.length - 1)], undefined, { signal }).catch(() => {});
      }
    }
  }

  /** @returns whether there was anything */
  async #storeNext(): Promise<boolean> {
    this.#wakeUp.forget();
    const allAnswer = isWhole(this.#db);
    if (await this.#storeKept(allAnswer)) return true;
    this.#position ??= (await findSpoolPosition(this.#db, this.#spool.id)) ?? { segment: 0, offset: 0 };
    const batch = await this.#spool.read(this.#position);
    if (batch === undefined) return false;
    await this.#store(allAnswer, async (transaction) => {
      await saveSpoolPosition(transaction, this.#spool.id, batch.next);
      return batch.records;
    });
    const isNewFile = batch.next.segment !== this.#position.segment;
    this.#position = batch.next;
    if (isNewFile) await this.#spool.discardBefore(batch.next);
    return true;
  }

  /** What was kept while a machine was away goes first, once all are there. @returns whether there was anything */
  async #storeKept(allAnswer: boolean): Promise<boolean> {
    if (!allAnswer) this.#lookForKeptAtMs = 0;
    if (!allAnswer || performance.now() < this.#lookForKeptAtMs) return false;
    let isOthers = false;
    const taken = await this.#store(allAnswer, async (transaction) => {
      const touches = await takeKeptTouches<Touch>(transaction, KEPT_AT_ONCE);
      isOthers = touches === undefined;
      return touches ?? [];
    });
    if (taken === 0) this.#lookForKeptAtMs = performance.now() + (isOthers ? IDLE_MS : LOOK_FOR_KEPT_MS);
    return taken > 0;
  }

  /**
   * @param allAnswer as when it was decided what comes next: what was kept has to come before what happened since
   * @param take takes out what is to be stored, in the transaction that stores it
   * @returns how many that was
   */
  async #store(allAnswer: boolean, take: (transaction: Transaction) => Promise<readonly Touch[]>): Promise<number> {
    const storeBy = (store: (transaction: Transaction, touches: readonly Touch[]) => Promise<readonly Touch[]>) =>
      this.#db.transaction(async (transaction) => {
        const touches = await take(transaction);
        const kept = await store(transaction, touches);
        await keepTouches(transaction, kept);
        if (isWhole(this.#db) !== allAnswer) throw new Error("a machine of the database came or went");
        if (kept.length > 0) this.#lookForKeptAtMs = 0;
        return touches.length;
      });
    try {
      return await storeBy((transaction, touches) => storeTouches(transaction, touches, this.#rule));
    } catch (error) {
      if (!isAboutData(error)) throw error;
      const dropped: DroppedTouch[] = [];
      const count = await storeBy((transaction, touches) => this.#storeOneByOne(transaction, touches, dropped));
      // Until that is committed nothing is dropped: it may have to be done again.
      for (const { touch, err } of dropped) {
        const { kind: touchKind, deliveryId } = touch ?? {};
        this.#observe({ kind: "tracking-event-dropped", level: "error", touchKind, deliveryId, err });
      }
      return count;
    }
  }

  /** A record that the database can never take must not hold up those behind it. */
  async #storeOneByOne(transaction: Transaction, touches: readonly Touch[], dropped: DroppedTouch[]): Promise<Touch[]> {
    const kept: Touch[] = [];
    for (const touch of touches) {
      try {
        kept.push(...(await transaction.transaction((savepoint) => storeTouches(savepoint, [touch], this.#rule))));
      } catch (err) {
        if (!isAboutData(err)) throw err;
        dropped.push({ touch, err });
      }
    }
    return kept;
  }
}

/** What the database cannot take, and why. */
interface DroppedTouch {
  readonly touch: Touch;
  readonly err: unknown;
}
