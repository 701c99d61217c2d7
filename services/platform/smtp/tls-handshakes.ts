import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { MODERN_CIPHERS, type ServerCertificate, TLS_SERVER } from "../certificate.ts";

export interface TlsHandshakeOptions {
  readonly certificate: ServerCertificate;
  readonly modernCiphersOnly: boolean;
  /** For a handshake, from its beginning to its end. */
  readonly handshakeMs: number;
  onFailure(error: Error): void;
}

/**
 * Secures connections that were accepted in clear: each is injected into a TLS server that does not listen itself, as
 * node documents for its `connection` event.
 */
export class TlsHandshakes {
  readonly #server: Server;
  readonly #waiting = new Map<string, (secured: TLSSocket) => void>();

  constructor({ certificate, modernCiphersOnly, handshakeMs, onFailure }: TlsHandshakeOptions) {
    const context = { ...TLS_SERVER, ...(modernCiphersOnly ? { ciphers: MODERN_CIPHERS } : {}) };
    this.#server = createServer({ ...certificate.current(), ...context, handshakeTimeout: handshakeMs });
    certificate.onChange((pair) => this.#server.setSecureContext({ ...pair, ...context }));
    this.#server.on("secureConnection", (secured) => {
      const done = this.#waiting.get(endsOf(secured));
      if (done) done(secured);
      else secured.destroy();
    });
    this.#server.on("tlsClientError", (error, secured) => {
      onFailure(error);
      secured.destroy();
    });
  }

  /** Calls `done` when the handshake has succeeded; otherwise the socket is closed. */
  secure(socket: Socket, done: (secured: TLSSocket) => void): void {
    const ends = endsOf(socket);
    this.#waiting.set(ends, done);
    socket.once("close", () => {
      if (this.#waiting.get(ends) === done) this.#waiting.delete(ends);
    });
    this.#server.emit("connection", socket);
  }
}

/** The addresses and ports of a connection: no two that are open have the same. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
