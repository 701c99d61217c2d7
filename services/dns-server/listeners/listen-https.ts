import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import { type CertificatePair, MODERN_CIPHERS, TLS_SERVER } from "../../platform/certificate.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import { hasTooManyFields, KEPT_HEADER_FIELDS } from "../../platform/http/broken-requests.ts";
import { PipelinedRequests } from "../../platform/http/pipelined-requests.ts";
import { Client, TRANSPORT } from "../message/client.ts";
import { TCP_MESSAGE_OCTETS } from "../message/edns.ts";
import { DEFER, DROP } from "../pipeline.ts";
import { ClientConnections, listenOn, type Place } from "./client-connections.ts";
import {
  cacheControlOf,
  DNS_MEDIA_TYPE,
  type HttpsRefusal,
  MOST_QUERY_OCTETS,
  NO_ANSWER,
  NO_QUERY,
  NOT_KEPT,
  readRequestHead,
  TOO_LARGE,
  TOO_MANY_FIELDS,
} from "./https-exchange.ts";
import type { TcpListener, TcpListenerOptions } from "./listen-tcp.ts";

export interface HttpsListenerOptions extends TcpListenerOptions {
  readonly tls: CertificatePair;
}

/** RFC 9113 §9.2 asks for no less. */
const TLS_SETTINGS = { ...TLS_SERVER, ciphers: MODERN_CIPHERS } as const;

/** What one connection may have under way: with a query in each stream that is little memory. */
const HTTP2_SETTINGS = { maxConcurrentStreams: 32, maxHeaderListSize: 16_384, enablePush: false } as const;
/** Of frames and headers that wait, in MB. */
const MOST_SESSION_MEMORY = 1;

/** Opens a listener for DNS over HTTPS (RFC 8484), HTTP/2 and HTTP/1.1. Rejects when the address cannot be had. */
export async function listenHttps(address: HostPort, options: HttpsListenerOptions): Promise<TcpListener> {
  const clients = new Clients(options.limits.idleMs);
  const pipelined = new PipelinedRequests();
  const server = createSecureServer(
    {
      ...{ ...options.tls, ...TLS_SETTINGS, handshakeTimeout: options.limits.idleMs },
      ...{ allowHTTP1: true, settings: HTTP2_SETTINGS, maxSessionMemory: MOST_SESSION_MEMORY },
    },
    (request, response) => {
      const run = () => void new Exchange(request, response, options).run(clients.of(request));
      if (request.httpVersionMajor === 2) run();
      else pipelined.take(...([request, response] as unknown as [IncomingMessage, ServerResponse]), run);
    },
  );
  // Of HTTP/1.1. A stream of HTTP/2 with more than 128 is reset by Node, and no field of it is read.
  (server as typeof server & Pick<HttpServer, "maxHeadersCount">).maxHeadersCount = KEPT_HEADER_FIELDS;
  const connections = new ClientConnections(server, options.limits);
  server.on("tlsClientError", (_error: Error, socket: TLSSocket) => socket.destroy());
  server.on("session", (session: ServerHttp2Session) => {
    clients.add(session, connections.placeOf(session.socket), () => session.destroy());
    session.on("error", () => {});
    session.once("close", () => clients.remove(session));
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol === "h2") return;
    clients.add(socket, connections.placeOf(socket), () => socket.destroy());
    socket.on("error", () => {});
    socket.once("close", () => clients.remove(socket));
  });
  const port = await listenOn(server, address);
  return {
    port,
    renewCertificate: (certificate) => server.setSecureContext({ ...certificate, ...TLS_SETTINGS }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        connections.closeAll();
      }),
  };
}

/** What there is to know of a connection, while its requests come and go. */
interface Connected {
  /** Closes it for want of whole queries; nothing else puts that off. */
  readonly deadline: NodeJS.Timeout;
  /** Undefined when it is gone. */
  readonly place: Place | undefined;
}

/** The connections of all clients: sessions of HTTP/2, and sockets of HTTP/1.1. */
class Clients {
  readonly #idleMs: number;
  readonly #connected = new WeakMap<object, Connected>();

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  add(connection: object, place: Place | undefined, close: () => void): void {
    this.#connected.set(connection, { deadline: setTimeout(close, this.#idleMs), place });
  }

  of({ stream, socket }: Http2ServerRequest): Connected | undefined {
    // Requests of HTTP/1.1 come without a stream, whatever the types say.
    return this.#connected.get((stream as typeof stream | undefined)?.session ?? socket);
  }

