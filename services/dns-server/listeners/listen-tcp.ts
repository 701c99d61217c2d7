import { createServer, type Server, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createServer as createTlsServer, TLSSocket, Server as TlsServer } from "node:tls";
import { type CertificatePair, MODERN_CIPHERS, TLS_SERVER } from "../../platform/certificate.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import { Client, TRANSPORT } from "../message/client.ts";
import { TCP_MESSAGE_OCTETS } from "../message/edns.ts";
import { HEADER_OCTETS } from "../message/query.ts";
import { DEFER, DROP, type Pipeline } from "../pipeline.ts";
import type { AuthorisedResponder } from "../transfer/authorised-responder.ts";
import { ClientConnections, type ConnectionLimits, listenOn, type Place } from "./client-connections.ts";

/** How long a connection may stay without a whole query, in seconds (RFC 7766 §6.2.3). */
export const TCP_IDLE_SECONDS = 15;

/** What listeners of streams allow. */
export interface TcpLimits extends ConnectionLimits {
  readonly idleMs: number;
}

export const DEFAULT_TCP_LIMITS: TcpLimits = {
  idleMs: TCP_IDLE_SECONDS * 1000,
  connections: 4_000,
  connectionsPerClient: 100,
  limitLoopback: false,
};

export interface TcpListenerOptions {
  readonly pipeline: Pipeline;
  /** Answers what the pipeline defers. */
  readonly authorised: Pick<AuthorisedResponder, "answer">;
  readonly limits: TcpLimits;
  readonly nowSeconds: () => number;
  /** Certificate and key, for DNS over TLS (RFC 7858). */
  readonly tls?: CertificatePair;
}

export interface TcpListener {
  /** The port in force. */
  readonly port: number;
  /** For DNS over TLS: what connections use from now on. */
  renewCertificate(certificate: CertificatePair): void;
  stop(): Promise<void>;
}

/** RFC 7858 §3.2. */
const TLS_SETTINGS = { ...TLS_SERVER, ciphers: MODERN_CIPHERS, ALPNProtocols: ["dot"] } as const;
/** Octets of the length before each message (RFC 1035 §4.2.2). */
const LENGTH_OCTETS = 2;
/** A client that does not read its answers gets no more of them than this. */
const MAX_UNREAD_OCTETS = 256 * 1024;

/** Opens a listener for DNS over TCP or TLS. Rejects when the address cannot be had. */
export async function listenTcp(address: HostPort, options: TcpListenerOptions): Promise<TcpListener> {
  const accept = (socket: Socket) => {
    // One over the limit has been destroyed already, and one that its client has left has no address any more.
    if (socket.destroyed || socket.remoteAddress === undefined) socket.destroy();
    else new Connection(socket, socket.remoteAddress, options, connections.placeOf(socket));
  };
  // The client may close its side once it has asked, and still gets its answers.
  const server: Server = options.tls
    ? createTlsServer(
        { ...options.tls, ...TLS_SETTINGS, allowHalfOpen: true, handshakeTimeout: options.limits.idleMs },
        accept,
      )
    : createServer({ allowHalfOpen: true, noDelay: true }, accept);
  const connections = new ClientConnections(server, options.limits);
  // A failed handshake is the client's affair. One that was never finished leaves its socket behind.
  server.on("tlsClientError", (_error: Error, socket: Socket) => socket.destroy());
  const port = await listenOn(server, address);
  return {
    port,
    renewCertificate: (certificate) => {
      if (server instanceof TlsServer) server.setSecureContext({ ...certificate, ...TLS_SETTINGS });
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        connections.closeAll();
      }),
  };
}

/** One connection: takes messages out of the stream and answers each as it comes (RFC 7766 §6.2.1). */
class Connection {
  readonly #client: Client;
  readonly #socket: Socket;
  readonly #options: TcpListenerOptions;
  readonly #place: Place | undefined;
  readonly #deadline: NodeJS.Timeout;
  /** What came and is no whole message yet. */
  #received: Buffer = EMPTY;
  #ended = false;
  /** An answer that comes in parts is under way: queries behind it wait. */
  #isBusy = false;

