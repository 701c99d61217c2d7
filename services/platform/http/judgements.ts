import { setTimeout as sleep } from "node:timers/promises";
import { FairTurns } from "../fair-turns.ts";
import type { Sharer } from "./endpoint.ts";

/**
 * Judges bodies one after another, in turn by caller. After each it rests for as long as that took: meanwhile the thread is
 * there for those that wait for the database, who would else wait for a judgement at each step.
 */
export class Judgements {
  readonly #turns = new FairTurns({ atOnce: 1, perClient: 1 });

  async run<T>({ key, group }: Sharer, judge: () => T): Promise<T> {
    const leave = await this.#turns.take(key, group);
    const startedAtMs = performance.now();
    try {
      return judge();
    } finally {
      void sleep(performance.now() - startedAtMs).then(leave);
    }
  }
}
