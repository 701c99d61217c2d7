import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "./observability/logger.ts";

/** Undoes one start. */
export type Closer = () => Promise<unknown> | unknown;

/** What was started, to be closed last-in first-out within a deadline. */
export class Lifecycle {
  readonly #closers: { readonly name: string; readonly close: Closer }[] = [];
  readonly #logger: Logger;
  #stopped: Promise<void> = Promise.resolve();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Registers what must be undone; call it right after the start it undoes. */
  onStop(name: string, close: Closer): void {
    this.#closers.push({ name, close });
  }

  /**
   * Closes everything that was registered so far; a later call waits for the earlier ones and closes what has been
   * registered since. Never rejects: what fails is logged.
   */
  stop(deadlineMs = 10_000): Promise<void> {
    this.#stopped = this.#stopped.then(() => this.#closeAll(Date.now() + deadlineMs));
    return this.#stopped;
  }

  async #closeAll(deadline: number): Promise<void> {
    for (const { name, close } of this.#closers.splice(0).reverse()) {
      const abort = new AbortController();
      const late = sleep(Math.max(50, deadline - Date.now()), "late", { signal: abort.signal }).catch(() => "");
      try {
        if ((await Promise.race([Promise.resolve().then(close), late])) === "late") {
          this.#logger.warn({ closer: name }, "did not stop within the deadline");
        }
      } catch (error) {
        this.#logger.error({ closer: name, err: error }, "failed to stop");
      } finally {
        abort.abort();
      }
    }
  }
}
