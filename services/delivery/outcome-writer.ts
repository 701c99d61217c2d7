import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../platform/db.ts";
import type { Observe } from "../platform/observation.ts";
import { type DeliveryOutcome, type InvalidationRule, recordOutcomes } from "../store/deliveries.ts";
import { releasePartitions } from "../store/queue-leases.ts";

export interface OutcomeWriterOptions {
  readonly db: Db;
  readonly workerId: string;
  readonly flushMs: number;
  readonly rule: InvalidationRule;
  readonly observe: Observe;
}

/** Above this many unwritten outcomes the lanes wait: the database is away, or slower than the wire. */
const MOST_PENDING = 5_000;
const OUTCOMES_PER_FLUSH = 1_000;
const RETRY_MS = 500;

/**
 * Writes outcomes in batches, one commit for all that came within a window. Nothing is dropped: while the database is
 * away they are kept and tried again, and partitions are given back only after their outcomes.
 */
export class OutcomeWriter {
  readonly #options: OutcomeWriterOptions;
  #outcomes: DeliveryOutcome[] = [];
  #releases: number[] = [];
  #writing: Promise<void> | undefined;
  #room: (() => void)[] = [];

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
  }

  add(outcome: DeliveryOutcome): void {
    this.#outcomes.push(outcome);
    this.#start();
  }

  /** Gives a partition back once everything added so far is stored. */
  release(partitionId: number): void {
    this.#releases.push(partitionId);
    this.#start();
  }

  /** Resolves when there is room for more outcomes. */
  async waitForRoom(): Promise<void> {
    if (this.#outcomes.length < MOST_PENDING) return;
    await new Promise<void>((resolve) => this.#room.push(resolve));
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
    while (this.#outcomes.length > 0 || this.#releases.length > 0) {
      await sleep(this.#options.flushMs);
      const outcomes = this.#outcomes.splice(0, OUTCOMES_PER_FLUSH);
      // A partition's last outcomes may still wait behind these.
      const releases = this.#outcomes.length === 0 ? this.#releases.splice(0) : [];
      await this.#write(outcomes, releases);
      if (this.#outcomes.length < MOST_PENDING) for (const proceed of this.#room.splice(0)) proceed();
    }
  }

  async #write(outcomes: readonly DeliveryOutcome[], releases: readonly number[]): Promise<void> {
    const { db, workerId, rule, observe } = this.#options;
    for (;;) {
      try {
        await db.transaction(async (transaction) => {
          if (outcomes.length > 0) await recordOutcomes(transaction, outcomes, rule);
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
