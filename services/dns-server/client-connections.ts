import type { Server, Socket } from "node:net";
import { sourceOf } from "../platform/address-blocks.ts";
import { Client } from "./client.ts";

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
  readonly #limits: ConnectionLimits;
  readonly #open = new Set<Socket>();
  readonly #perClient = new Map<string, number>();

  constructor(server: Server, limits: ConnectionLimits) {
    this.#limits = limits;
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
    const client = new Client();
    client.setAddress(remoteAddress);
    const source = sourceOf(remoteAddress);
    const open = (this.#perClient.get(source) ?? 0) + 1;
    const isLimited = this.#limits.limitLoopback || !client.isLoopback;
    if (isLimited && open > this.#limits.connectionsPerClient) {
      socket.destroy();
      return;
    }
    this.#open.add(socket);
    this.#perClient.set(source, open);
    socket.once("close", () => {
      this.#open.delete(socket);
      const left = (this.#perClient.get(source) ?? 1) - 1;
      if (left === 0) this.#perClient.delete(source);
      else this.#perClient.set(source, left);
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
