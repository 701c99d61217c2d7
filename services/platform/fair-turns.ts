import { Counts } from "../core/counts.ts";

/** How much is done at once. */
export interface TurnLimits {
  /** Of everybody together. */
  readonly atOnce: number;
  /** Of one client. */
  readonly perClient: number;
  /** Of one client beyond that, where nobody minds: these take none of the places of everybody. */
  readonly more?: (client: string) => number;
}

/**
 * Lets clients do heavy work side by side: a few at once, one client only so much of it, and those who wait are taken in
 * turn by client, so that a client with a hundred pieces of work holds up another's first by one piece at most.
 */
export class FairTurns {
  readonly #limits: TurnLimits;
  /** Work under way, by client. */
  readonly #running = new Counts<string>();
  /** Those who wait, by client; the client that was served last stands last. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** Places of everybody that are taken. */
  #total = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Pieces of work that wait for this client's turn. */
  waitingOf(client: string): number {
    return this.#waiting.get(client)?.length ?? 0;
  }

  /** Does the work when it is the client's turn. @returns what the work does */
  async run<T>(client: string, work: () => Promise<T>): Promise<T> {
    if (!this.#hasRoom(client) || this.#waiting.has(client)) await this.#wait(client);
    else this.#begin(client);
    try {
      return await work();
    } finally {
      this.#end(client);
      while (this.#admitOneOfEach());
    }
  }

  #hasRoom(client: string): boolean {
    const { atOnce, perClient, more } = this.#limits;
    const running = this.#running.of(client);
    if (running < perClient) return this.#total < atOnce;
    return running < perClient + (more?.(client) ?? 0);
  }

  #wait(client: string): Promise<void> {
    return new Promise((resolve) => {
      const others = this.#waiting.get(client);
      if (others) others.push(resolve);
      else this.#waiting.set(client, [resolve]);
    });
  }

  /** @returns whether there was room for any */
  #admitOneOfEach(): boolean {
    let isAnyAdmitted = false;
    for (const [client, waiting] of [...this.#waiting]) {
      if (!this.#hasRoom(client)) continue;
      const next = waiting.shift()!;
      this.#waiting.delete(client);
      if (waiting.length > 0) this.#waiting.set(client, waiting);
      this.#begin(client);
      next();
      isAnyAdmitted = true;
    }
    return isAnyAdmitted;
  }

  #begin(client: string): void {
    if (this.#running.add(client, 1) <= this.#limits.perClient) this.#total += 1;
  }

  #end(client: string): void {
    if (this.#running.add(client, -1) < this.#limits.perClient) this.#total -= 1;
  }
}
