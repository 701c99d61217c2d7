/** Work that is done in small steps: between two of them whoever drives it may turn to something else. */
export type Steps<T> = Generator<void, T, void>;

/** Does all steps one after the other. */
export function runAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
