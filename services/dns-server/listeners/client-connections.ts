import type { Server, Socket } from "node:net";
import { ConnectionCounts } from "../../platform/connection-counts.ts";

/** How many connections there may be; loopback clients are exempt from the limit for each client. */
export interface ConnectionLimits {
  /** In all. */
  readonly connections: number;
  /** From one IPv4 address, or one IPv6 /64. */
  readonly connectionsPerClient: number;
  readonly limitLoopback: boolean;
}

/** For so long a connection that never asked anything is spared, where another one that did is idle: its client may be slow. */
const FIRST_QUERY_MS = 5_000;
/** For so long a connection is spared over which answers are made or sent without a rest: its client may not read them. */
const RESTLESS_MS = 5_000;

/** What a connection is known by on both sides of its handshake, where it is two sockets. */
type Ends = Pick<Socket, "remoteAddress" | "remotePort" | "localAddress">;

/**
 * Keeps a listener's open connections within the limits, before a handshake of TLS begins. To be set up before anybody
 * else listens to the server's `connection` event: a socket over the limit is destroyed there. Where all that there may
 * be are open, a new one takes the place of the one that has been idle longest (RFC 7766 §6.2.3), those that never asked
 * anything first; where none is idle, of one that answers have been under way over for `RESTLESS_MS`: clients that read none
 * would keep everybody else out.
 */
export class ClientConnections {
  readonly #open = new Map<string, Place>();
  readonly #counts: ConnectionCounts;
  readonly #most: number;
  readonly #waiting: Waiting = { silent: new Set(), idle: new Set(), busy: new Set() };

  constructor(server: Server, limits: ConnectionLimits) {
    this.#counts = new ConnectionCounts(limits.connectionsPerClient, limits.limitLoopback);
    this.#most = limits.connections;
    server.prependListener("connection", (socket) => this.#admit(socket));
  }

  /** @returns undefined when the connection is gone */
  placeOf(socket: Ends): Place | undefined {
    return this.#open.get(keyOf(socket));
  }

  closeAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  #admit(socket: Socket): void {
    const { remoteAddress } = socket;
    // Gone already.
    if (remoteAddress === undefined) {
      socket.destroy();
      return;
    }
    if (this.#counts.enter(socket, remoteAddress) > 0 || !this.#makeRoom()) {
      this.#counts.leave(socket);
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    const place = new Place(socket, this.#waiting);
    this.#open.set(key, place);
    socket.once("close", () => {
      place.leave();
      if (this.#open.get(key) === place) this.#open.delete(key);
      this.#counts.leave(socket);
    });
  }

  /** @returns whether there is room for one more */
  #makeRoom(): boolean {
    const { silent, idle, busy } = this.#waiting;
    if (this.#open.size < this.#most) return true;
    const [oldest] = silent;
    const [idlest] = idle;
    const [restless] = busy;
    const now = performance.now();
    const isLate = oldest !== undefined && now - oldest.sinceMs >= FIRST_QUERY_MS;
    const isRestless = restless !== undefined && now - restless.busySinceMs >= RESTLESS_MS;
    const given = isLate ? oldest : (idlest ?? (isRestless ? restless : oldest));
    if (!given) return false;
    given.leave();
    this.#open.delete(keyOf(given.socket));
    given.socket.destroy();
    return true;
  }
}

/** Connections that could make room, each set in the order in which they came into it. */
interface Waiting {
  /** Nothing was asked over them yet. */
  readonly silent: Set<Place>;
  /** All that was asked over them is answered. */
  readonly idle: Set<Place>;
  /** Something is under way over them all the time since they came into it. */
  readonly busy: Set<Place>;
}

/** One connection among all that there may be. What is under way over it has others closed before it. */
export class Place {
  readonly socket: Socket;
  /** When the connection came, by `performance.now()`. */
  readonly sinceMs = performance.now();
  /** When something was last begun while nothing was under way. */
  busySinceMs = 0;
  readonly #waiting: Waiting;
  #underWay = 0;
  #isGone = false;

  constructor(socket: Socket, waiting: Waiting) {
    this.socket = socket;
    this.#waiting = waiting;
    waiting.silent.add(this);
  }

  /** A whole query has come, or something of an answer is being sent. */
  begin(): void {
    this.#underWay += 1;
    if (this.#underWay > 1 || this.#isGone) return;
    this.#waiting.silent.delete(this);
    this.#waiting.idle.delete(this);
    this.#waiting.busy.add(this);
    this.busySinceMs = performance.now();
  }

  /** To be called once for each {@link begin}. */
  end(): void {
    this.#underWay -= 1;
    if (this.#underWay > 0 || this.#isGone) return;
    this.#waiting.busy.delete(this);
    this.#waiting.idle.add(this);
  }

  /** The connection is gone, or as good as gone. */
  leave(): void {
    this.#isGone = true;
    for (const places of Object.values(this.#waiting)) places.delete(this);
  }
}

function keyOf({ remoteAddress, remotePort, localAddress }: Ends): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** Begins to listen; rejects when the address cannot be had. @returns the port in force */
export function listenOn(server: Server, { host, port }: { readonly host: string; readonly port: number }) {
  return new Promise<number>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, ipv6Only: true }, () => {
      server.off("error", reject);
      // Such as running out of file descriptors while accepting: the listener stays.
      server.on("error", () => {});
      resolve((server.address() as { port: number }).port);
    });
  });
}
