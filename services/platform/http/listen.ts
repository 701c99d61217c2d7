import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { SecureContext, TlsOptions } from "node:tls";
import type Koa from "koa";
import { MODERN_CIPHERS, openCertificate, type ServerCertificate } from "../certificate.ts";
import type { Config } from "../config/config.ts";
import type { HostPort } from "../config/config-values.ts";
import type { Observe } from "../observability/observation.ts";
import { answerBrokenHost, answerBrokenRequests, type DescribeRefusal } from "./broken-requests.ts";

export interface HttpListener {
  /** Base URL of the first address, with the port in force. */
  readonly url: string;
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
  /** Without taking anything of an answer that is there for it. */
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

/** Serves an app on every address of a listen value; undefined when it is `off`. @param identity absent: in clear */
export async function listenHttp(
  app: HttpApp,
  addresses: readonly HostPort[],
  timeouts: HttpTimeouts = HTTP_TIMEOUTS,
  identity?: HttpsIdentity,
): Promise<HttpListener | undefined> {
  if (addresses.length === 0) return undefined;
  const servers: Server[] = [];
  try {
    for (const address of addresses) servers.push(await listenOn(app, address, timeouts, identity));
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return {
    url: `${identity ? "https" : "http"}://${formatBound(servers[0]!.address() as AddressInfo)}`,
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
    const { url, close } = (await listenHttp(app, addresses, HTTP_TIMEOUTS, { certificate, find }))!;
    return {
      url,
      close: async (graceMs) => {
        await close(graceMs);
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
  timeouts: HttpTimeouts,
  identity: HttpsIdentity | undefined,
): Promise<Server> {
  const { describeRefusal } = app;
  const handle = app.callback();
  const server = makeServer(
    identity,
    {
      requestTimeout: timeouts.requestMs,
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      keepAliveTimeout: timeouts.keepAliveMs,
      requireHostHeader: false,
    },
    (request, response) => {
      endWhenUnread(response, timeouts.unreadMs);
      if (!answerBrokenHost(request, response, describeRefusal)) void handle(request, response);
    },
  );
  answerBrokenRequests(server, describeRefusal);
  await bindWithPatience(server, address);
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
    ...{ minVersion: "TLSv1.2", ciphers: MODERN_CIPHERS, handshakeTimeout: HANDSHAKE_MS },
    SNICallback: (name, done) => {
      identity.find(name).then((context) => done(null, context), done);
    },
  };
  const server = createSecureServer({ ...options, ...tls, ...identity.certificate.current() }, handle);
  identity.certificate.onChange((pair) => server.setSecureContext({ ...tls, ...pair }));
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/** An answer of which nothing leaves is given up with its connection; one that is still being made may take its time. */
function endWhenUnread(response: ServerResponse, unreadMs: number): void {
  response.setTimeout(unreadMs, () => {
    if (response.socket !== null && response.socket.writableLength > 0) response.socket.destroy();
  });
}

/** What `listen` and its events of node's servers have in common. */
interface Bindable {
  listen(options: HostPort): unknown;
  once(event: "error" | "listening", listener: (error: Error) => void): unknown;
  off(event: "error" | "listening", listener: (error: Error) => void): unknown;
}

/** An address of the configuration that cannot be had. */
export class CannotListen extends Error {
  readonly address: HostPort;

  constructor(address: HostPort, cause: Error) {
    super(`cannot listen on ${formatBound({ address: address.host, port: address.port })}: ${cause.message}`, {
      cause,
    });
    this.address = address;
  }
}

/** A port that a predecessor is just giving up is waited for; one that stays taken is an error that names it. */
export async function bindWithPatience(server: Bindable, address: HostPort, patienceMs = 3_000): Promise<void> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    try {
      return await bind(server, address);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE" || Date.now() > deadline) {
        throw new CannotListen(address, error as Error);
      }
    }
    await sleep(100);
  }
}

function bind(server: Bindable, address: HostPort): Promise<void> {
  return new Promise((resolve, reject) => {
    const listening = () => {
      server.off("error", failed);
      resolve();
    };
    const failed = (error: Error) => {
      server.off("listening", listening);
      reject(error);
    };
    server.once("error", failed);
    server.once("listening", listening);
    server.listen(address);
  });
}

export function formatBound({ address, port }: { address: string; port: number }): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

async function closeServer(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const force = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(force);
}
