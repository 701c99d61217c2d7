import { isLoopback } from "./http/limits.ts";
import { sourceOf } from "./lookups/address-blocks.ts";

/** How many connections each client has: an IPv4 address, or an IPv6 /64. */
export class ConnectionCounts {
  readonly #most: number;
  readonly #limitLoopback: boolean;
  readonly #open = new Map<string, number>();
  /** What is counted (a socket, or a session), and by how many its client was beyond its share then. */
  readonly #counted = new WeakMap<object, { readonly source: string; readonly excess: number }>();

  /** @param most what one client may have, loopback only with `limitLoopback` */
  constructor(most: number, limitLoopback: boolean) {
    this.#most = most;
    this.#limitLoopback = limitLoopback;
  }

  /** Counts one more. @returns by how many its client is beyond its share with it */
  enter(counted: object, address: string): number {
    const source = sourceOf(address);
    const open = (this.#open.get(source) ?? 0) + 1;
    this.#open.set(source, open);
    const exempt = !this.#limitLoopback && isLoopback(address);
    const excess = exempt ? 0 : Math.max(0, open - this.#most);
    this.#counted.set(counted, { source, excess });
    return excess;
  }

  /** Whether it came when its client had its share already. */
  isInExcess(counted: object): boolean {
    return (this.#counted.get(counted)?.excess ?? 0) > 0;
  }

  /** Counts one less, once. */
  leave(counted: object): void {
    const source = this.#counted.get(counted)?.source;
    if (source === undefined) return;
    this.#counted.delete(counted);
    const open = this.#open.get(source)! - 1;
    if (open > 0) this.#open.set(source, open);
    else this.#open.delete(source);
  }
}
