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

/** The turn of work that is no `Steps`: it asks now and then whether it is over. */
export class Turn {
  readonly #questions: number;
  #left: number;
  #endsAt = performance.now() + TURN_MS;

  /** @param questions to one look at the clock, for work whose steps take no longer than that */
  constructor(questions = 1) {
    this.#questions = questions;
    this.#left = questions;
  }

  get isOver(): boolean {
    this.#left -= 1;
    if (this.#left > 0) return false;
    this.#left = this.#questions;
    return performance.now() >= this.#endsAt;
  }

  /** Lets whatever else there is get done. */
  async next(): Promise<void> {
    await nextTurn();
    this.#endsAt = performance.now() + TURN_MS;
  }
}
