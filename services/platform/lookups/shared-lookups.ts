import { setImmediate } from "node:timers/promises";

/**
 * Lets many who look for the same thing at the same time share the look. Nobody gets what was found before he asked:
 * who comes while one is under way waits for the next, which serves all that wait. So what a change has put in force
 * is found by whoever asks after it. Where none is under way, a look begins after what has arrived in this turn of the
 * event loop, so that all of it shares one.
 */
export class SharedLookups<T> {
  readonly #running = new Map<string, Promise<T>>();
  readonly #next = new Map<string, Promise<T>>();

  /** @param look looks once; what it rejects with, all who share it get */
  find(key: string, look: () => Promise<T>): Promise<T> {
    let next = this.#next.get(key);
    if (!next) {
      const start = () => {
        this.#next.delete(key);
        return this.#start(key, look);
      };
      next = (this.#running.get(key) ?? setImmediate()).then(start, start);
      this.#next.set(key, next);
    }
    return next;
  }

  #start(key: string, look: () => Promise<T>): Promise<T> {
    const running = look().finally(() => {
      if (this.#running.get(key) === running) this.#running.delete(key);
    });
    this.#running.set(key, running);
    return running;
  }
}