  remove(connection: object): void {
    clearTimeout(this.#connected.get(connection)?.deadline);
  }
}

/** One request and its response. */
class Exchange {
  readonly #request: Http2ServerRequest;
  readonly #response: Http2ServerResponse;
  readonly #options: HttpsListenerOptions;
  #isClosed = false;

  constructor(request: Http2ServerRequest, response: Http2ServerResponse, options: HttpsListenerOptions) {
    this.#request = request;
    this.#response = response;
    this.#options = options;
    // A client that goes away is no affair of ours.
    request.on("error", () => {});
    response.on("error", () => {});
    response.once("close", () => {
      this.#isClosed = true;
    });
  }

  /** @param connected whose deadline an answer of DNS puts off, and whose place it keeps while it is made and sent */
  async run(connected: Connected | undefined): Promise<void> {
    const { method, url, headers, rawHeaders } = this.#request;
    if (hasTooManyFields(rawHeaders)) return this.#refuse(TOO_MANY_FIELDS);
    const head = { method, url, contentType: headers["content-type"], contentLength: headers["content-length"] };
    const query = readRequestHead(head);
    const octets = query.kind === "in-body" ? await this.#readBody() : query.kind === "query" ? query.octets : query;
    if (octets === undefined) return;
    if (!(octets instanceof Uint8Array)) return this.#refuse(octets);
    if (this.#isClosed) return;
    connected?.place?.begin();
    this.#response.once("close", () => connected?.place?.end());
    const answer = await this.#answer(octets);
    if ("kind" in answer) return this.#refuse(answer);
    this.#response.once("finish", () => connected?.deadline.refresh());
    this.#respond(200, answer.message, { "content-type": DNS_MEDIA_TYPE, "cache-control": answer.cacheControl });
  }

  /** @returns undefined when the client went away before it was whole */
  #readBody(): Promise<Uint8Array | HttpsRefusal | undefined> {
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      let octets = 0;
      this.#request.on("data", (chunk: Buffer) => {
        octets += chunk.length;
        if (octets > MOST_QUERY_OCTETS) resolve(TOO_LARGE);
        else chunks.push(chunk);
      });
      this.#request.on("end", () => resolve(Buffer.concat(chunks)));
      this.#request.on("close", () => resolve(undefined));
    });
  }

  async #answer(packet: Uint8Array): Promise<{ message: Uint8Array; cacheControl: string } | HttpsRefusal> {
    const { remoteAddress } = this.#request.socket;
    if (remoteAddress === undefined) return NO_ANSWER;
    const client = new Client(TRANSPORT.HTTPS);
    client.setAddress(remoteAddress);
    const { pipeline, authorised, nowSeconds } = this.#options;
    const length = pipeline.respond(packet, packet.length, RESPONSE, client, nowSeconds());
    if (length === DROP) return NO_QUERY;
    if (length !== DEFER) {
      const message = Uint8Array.from(RESPONSE.subarray(0, length));
      return { message, cacheControl: cacheControlOf(message) };
    }
    let message: Uint8Array | undefined;
    await authorised.answer(Uint8Array.from(packet), client, async (sent) => {
      message = sent;
      return true;
    });
    return message ? { message, cacheControl: NOT_KEPT } : NO_ANSWER;
  }

  #refuse({ status, text, headers }: HttpsRefusal): void {
    // What the client still sends is not waited for; by HTTP/1.1 it is passed over until the deadline.
    if (this.#request.httpVersionMajor === 2) this.#response.once("finish", () => this.#response.stream.close());
    this.#respond(status, Buffer.from(`${text}\n`), { "content-type": "text/plain", ...headers });
  }

  #respond(status: number, body: Uint8Array, headers: Readonly<Record<string, string>>): void {
    const fields = { ...headers, "content-length": body.length };
    const isHead = this.#request.method === "HEAD";
    if (this.#request.httpVersionMajor === 2) {
      const { stream } = this.#response;
      if (stream.destroyed) return;
      // Its own `end` has the last frame of the body end the stream; the response's sends one more for that.
      stream.respond({ ":status": status, ...fields }, { endStream: isHead });
      if (!isHead) stream.end(body);
      return;
    }
    this.#response.writeHead(status, fields);
    if (isHead) this.#response.end();
    else this.#response.end(body);
  }
}

/** Where answers are made: one at a time, on one thread. */
const RESPONSE = Buffer.alloc(TCP_MESSAGE_OCTETS);
