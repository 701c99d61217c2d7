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
        const client = openClient(url);
        while (performance.now() < end) {
          const sentAt = performance.now();
          await send(client, make(count++));
          if (sentAt >= warmUntil) times.push(performance.now() - sentAt);
        }
        await client.close();
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
