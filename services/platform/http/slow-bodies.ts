import type { IncomingMessage } from "node:http";
import { HTTP_TIMEOUTS } from "./listen.ts";

/** Looked at so often, while there are any. */
const LOOK_EVERY_MS = 1_000;
/** A body is judged once it has been read for so long. */
const JUDGED_AFTER_MS = 3_000;
/** One that comes slower than this may be ended for others: a whole one of 4 MiB takes a minute so. */
const LEAST_OCTETS_PER_SECOND = 64 * 1024;

interface Reading {
  readonly request: IncomingMessage;
  /** Since when it comes without us keeping it waiting, and the octets of its connection until then. */
  since?: { readonly ms: number; readonly octets: number } | undefined;
  isEnded?: boolean;
}

/**
 * Bodies that hold a place while they are being read. While others wait for no more than a place, those that come
 * slowest are ended with 408: a client that sends an octet now and then has no place that another needs.
 */
export class SlowBodies {
  readonly #needed: () => number;
  readonly #readings = new Set<Reading>();
  #looks: NodeJS.Timeout | undefined;

  /** @param needed places that others wait for */
  constructor(needed: () => number) {
    this.#needed = needed;
  }

  /** @param hold does what the request's place is for, and ends when its connection does */
  async watch<T>(request: IncomingMessage, hold: () => Promise<T>): Promise<T> {
    const reading: Reading = { request };
    this.#readings.add(reading);
    this.#looks ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    try {
      return await hold();
    } finally {
      this.#readings.delete(reading);
      if (this.#readings.size === 0) {
        clearInterval(this.#looks);
        this.#looks = undefined;
      }
    }
  }

  #look(): void {
    const slow: { readonly reading: Reading; readonly rate: number }[] = [];
    let leaving = 0;
    for (const reading of this.#readings) {
      if (reading.isEnded) leaving += 1;
      const rate = rateOf(reading);
      if (rate < LEAST_OCTETS_PER_SECOND && !reading.isEnded) slow.push({ reading, rate });
    }
    slow.sort((one, other) => one.rate - other.rate);
    for (const { reading } of slow.slice(0, Math.max(0, this.#needed() - leaving))) {
      reading.isEnded = true;
      endAsTooSlow(reading.request);
    }
  }
}

/** As Node does of requests that take too long: whoever listens for "clientError" answers. */
function endAsTooSlow({ socket }: IncomingMessage): void {
  socket.emit("error", Object.assign(new Error("the body comes too slowly"), { code: "ERR_HTTP_REQUEST_TIMEOUT" }));
}

/** Reads a body that is no file: also where the listener gives files more time, it has that of all requests. */
export async function readInTime<T>(
  request: IncomingMessage,
  read: () => Promise<T>,
  mostMs = HTTP_TIMEOUTS.requestMs,
): Promise<T> {
  const timer = setTimeout(() => endAsTooSlow(request), mostMs).unref();
  try {
    return await read();
  } finally {
    clearTimeout(timer);
  }
}

/** Octets a second; as many as there can be of a body that is not judged, or is there. */
function rateOf(reading: Reading): number {
  const { request } = reading;
  if (request.complete || request.readableFlowing !== true) {
    reading.since = undefined;
    return Number.POSITIVE_INFINITY;
  }
  const ms = performance.now();
  const { bytesRead: octets } = request.socket;
  reading.since ??= { ms, octets };
  const tookMs = ms - reading.since.ms;
  return tookMs < JUDGED_AFTER_MS ? Number.POSITIVE_INFINITY : ((octets - reading.since.octets) * 1_000) / tookMs;
}
