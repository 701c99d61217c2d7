import type { Socket } from "node:net";
import { Counts } from "../core/counts.ts";
import { isLoopback, sourceOf } from "./lookups/address-blocks.ts";

/** How many connections each client has: an IPv4 address, or an IPv6 /64. */
export class ConnectionCounts {
  readonly #most: number;
  readonly #limitLoopback: boolean;
  readonly #open = new Counts<string>();
  /** What is counted, and for which client. */
  readonly #counted = new WeakMap<Socket, string>();

  /** @param most what one client may have, loopback only with `limitLoopback` */
  constructor(most: number, limitLoopback: boolean) {
    this.#most = most;
    this.#limitLoopback = limitLoopback;
  }

  /** Counts one more. @returns by how many its client is beyond its share with it */
  enter(counted: Socket, address: string): number {
    const source = sourceOf(address);
    const open = this.#open.add(source, 1);
    this.#counted.set(counted, source);
    const exempt = !this.#limitLoopback && isLoopback(address);
    return exempt ? 0 : Math.max(0, open - this.#most);
  }

  /** Counts one less, once. */
  leave(counted: Socket): void {
    const source = this.#counted.get(counted);
    if (source === undefined) return;
    this.#counted.delete(counted);
    this.#open.add(source, -1);
  }
}