  constructor(socket: Socket, remoteAddress: string, options: TcpListenerOptions, place: Place | undefined) {
    this.#socket = socket;
    this.#place = place;
    this.#options = options;
    this.#client = new Client(options.tls ? TRANSPORT.TLS : TRANSPORT.TCP);
    this.#client.setAddress(remoteAddress);
    this.#client.mayTransfer = !(socket instanceof TLSSocket) || socket.getProtocol() !== "TLSv1.2";
    // Only whole queries put it off: a client that sends octet by octet is closed all the same.
    this.#deadline = setTimeout(() => this.#close(), options.limits.idleMs);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("drain", () => this.#answerAll());
    socket.on("end", () => this.#end());
    socket.on("error", () => this.#close());
    socket.once("close", () => clearTimeout(this.#deadline));
  }

  #close(): void {
    clearTimeout(this.#deadline);
    this.#received = EMPTY;
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    this.#answerAll();
  }

  /** Answers the whole messages that are there, as long as the client reads what it gets. */
  #answerAll(): void {
    let position = 0;
    const received = this.#received;
    while (position + LENGTH_OCTETS <= received.length && !this.#mustWait) {
      const length = received.readUInt16BE(position);
      // No query is that short: whoever sends it wants to hold the connection.
      if (length < HEADER_OCTETS) {
        this.#close();
        return;
      }
      if (position + LENGTH_OCTETS + length > received.length) break;
      position += LENGTH_OCTETS;
      if (!this.#answer(received.subarray(position, position + length))) {
        this.#close();
        return;
      }
      position += length;
      this.#deadline.refresh();
    }
    this.#received = received.subarray(position);
    this.#pauseOrResume();
    if (this.#ended && !this.#mustWait) this.#socket.end();
  }

  #answer(query: Buffer): boolean {
    const { pipeline, nowSeconds } = this.#options;
    const length = pipeline.respond(query, query.length, RESPONSE_MESSAGE, this.#client, nowSeconds());
    if (length === DROP) return false;
    if (length === DEFER) {
      void this.#answerDeferred(Uint8Array.from(query));
      return true;
    }
    RESPONSE.writeUInt16BE(length, 0);
    // Length and message in one write (RFC 7766 §8); copied, as the next answer goes into the same octets.
    this.#write(Buffer.from(RESPONSE.subarray(0, LENGTH_OCTETS + length)));
    return true;
  }

  async #answerDeferred(query: Uint8Array): Promise<void> {
    this.#isBusy = true;
    this.#place?.begin();
    const isWhole = await this.#options.authorised.answer(query, this.#client, (message) => this.#send(message));
    this.#isBusy = false;
    this.#place?.end();
    if (isWhole) this.#answerAll();
    else this.#close();
  }

  /** Sends one message of several; resolves when the next may come, to false when the client is gone. */
  async #send(message: Uint8Array): Promise<boolean> {
    if (this.#socket.destroyed) return false;
    const framed = Buffer.allocUnsafe(LENGTH_OCTETS + message.length);
    framed.writeUInt16BE(message.length, 0);
    framed.set(message, LENGTH_OCTETS);
    // A client that has stopped reading is closed in time, as it puts the deadline off no more.
    this.#deadline.refresh();
    this.#write(framed);
    if (this.#socket.writableLength < MAX_UNREAD_OCTETS) await nextTurn();
    else await drained(this.#socket);
    return !this.#socket.destroyed;
  }

  /** The connection keeps its place until the system has taken the octets. */
  #write(octets: Buffer): void {
    this.#place?.begin();
    this.#socket.write(octets, this.#written);
  }

  readonly #written = () => this.#place?.end();

  /** Whether the queries that are there must wait. */
  get #mustWait(): boolean {
    return this.#isBusy || this.#socket.writableLength >= MAX_UNREAD_OCTETS;
  }

  #pauseOrResume(): void {
    if (this.#mustWait) this.#socket.pause();
    else if (this.#socket.isPaused()) this.#socket.resume();
  }

  #end(): void {
    this.#ended = true;
    this.#answerAll();
  }
}

/** Resolves when the socket takes more, or is gone. */
function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      socket.off("drain", settle);
      socket.off("close", settle);
      resolve();
    };
    socket.on("drain", settle);
    socket.on("close", settle);
  });
}

const EMPTY = Buffer.alloc(0);
/** Where answers are made: one at a time, on one thread. */
const RESPONSE = Buffer.alloc(LENGTH_OCTETS + TCP_MESSAGE_OCTETS);
const RESPONSE_MESSAGE = RESPONSE.subarray(LENGTH_OCTETS);
