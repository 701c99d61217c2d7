import { setTimeout as sleep } from "node:timers/promises";
import type { AttemptLog } from "../operations/mail/attempt-log.ts";
import { type InvalidationRule, recordOutcomes } from "../operations/mail/outcomes.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { noteWarmUpDeliveries } from "../store/mail/pace/warm-up-days.ts";
import type { DeliveryOutcome } from "../store/mail/queue/deliveries.ts";
import { type PartitionRelease, releasePartitions } from "../store/mail/queue/queue-leases.ts";
import { addTlsSessions } from "../store/mail/reports/sent-tls-reports.ts";
import { WakeUp } from "./wake-up.ts";

export interface OutcomeWriterOptions {
  readonly db: Db;
  readonly workerId: string;
  /** A window is stored after so long, */
  readonly flushMs: number;
  /** or with so many outcomes, whichever comes first. */
  readonly flushOutcomes: number;
  readonly rule: InvalidationRule;
  /** Undefined where attempts are not kept. */
  readonly attempts: AttemptLog | undefined;
  readonly observe: Observe;
}

const RETRY_MS = 500;

/**
 * Writes outcomes in batches, one commit for all that came within a window. Nothing is dropped: while the database is
 * away they are kept and tried again, and partitions are given back only after their outcomes. With a window being
 * written and another one full the lanes wait, so that little is forgotten should this process die.
 */
export class OutcomeWriter {
  readonly #options: OutcomeWriterOptions;
  #outcomes: DeliveryOutcome[] = [];
  #releases: PartitionRelease[] = [];
  /** Called once what was added so far is stored. */
  #onStored: (() => void)[] = [];
  /** Those in the transaction that is under way. */
  #beingReleased: readonly PartitionRelease[] = [];
  /** Outcomes in the transaction that is under way. */
  #beingWritten = 0;
  readonly #windowFull = new WakeUp();
  #writing: Promise<void> | undefined;
  #room: (() => void)[] = [];

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
  }

  /** @param onStored what is to follow once it is stored */
  add(outcome: DeliveryOutcome, onStored?: () => void): void {
    this.#outcomes.push(outcome);
    if (onStored) this.#onStored.push(onStored);
    if (this.#outcomes.length === this.#options.flushOutcomes) this.#windowFull.ring();
    this.#start();
  }

  /** Gives a partition back once everything added so far is stored. */
  release(release: PartitionRelease): void {
    this.#releases.push(release);
    this.#start();
  }

  /** Partitions that are still to be given back. */
  get unreleased(): number[] {
    return [...this.#beingReleased, ...this.#releases].map(({ partitionId }) => partitionId);
  }

  /** Resolves when there is room for more outcomes. */
  async waitForRoom(): Promise<void> {
    while (!this.#hasRoom()) await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  #hasRoom(): boolean {
    return this.#outcomes.length + this.#beingWritten < 2 * this.#options.flushOutcomes;
  }

  /** Resolves when everything added so far is stored. */
  async drain(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  #start(): void {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  async #writeAll(): Promise<void> {
    const { flushMs, flushOutcomes } = this.#options;
    while (this.#outcomes.length > 0 || this.#releases.length > 0) {
      await this.#windowFull.wait(this.#outcomes.length < flushOutcomes ? flushMs : 0);
      const outcomes = this.#outcomes.splice(0);
      this.#beingWritten = outcomes.length;
      this.#beingReleased = this.#releases.splice(0);
      const stored = this.#onStored.splice(0);
      await this.#write(outcomes, this.#beingReleased);
      this.#beingReleased = [];
      this.#beingWritten = 0;
      for (const proceed of [...stored, ...this.#room.splice(0)]) proceed();
    }
  }

  async #write(outcomes: readonly DeliveryOutcome[], releases: readonly PartitionRelease[]): Promise<void> {
    const { db, workerId, rule, attempts, observe } = this.#options;
    for (;;) {
      try {
        const tried = await attempts?.prepare(db, outcomes);
        await db.transaction(async (transaction) => {
          const settled = await recordOutcomes(
            transaction,
            outcomes,
            rule,
            releases.map(({ partitionId }) => partitionId),
          );
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
          if (releases.length > 0) await releasePartitions(transaction, workerId, releases);
        });
        return;
      } catch (error) {
        observe({ kind: "outcomes-not-stored", level: "error", outcomes: outcomes.length, err: error });
        await sleep(RETRY_MS);
      }
    }
  }
}
