export interface GatheredWorkOptions<Ask, Answer> {
  /** Does what was asked for. @returns the answers in the order of the asks */
  readonly run: (asks: readonly Ask[]) => Promise<readonly Answer[]>;
  /** Runs at a time. */
  readonly atOnce: number;
  /** Asks that one run serves. */
  readonly most: number;
  /**
   * How long a run waits for more where fewer ask than half of those that the last one served: these come back soon, and
   * two runs cost more than one. 0, which is assumed: it does not wait.
   */
  readonly patienceMs?: number;
}

interface Waiting<Ask, Answer> {
  readonly ask: Ask;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Does together what is asked for at the same time, as a group commit does: who asks while there is nothing to do is
 * served at once, or after `patienceMs`, who asks meanwhile waits for the next run, which serves all that wait. No run
 * begins before what it serves was asked for.
 */
export class GatheredWork<Ask, Answer> {
  readonly #options: GatheredWorkOptions<Ask, Answer>;
  #waiting: Waiting<Ask, Answer>[] = [];
  #running = 0;
  #isScheduled = false;
  /** So many are worth a run at once. */
  #enough = 1;
  #patience: NodeJS.Timeout | undefined;

  constructor(options: GatheredWorkOptions<Ask, Answer>) {
    this.#options = options;
  }

  /** Rejects with what the run rejects with. */
  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ask, resolve, reject });
      this.#schedule();
    });
  }

  /** After what has arrived in this turn of the event loop, so that all of it comes together. */
  #schedule(): void {
    const { atOnce, patienceMs = 0 } = this.#options;
    if (this.#isScheduled || this.#running === atOnce || this.#waiting.length === 0) return;
    if (this.#waiting.length < this.#enough && patienceMs > 0) {
      this.#patience ??= setTimeout(() => this.#begin(), patienceMs);
      return;
    }
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#begin();
    });
  }

  #begin(): void {
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (this.#running === this.#options.atOnce || this.#waiting.length === 0) return;
    const served = this.#waiting.splice(0, this.#options.most);
    this.#enough = Math.ceil(served.length / 2);
    void this.#run(served);
    this.#schedule();
  }

  async #run(served: readonly Waiting<Ask, Answer>[]): Promise<void> {
    this.#running += 1;
    try {
      const answers = await this.#options.run(served.map(({ ask }) => ask));
      for (const [index, { resolve }] of served.entries()) resolve(answers[index]!);
    } catch (error) {
      for (const { reject } of served) reject(error);
    } finally {
      this.#running -= 1;
      this.#schedule();
    }
  }
}
