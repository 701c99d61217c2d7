import { inTime } from "./deadline.ts";
import type { Logger } from "./observability/logger.ts";
import type { Addresses, ServiceContext, StartService } from "./service.ts";

/** Undoes one start. */
export type Closer = () => Promise<unknown> | unknown;

/** What was started, to be closed last-in first-out within a deadline. */
export class Lifecycle {
  readonly #closers: Readonly<Record<string, Closer>>[] = [];
  readonly #logger: Logger;
  #stopped: Promise<void> = Promise.resolve();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Registers what must be undone; call it right after the start it undoes. */
  onStop(name: string, close: Closer): void {
    this.#closers.push({ [name]: close });
  }

  /** The same of several that are closed side by side, so that one that takes long leaves the others their time. */
  onStopTogether(closers: Readonly<Record<string, Closer>>): void {
    this.#closers.push(closers);
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
    for (const closers of this.#closers.splice(0).reverse()) {
      await Promise.all(Object.entries(closers).map(([name, close]) => this.#close(name, close, deadline)));
    }
  }

  async #close(name: string, close: Closer, deadline: number): Promise<void> {
    try {
      const closed = Promise.resolve().then(close);
      await inTime<unknown>(closed, Math.max(50, deadline - Date.now()), () =>
        this.#logger.warn({ closer: name }, "did not stop within the deadline"),
      );
    } catch (error) {
      this.#logger.error({ closer: name, err: error }, "failed to stop");
    }
  }
}

/** A service whose parts a lifecycle undoes: when it is stopped, and what was begun of them when a later one does not start. */
export function serviceWithin(
  begin: (lifecycle: Lifecycle, context: ServiceContext) => Promise<Addresses>,
): StartService {
  return async (context) => {
    const lifecycle = new Lifecycle(context.logger);
    try {
      return { addresses: await begin(lifecycle, context), stop: () => lifecycle.stop() };
    } catch (error) {
      await lifecycle.stop();
      throw error;
    }
  };
}
