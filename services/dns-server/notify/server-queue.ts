import type { NotifyPolicy } from "./policy.ts";

/** A zone's newest version, as servers are told of it. */
export interface ZoneNews {
  /** Key of the apex (`DomainName.key`). */
  readonly zone: string;
  readonly apex: Uint8Array;
  readonly soaTtlSeconds: number;
  readonly soaRdata: Uint8Array;
}

/** Sends once, and says whether the server has acknowledged within the time. Never rejects. */
export type Tell = (news: ZoneNews, timeoutMs: number) => Promise<boolean>;

/**
 * What one server is still to be told. Of each zone only the newest version counts: what changes while it is under way
 * goes out as one more (RFC 1996 §3.6, §4.4).
 */
export class ServerQueue {
  readonly #tell: Tell;
  readonly #policy: NotifyPolicy;
  readonly #onGivenUp: (news: ZoneNews) => void;
  /** By zone, oldest first. */
  readonly #waiting = new Map<string, ZoneNews>();
  readonly #busy = new Set<string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #stopped = false;

  constructor(tell: Tell, policy: NotifyPolicy, onGivenUp: (news: ZoneNews) => void) {
    this.#tell = tell;
    this.#policy = policy;
    this.#onGivenUp = onGivenUp;
  }

  /** Nothing is left to be told. */
  get isIdle(): boolean {
    return this.#waiting.size === 0 && this.#busy.size === 0;
  }

  add(news: ZoneNews): void {
    this.#waiting.set(news.zone, news);
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.clear();
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #next(): void {
    for (const [zone, news] of this.#waiting) {
      if (this.#stopped || this.#busy.size >= this.#policy.inFlightPerServer) return;
      if (this.#busy.has(zone)) continue;
      this.#waiting.delete(zone);
      this.#busy.add(zone);
      void this.#deliver(news);
    }
  }

  async #deliver(news: ZoneNews): Promise<void> {
    const acknowledged = await this.#tellUntilAcknowledged(news);
    if (!acknowledged && !this.#stopped && !this.#waiting.has(news.zone)) this.#onGivenUp(news);
    await this.#rest();
    this.#busy.delete(news.zone);
    this.#next();
  }

  /** @returns true as well when newer news have come that take the place of these */
  async #tellUntilAcknowledged(news: ZoneNews): Promise<boolean> {
    for (const seconds of this.#policy.waitSeconds) {
      if (this.#stopped) return false;
      if (await this.#tell(news, seconds * 1000)) return true;
      if (this.#waiting.has(news.zone)) return true;
    }
    return false;
  }

  #rest(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        resolve();
      }, this.#policy.restMs);
      this.#timers.add(timer);
    });
  }
}
