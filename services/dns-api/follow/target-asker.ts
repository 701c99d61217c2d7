import { Counter } from "prom-client";
import { type AskingOptions, askTarget } from "../../operations/dns/follow-targets.ts";
import type { Clock } from "../../platform/clock.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import { registry } from "../../platform/observability/metrics.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { claimDueTargets, type DueTarget, nextTargetDue } from "../../store/dns/follow-targets.ts";

/** Notices hasten the work of others; a look makes sure. */
const POLL_MS = 1_000;
/** Whoever was taken on and not written is taken on again: its worker is gone. */
const LEASE_MS = 30_000;
const { questionsAtOnce } = followPolicy.alias;

const questionsAsked = new Counter({
  name: "palomar_follow_questions_total",
  help: "Names that aliases and pools follow, asked of the resolver",
  registers: [registry],
});

export interface TargetAskerOptions extends AskingOptions {
  readonly db: Db;
  readonly clock: Clock;
  /** Told after each answer. */
  readonly onAnswer: () => void;
  readonly failed: (error: unknown) => void;
}

/** Asks for the targets that are due, each by itself: none waits for the answer to another. */
export class TargetAsker {
  readonly #options: TargetAskerOptions;
  readonly #work: RepeatedWork;
  readonly #underWay = new Set<Promise<void>>();
  /** Whether more are due than could be taken on. */
  #isBehind = false;

  constructor(options: TargetAskerOptions) {
    this.#options = options;
    const failed = (error: unknown) => {
      options.failed(error);
      return POLL_MS;
    };
    this.#work = new RepeatedWork({ take: () => this.#takeOn(), failed });
  }

  /** Targets were added. */
  wake(): void {
    this.#work.wake();
  }

  async stop(): Promise<void> {
    await this.#work.stop();
    await Promise.all(this.#underWay);
  }

  /** @returns how long to rest, in ms */
  async #takeOn(): Promise<number> {
    const { db, clock } = this.#options;
    const limit = questionsAtOnce - this.#underWay.size;
    this.#isBehind = true;
    if (limit === 0) return POLL_MS;
    const due = await claimDueTargets(db, new Date(clock.nowMs()), { limit, leaseMs: LEASE_MS });
    questionsAsked.inc(due.length);
    for (const target of due) this.#begin(target);
    if (due.length === limit) return POLL_MS;
    this.#isBehind = false;
    const next = await nextTargetDue(db);
    return next ? Math.max(0, Math.min(POLL_MS, next.getTime() - clock.nowMs())) : POLL_MS;
  }

  #begin(target: DueTarget): void {
    const asking = this.#ask(target).finally(() => {
      this.#underWay.delete(asking);
      if (this.#isBehind) this.#work.wake();
    });
    this.#underWay.add(asking);
  }

  async #ask(target: DueTarget): Promise<void> {
    const { db, clock, onAnswer, failed } = this.#options;
    try {
      await askTarget(db, target, this.#options, new Date(clock.nowMs()));
      onAnswer();
    } catch (error) {
      failed(error);
    }
  }
}
