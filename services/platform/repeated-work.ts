import { WakeUp } from "./wake-up.ts";

/** One kind of work, as a loop needs it. */
export interface Turns {
  /** Does what there is to do now. @returns how long to rest afterwards, in ms */
  take(signal: AbortSignal): Promise<number>;
  /** Hears what a turn threw, unless it was told to stop meanwhile. @returns how long to rest afterwards, in ms */
  failed(error: unknown): number;
}

/** Work that is done again and again until it is stopped, one turn after the other. */
export class RepeatedWork {
  readonly #turns: Turns;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  readonly #wakeUp = new WakeUp();

  constructor(turns: Turns) {
    this.#turns = turns;
    this.#running = this.#run();
  }

  /** There is something to do: the rest ends, or does not begin. */
  wake(): void {
    this.#wakeUp.ring();
  }

  /** Waits for the turn that is under way; its signal tells it to hurry. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#wakeUp.forget();
      const restMs = await this.#takeTurn();
      if (restMs > 0) await this.#wakeUp.wait(restMs);
    }
  }

  async #takeTurn(): Promise<number> {
    const { signal } = this.#stopping;
    try {
      return await this.#turns.take(signal);
    } catch (error) {
      return signal.aborted ? 0 : this.#turns.failed(error);
    }
  }
}

/** Something that is done every so often. */
export interface Task {
  /** For the log. */
  readonly name: string;
  readonly everyMs: number;
  run(signal: AbortSignal): Promise<void>;
}

/** Tasks beside each other, each in a rhythm of its own; one that fails is tried again at its next time. */
export function repeatTasks(
  tasks: readonly Task[],
  failed: (task: string, error: unknown) => void,
): { stop(): Promise<void> } {
  const loops = tasks.map(
    ({ name, everyMs, run }) =>
      new RepeatedWork({
        take: async (signal) => {
          await run(signal);
          return everyMs;
        },
        failed: (error) => {
          failed(name, error);
          return everyMs;
        },
      }),
  );
  return {
    stop: async () => {
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}
