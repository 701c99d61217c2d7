import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { Client } from "undici";
import { percentile } from "./percentile.ts";

/** One request, as it goes out. */
export interface BenchRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH";
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** Clients of one kind; each sends one request after the other over a connection of its own. */
export interface Clients {
  readonly clients: number;
  /** @param count numbers the requests of all clients of this kind from 0 */
  make(count: number): BenchRequest;
}

/** What became of the requests of one kind. */
export interface Load {
  /** Requests in all, those of the warming up included. */
  readonly all: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Lets clients of some kinds work beside each other for some seconds, after one to warm up. */
export function load(url: string, seconds: number, kinds: readonly Clients[]): Promise<Load[]> {
  const warmUntil = performance.now() + 1_000;
  const end = warmUntil + seconds * 1_000;
  return Promise.all(
    kinds.map(async ({ clients, make }) => {
      let count = 0;
      const times: number[] = [];
      const run = async () => {
        const client = new SparingClient(url);
        while (performance.now() < end) {
          const sentAt = performance.now();
          await client.send(make(count++));
          if (sentAt >= warmUntil) times.push(performance.now() - sentAt);
        }
        client.close();
      };
      await Promise.all(Array.from({ length: clients }, run));
      return {
        all: count,
        perSecond: times.length / seconds,
        p50Ms: percentile(times, 50),
        p99Ms: percentile(times, 99),
      };
    }),
  );
}

const END_OF_HEAD = "\r\n\r\n";
const END_OF_CHUNKS = "\r\n0\r\n\r\n";

/**
 * Asks for one thing after the other, over one connection as long as the server keeps it, and looks at the status alone. The
 * clients are on the machine that is measured: what they take, the API and its database have not.
 */
class SparingClient {
  readonly #url: URL;
  #socket: Socket | undefined;
  #received = "";
  #waiting: { resolve(): void; reject(error: Error): void } | undefined;

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** Rejects with an answer that is no success. */
  send({ method, path, headers, body = "" }: BenchRequest): Promise<void> {
    const own = { Host: this.#url.host, "Content-Length": String(Buffer.byteLength(body)) };
    const fields = Object.entries({ ...headers, ...own });
    const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket ??= this.#connect();
      this.#socket.write(`${method} ${path} HTTP/1.1\r\n${head}\r\n${body}`);
    });
  }

  close(): void {
    this.#waiting = undefined;
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  #connect(): Socket {
    const { protocol, hostname, port } = this.#url;
    const where = { host: hostname, port: Number(port), rejectUnauthorized: false };
    const socket = protocol === "https:" ? connectTls(where) : connect(where);
    const fail = (error: Error) => {
      if (socket !== this.#socket) return;
      this.#socket = undefined;
      this.#waiting?.reject(error);
    };
    socket.setNoDelay();
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#receive(text));
    socket.on("error", fail);
    socket.on("close", () => fail(new Error("the connection was closed")));
    return socket;
  }

  #receive(text: string): void {
    this.#received += text;
    const headEnd = this.#received.indexOf(END_OF_HEAD);
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const length = /^HTTP\/1\.1 204/.test(head) ? "0" : /^content-length: (\d+)/im.exec(head)?.[1];
    const isWhole =
      length === undefined
        ? this.#received.endsWith(END_OF_CHUNKS)
        : this.#received.length >= headEnd + END_OF_HEAD.length + Number(length);
    if (!isWhole) return;
    const answer = this.#received;
    this.#received = "";
    const asked = this.#waiting;
    if (/^connection: close/im.test(head)) this.close();
    if (/^HTTP\/1\.1 2/.test(answer)) asked?.resolve();
    else asked?.reject(new Error(answer));
  }
}

/** A connection to an API; over HTTPS its certificate is self-signed. */
export function openClient(url: string): Client {
  return new Client(url, { connect: { rejectUnauthorized: false } });
}

/** @returns the answer's body; an answer that is no success ends the benchmark */
export async function send(client: Client, { method, path, headers, body }: BenchRequest): Promise<string> {
  const response = await client.request({ method, path, headers, body: body ?? null });
  const text = await response.body.text();
  if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`);
  return text;
}
