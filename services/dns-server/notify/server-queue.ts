import { setTimeout as sleep } from "node:timers/promises";
import { formatDomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import type { NotifyPolicy } from "./policy.ts";

/** A zone's newest version, as servers are told of it. */
export interface ZoneNews {
  /** Key of the apex (`DomainName.key`). */
  readonly zone: string;
  readonly apex: Uint8Array;
  readonly soaTtlSeconds: number;
  readonly soaRdata: Uint8Array;
}

/** The zone's name as observations have it. */
export function nameOfNews({ apex }: ZoneNews): string {
  return formatDomainName(nameFromStoredWire(apex));
}

/**
 * Sends once, and says whether the server has acknowledged within the time, or before the signal ends the waiting.
 * Never rejects.
 */
export type Tell = (news: ZoneNews, timeoutMs: number, signal: AbortSignal) => Promise<boolean>;

/** Who hears how it goes. */
export interface ServerQueueEvents {
  /** The server was told of a zone as often as it is told, and has not acknowledged it. */
  givenUp(news: ZoneNews): void;
  /** There is nothing left to tell. */
  idle(): void;
}

/**
 * What one server is still to be told. Of each zone only the newest version counts: what changes while it is under way
 * goes out as one more (RFC 1996 §3.6, §4.4).
 */
export class ServerQueue {
  readonly #tell: Tell;
  readonly #policy: NotifyPolicy;
  readonly #events: ServerQueueEvents;
  /** By zone. */
  readonly #waiting = new Map<string, ZoneNews>();
  /** Zones that wait and are not being told of, oldest first from `#head` on: there may be millions after a start. */
  #turns: string[] = [];
  #head = 0;
  /** Zones being told of; the controller ends the waiting for an acknowledgement. */
  readonly #busy = new Map<string, AbortController>();
  /** Of those, the ones that are not resting. */
  #inFlight = 0;
  #stopped = false;

  constructor(tell: Tell, policy: NotifyPolicy, events: ServerQueueEvents) {
    this.#tell = tell;
    this.#policy = policy;
    this.#events = events;
  }

  add(news: ZoneNews): void {
    const isKnown = this.#waiting.has(news.zone);
    this.#waiting.set(news.zone, news);
    const busy = this.#busy.get(news.zone);
    // Whoever has not answered yet need not hear of the older version again.
    if (busy) busy.abort();
    else if (!isKnown) this.#turns.push(news.zone);
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.clear();
    this.#turns = [];
    this.#head = 0;
    for (const controller of this.#busy.values()) controller.abort();
  }

  #next(): void {
    while (!this.#stopped && this.#inFlight < this.#policy.inFlightPerServer && this.#head < this.#turns.length) {
      const zone = this.#takeTurn();
      const news = this.#waiting.get(zone)!;
      this.#waiting.delete(zone);
      const controller = new AbortController();
      this.#busy.set(zone, controller);
      this.#inFlight += 1;
      void this.#deliver(news, controller.signal);
    }
  }

  #takeTurn(): string {
    const zone = this.#turns[this.#head++]!;
    // What has been taken is let go of now and then, so that a turn costs the same however many wait.
    if (this.#head * 2 >= this.#turns.length) {
      this.#turns = this.#turns.slice(this.#head);
      this.#head = 0;
    }
    return zone;
  }

  async #deliver(news: ZoneNews, signal: AbortSignal): Promise<void> {
    const acknowledged = await this.#tellUntilAcknowledged(news, signal);
    this.#inFlight -= 1;
    this.#next();
    if (!acknowledged && !signal.aborted) this.#events.givenUp(news);
    if (!this.#stopped) await sleep(this.#policy.restMs, undefined, { ref: false });
    this.#busy.delete(news.zone);
    if (this.#waiting.has(news.zone)) this.#turns.push(news.zone);
    this.#next();
    if (this.#busy.size === 0) this.#events.idle();
  }

  async #tellUntilAcknowledged(news: ZoneNews, signal: AbortSignal): Promise<boolean> {
    for (const seconds of this.#policy.waitSeconds) {
      if (await this.#tell(news, seconds * 1000, signal)) return true;
      if (signal.aborted) return false;
    }
    return false;
  }
}
