import { setImmediate as nextTurn } from "node:timers/promises";
import type { Steps } from "../core/steps.ts";

/** How long one piece of work may keep everybody else waiting, in ms. */
const TURN_MS = 5;

/** Does work in turns of a few milliseconds, between which whatever else there is gets done. */
export async function runInTurns<T>(steps: Steps<T>): Promise<T> {
  const turn = new Turn();
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (turn.isOver) await turn.next();
  }
}

/** The turn of work that is no `Steps`: it looks now and then whether it is over. */
export class Turn {
  #endsAt = performance.now() + TURN_MS;

  get isOver(): boolean {
    return performance.now() >= this.#endsAt;
  }

  /** Lets whatever else there is get done. */
  async next(): Promise<void> {
    await nextTurn();
    this.#endsAt = performance.now() + TURN_MS;
  }
}
