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

/**
 * Keeps a listener's open connections within the limits, before a handshake of TLS begins. To be set up before anybody
 * else listens to the server's `connection` event: a socket over the limit is destroyed there.
 */
export class ClientConnections {
  readonly #open = new Set<Socket>();
  readonly #counts: ConnectionCounts;

  constructor(server: Server, limits: ConnectionLimits) {
    this.#counts = new ConnectionCounts(limits.connectionsPerClient, limits.limitLoopback);
    server.maxConnections = limits.connections;
    server.prependListener("connection", (socket) => this.#admit(socket));
  }

  closeAll(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #admit(socket: Socket): void {
    const { remoteAddress } = socket;
    // Gone already.
    if (remoteAddress === undefined) {
      socket.destroy();
      return;
    }
    if (this.#counts.enter(socket, remoteAddress) > 0) {
      this.#counts.leave(socket);
      socket.destroy();
      return;
    }
    this.#open.add(socket);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#counts.leave(socket);
    });
  }
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
