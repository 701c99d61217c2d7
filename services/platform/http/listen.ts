import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { SecureContext, TlsOptions } from "node:tls";
import type Koa from "koa";
import { bindWithPatience, formatBound } from "../bind.ts";
import { MODERN_CIPHERS, openCertificate, type ServerCertificate, TLS_SERVER } from "../certificate.ts";
import type { Config } from "../config/config.ts";
import type { HostPort } from "../config/config-values.ts";
import type { Observe } from "../observability/observation.ts";
import {
  answerBroken,
  answerBrokenHead,
  answerBrokenRequests,
  type DescribeRefusal,
  KEPT_HEADER_FIELDS,
} from "./broken-requests.ts";
import { PipelinedRequests } from "./pipelined-requests.ts";
import { endSlowReaders } from "./reading-pace.ts";
import { SlicedResponse } from "./sliced-response.ts";

export interface HttpListener {
  /** Base URL of each address, with the port in force; several parted by commas. */
  readonly url: string;
  /** The same without scheme. */
  readonly address: string;
  /** Lets running requests finish for a while, then closes. */
  close(graceMs?: number): Promise<void>;
}

const HANDSHAKE_MS = 10_000;

/** An app that words what is refused before it sees a request. */
export type HttpApp = Koa & { readonly describeRefusal?: DescribeRefusal };

/** How long a client may take, so that none holds a connection for nothing. */
export interface HttpTimeouts {
  readonly requestMs: number;
  readonly headersMs: number;
  /** Behind the least pace at which an answer is read (`endSlowReaders`). */
  readonly unreadMs: number;
  /** Between two requests. */
  readonly keepAliveMs: number;
  /** How often it is looked who has taken too long. */
  readonly checkEveryMs: number;
}

/** The time-outs in force, but for files that people upload. */
export const HTTP_TIMEOUTS: HttpTimeouts = {
  requestMs: 60_000,
  headersMs: 20_000,
  unreadMs: 60_000,
  keepAliveMs: 30_000,
  checkEveryMs: 5_000,
};

/** Those of a listener that takes such files: 256 MiB take a quarter of an hour at 2.4 Mbit a second. */
export const UPLOAD_TIMEOUTS: HttpTimeouts = { ...HTTP_TIMEOUTS, requestMs: 900_000 };

/** What a listener over HTTPS shows: its own certificate, and those of hosts that have one. */
export interface HttpsIdentity {
  readonly certificate: ServerCertificate;
  find(serverName: string): Promise<SecureContext | undefined>;
}

export interface HttpListenerOptions {
  readonly observe: Observe;
  /** `HTTP_TIMEOUTS` unless given. */
  readonly timeouts?: HttpTimeouts;
  /** Absent: in clear. */
  readonly identity?: HttpsIdentity;
}

/** Serves an app on every address of a listen value; undefined when it is `off`. */
export async function listenHttp(
  app: HttpApp,
  addresses: readonly HostPort[],
  options: HttpListenerOptions,
): Promise<HttpListener | undefined> {
  if (addresses.length === 0) return undefined;
  const { identity } = options;
  const servers: Server[] = [];
  try {
    for (const address of addresses) servers.push(await listenOn(app, address, options));
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  const bound = servers.map((server) => formatBound(server.address() as AddressInfo));
  return {
    url: bound.map((address) => `${identity ? "https" : "http"}://${address}`).join(","),
    address: bound.join(","),
    close: async (graceMs = 3_000) => {
      await Promise.all(servers.map((server) => closeServer(server, graceMs)));
    },
  };
}

/**
 * Serves an app over HTTPS, with the server's certificate (`openCertificate`); undefined when it is `off`.
 * @param options.find certificates of other hosts, where there are any
 */
export async function listenHttps(
  app: HttpApp,
  addresses: readonly HostPort[],
  {
    config,
    observe,
    find = () => Promise.resolve(undefined),
  }: { readonly config: Config; readonly observe: Observe; readonly find?: HttpsIdentity["find"] },
): Promise<HttpListener | undefined> {
  if (addresses.length === 0) return undefined;
  const certificate = await openCertificate(config, observe);
  try {
    const listener = (await listenHttp(app, addresses, { observe, identity: { certificate, find } }))!;
    return {
      ...listener,
      close: async (graceMs) => {
        await listener.close(graceMs);
        certificate.close();
      },
    };
  } catch (error) {
    certificate.close();
    throw error;
  }
}

async function listenOn(
  app: HttpApp,
  address: HostPort,
  { observe, timeouts = HTTP_TIMEOUTS, identity }: HttpListenerOptions,
): Promise<Server> {
  const { describeRefusal } = app;
  const handle = app.callback();
  const pipelined = new PipelinedRequests();
  const server = makeServer(
    identity,
    {
      ServerResponse: SlicedResponse,
      requestTimeout: timeouts.requestMs,
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      keepAliveTimeout: timeouts.keepAliveMs,
      requireHostHeader: false,
    },
    (request, response) =>
      pipelined.take(request, response, () => {
        if (!answerBrokenHead(request, response, describeRefusal)) void handle(request, response);
      }),
  );
  server.maxHeadersCount = KEPT_HEADER_FIELDS;
  endSlowReaders(server, identity ? "secureConnection" : "connection", timeouts.unreadMs);
  answerBrokenRequests(server, describeRefusal);
  server.on("checkExpectation", (request, response) =>
    pipelined.take(request, response, () => {
      if (!answerBrokenHead(request, response, describeRefusal)) answerBroken(request, response, 417, describeRefusal);
    }),
  );
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    continueWhenRead(request, response);
    server.emit("request", request, response);
  });
  await bindWithPatience(server, address);
  const listener = formatBound(server.address() as AddressInfo);
  // An error that nobody hears would end the process.
  server.on("error", (err) => observe({ kind: "http-listener-failed", level: "warn", listener, err }));
  return server;
}

/** Makes a server that speaks TLS where it has an identity: a name that nobody has a certificate for gets its own. */
function makeServer(
  identity: HttpsIdentity | undefined,
  options: Parameters<typeof createServer>[0] & object,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  if (identity === undefined) return createServer(options, handle);
  const tls: TlsOptions = {
    ...{ ...TLS_SERVER, ciphers: MODERN_CIPHERS, handshakeTimeout: HANDSHAKE_MS },
    SNICallback: (name, done) => {
      identity.find(name).then((context) => done(null, context), done);
    },
  };
  const server = createSecureServer({ ...options, ...tls, ...identity.certificate.current() }, handle);
  identity.certificate.onChange((pair) => server.setSecureContext({ ...tls, ...pair }));
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/**
 * Asks for a body with 100 when somebody begins to read it. Who is answered without has sent none, and the connection
 * ends: what would come next on it is in doubt (RFC 9110 §10.1.1).
 */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Connection", "close");
  const look = (event: string | symbol) => {
    if (event !== "data" && event !== "readable") return;
    request.off("newListener", look);
    if (response.headersSent) return;
    response.removeHeader("Connection");
    response.writeContinue();
  };
  request.on("newListener", look);
}

async function closeServer(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const force = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(force);
}
