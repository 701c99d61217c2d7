import { setImmediate as nextTurn } from "node:timers/promises";
import type { Steps } from "../core/steps.ts";

/** How long one piece of work may keep everybody else waiting, in ms. */
const TURN_MS = 5;

/** Does work in turns of a few milliseconds, between which whatever else there is gets done. */
export async function runInTurns<T>(steps: Steps<T>): Promise<T> {
  let turnEnd = performance.now() + TURN_MS;
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() < turnEnd) continue;
    await nextTurn();
    turnEnd = performance.now() + TURN_MS;
  }
}
