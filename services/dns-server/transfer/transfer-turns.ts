import { Counts } from "../../core/counts.ts";
import { sourceOf } from "../../platform/lookups/address-blocks.ts";
import type { Client } from "../message/client.ts";

/** How many transfers go at a time, and how many wait. */
export interface TurnLimits {
  /** To a client, which is an IPv4 address or an IPv6 /64. */
  readonly ofClient: number;
  /** By the ACLs of a reseller. */
  readonly ofReseller: number;
  /** So many more of a client wait, and for so long. */
  readonly waitingOfClient: number;
  readonly patienceMs: number;
}

/** A secondary takes few zones at a time. Who has waited in vain is told so before its connection is closed as idle. */
const DEFAULT_TURN_LIMITS: TurnLimits = {
  ofClient: 10,
  ofReseller: 20,
  waitingOfClient: 250,
  patienceMs: 10_000,
};

/** Over UDP the answer is one message: what it takes is the database's. Anybody can give a secondary's address. */
export const DATAGRAM_TURN_LIMITS: TurnLimits = {
  ofClient: 2,
  ofReseller: 4,
  waitingOfClient: 20,
  patienceMs: 2_000,
};

/**
 * Has transfers take turns. One that goes keeps what it reads in the zone database and has a list of the zone's names,
 * for as long as its client likes: so each client, and each reseller with all of its clients, has a few.
 */
export class TransferTurns {
  readonly #limits: TurnLimits;
  /** Transfers that go: of clients and of resellers. */
  readonly #ofClient = new Counts<string>();
  readonly #ofReseller = new Counts<string>();
  /** The first to come is the first whose turn it is, as far as there is room for it. */
  readonly #waiting = new Set<Waiting>();
  readonly #waitingOf = new Counts<string>();

  constructor(limits: TurnLimits = DEFAULT_TURN_LIMITS) {
    this.#limits = limits;
  }

  /**
   * Waits for a turn.
   * @param resellerId whose ACL allows the transfer
   * @returns what ends the turn; undefined when it did not come in time, or too many wait for it
   */
  async take(client: Client, resellerId: string): Promise<(() => void) | undefined> {
    const turn: Turn = { client: sourceOf(client.addressText), resellerId };
    if (this.#isFree(turn)) return this.#begin(turn);
    if (this.#waitingOf.of(turn.client) >= this.#limits.waitingOfClient) return undefined;
    return new Promise((resolve) => {
      const leave = () => {
        clearTimeout(deadline);
        this.#waiting.delete(waiting);
        this.#waitingOf.add(turn.client, -1);
      };
      const begin = () => {
        leave();
        resolve(this.#begin(turn));
      };
      const giveUp = () => {
        leave();
        resolve(undefined);
      };
      const waiting: Waiting = { turn, begin };
      const deadline = setTimeout(giveUp, this.#limits.patienceMs).unref();
      this.#waiting.add(waiting);
      this.#waitingOf.add(turn.client, 1);
    });
  }

  #isFree({ client, resellerId }: Turn): boolean {
    const { ofClient, ofReseller } = this.#limits;
    return this.#ofClient.of(client) < ofClient && this.#ofReseller.of(resellerId) < ofReseller;
  }

  #begin(turn: Turn): () => void {
    this.#count(turn, 1);
    return () => {
      this.#count(turn, -1);
      for (const { turn: next, begin } of this.#waiting) if (this.#isFree(next)) begin();
    };
  }

  #count({ client, resellerId }: Turn, more: number): void {
    this.#ofClient.add(client, more);
    this.#ofReseller.add(resellerId, more);
  }
}

interface Turn {
  readonly client: string;
  readonly resellerId: string;
}

interface Waiting {
  readonly turn: Turn;
  readonly begin: () => void;
}
