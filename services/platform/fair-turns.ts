import { setTimeout as sleep } from "node:timers/promises";
import { Counts } from "../core/counts.ts";
import { addToGroup } from "../core/groups.ts";
import type { Refusal } from "../core/refusal.ts";
import { type Result, refuse } from "../core/result.ts";

/** How much is done at once. */
export interface TurnLimits {
  /** Of everybody together. */
  readonly atOnce: number;
  /** Of one client. */
  readonly perClient: number;
  /** Of each client, whatever the others have; none when absent. */
  readonly own?: number;
  /** Of all clients of a group together; as of everybody when absent. */
  readonly perGroup?: number;
  /** Of one client beyond that, where nobody minds: these take none of the places of everybody. */
  readonly more?: (client: string) => number;
}

/** Does what waits for somebody else, while others have the place of this work. @returns with a place again */
export type Aside = <T>(wait: () => Promise<T>) => Promise<T>;

/** When work is refused that would wait. */
export interface WaitingLimits {
  /** Pieces of one client's work. */
  readonly mostWaiting: number;
  readonly retryAfterSeconds: number;
  /** The client's; of one's own when absent. */
  readonly group?: string;
}

interface Waiting {
  readonly group: string;
  proceed(): void;
}

/**
 * Lets clients do heavy work side by side: a few at once, one client only so much of it, and those who wait are taken in
 * turn by client, so that a client with a hundred pieces of work holds up another's first by one piece at most.
 */
export class FairTurns {
  readonly #limits: TurnLimits;
  /** Work under way, by client. */
  readonly #running = new Counts<string>();
  /** Places of everybody, by group. */
  readonly #ofGroup = new Counts<string>();
  /** Those who wait, by client; the client that was served last stands last. */
  readonly #waiting = new Map<string, Waiting[]>();
  /** Places of everybody that are taken. */
  #total = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Pieces of work that wait for this client's turn. */
  waitingOf(client: string): number {
    return this.#waiting.get(client)?.length ?? 0;
  }

  /** Clients that wait for a place of everybody's and for nothing else: they have their own, and their group's. */
  needed(): number {
    const { atOnce, perClient, perGroup = atOnce } = this.#limits;
    if (this.#total < atOnce) return 0;
    const isHeldUp = ([client, [first]]: [string, Waiting[]]) =>
      this.#running.of(client) < perClient && this.#ofGroup.of(first!.group) < perGroup;
    return [...this.#waiting].filter(isHeldUp).length;
  }

  /**
   * Does the work when it is the client's turn.
   * @param work ends after all that it does aside
   * @param group always the client's
   * @returns what the work does
   */
  async run<T>(client: string, work: (aside: Aside) => Promise<T>, group = client): Promise<T> {
    if (!this.#enters(client, group)) await this.#wait(client, group);
    try {
      return await work(async (wait) => {
        this.#leave(client, group);
        try {
          return await wait();
        } finally {
          if (!this.#enters(client, group)) await this.#wait(client, group);
        }
      });
    } finally {
      this.#leave(client, group);
    }
  }

  /** As {@link run}; refused where so many of the client's wait for their turn already. */
  async runOrRefuse<T, R>(
    client: string,
    { mostWaiting, retryAfterSeconds, group = client }: WaitingLimits,
    work: () => Promise<Result<T, R>>,
  ): Promise<Result<T, R | Refusal>> {
    if (this.waitingOf(client) >= mostWaiting) return refuse({ kind: "rate-limited", retryAfterSeconds });
    return this.run(client, work, group);
  }

  /**
   * As {@link run}. The place rests afterwards for as long as the work took: meanwhile the thread is there for those who wait
   * for something else, who would else wait for a piece of this work at each step.
   */
  async runThenRest<T>(client: string, work: () => T | Promise<T>, group = client): Promise<T> {
    const leave = await this.take(client, group);
    const startedAtMs = performance.now();
    try {
      return await work();
    } finally {
      void sleep(performance.now() - startedAtMs).then(leave);
    }
  }

  /** Waits for the client's turn. @returns what ends it */
  async take(client: string, group = client): Promise<() => void> {
    if (!this.#enters(client, group)) await this.#wait(client, group);
    return () => this.#leave(client, group);
  }

  /** As {@link take}, of a client that is a group by itself; undefined where its turn does not come in that time. */
  async takeWithin(patienceMs: number, client: string): Promise<(() => void) | undefined> {
    const hasTurn = this.#enters(client, client) || (await this.#wait(client, client, patienceMs));
    return hasTurn ? () => this.#leave(client, client) : undefined;
  }

  /** @returns whether there was a place at once */
  #enters(client: string, group: string): boolean {
    const enters = this.#hasRoom(client, group) && !this.#waiting.has(client);
    if (enters) this.#begin(client, group);
    return enters;
  }

  #leave(client: string, group: string): void {
    this.#end(client, group);
    while (this.#admitOneOfEach());
  }

  #hasRoom(client: string, group: string): boolean {
    const { atOnce, perClient, own = 0, perGroup = atOnce, more } = this.#limits;
    const running = this.#running.of(client);
    if (running < own) return true;
    if (running < perClient) return this.#total < atOnce && this.#ofGroup.of(group) < perGroup;
    return running < perClient + (more?.(client) ?? 0);
  }

  /** @returns whether the turn came in time */
  #wait(client: string, group: string, patienceMs?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting: Waiting = {
        group,
        proceed: () => {
          clearTimeout(deadline);
          resolve(true);
        },
      };
      const giveUp = () => {
        this.#remove(client, waiting);
        resolve(false);
      };
      const deadline = patienceMs === undefined ? undefined : setTimeout(giveUp, patienceMs).unref();
      addToGroup(this.#waiting, client, waiting);
    });
  }

  #remove(client: string, waiting: Waiting): void {
    const left = this.#waiting.get(client)!.filter((one) => one !== waiting);
    if (left.length > 0) this.#waiting.set(client, left);
    else this.#waiting.delete(client);
  }

  /** @returns whether there was room for any */
  #admitOneOfEach(): boolean {
    let isAnyAdmitted = false;
    for (const [client, waiting] of [...this.#waiting]) {
      const { group } = waiting[0]!;
      if (!this.#hasRoom(client, group)) continue;
      const next = waiting.shift()!;
      this.#waiting.delete(client);
      if (waiting.length > 0) this.#waiting.set(client, waiting);
      this.#begin(client, group);
      next.proceed();
      isAnyAdmitted = true;
    }
    return isAnyAdmitted;
  }

  #begin(client: string, group: string): void {
    if (this.#running.add(client, 1) <= this.#limits.perClient) this.#count(group, 1);
  }

  #end(client: string, group: string): void {
    if (this.#running.add(client, -1) < this.#limits.perClient) this.#count(group, -1);
  }

  #count(group: string, more: 1 | -1): void {
    this.#total += more;
    this.#ofGroup.add(group, more);
  }
}
