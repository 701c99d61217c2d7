import { setTimeout as sleep } from "node:timers/promises";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { notifyZones } from "../store/dns/zone-notices.ts";

/** Between two notices, in ms: each is a transaction of its own, which costs a tenth of a change and more. */
const GATHER_MS = 20;

/**
 * Hastens the readers of zones after a change is committed: at once when all is quiet, else what has gathered since the
 * last notice, so that a burst of changes costs few of them. One that fails is no loss: readers poll as well.
 */
export class ZoneAnnouncer {
  readonly #db: Db;
  readonly #observe: Observe;
  #waiting = new Set<number>();
  #sending: Promise<void> | undefined;

  constructor(db: Db, observe: Observe) {
    this.#db = db;
    this.#observe = observe;
  }

  announce(zoneIds: readonly number[]): void {
    if (zoneIds.length === 0) return;
    for (const id of zoneIds) this.#waiting.add(id);
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  /** Resolves when nothing is left to announce. */
  async drained(): Promise<void> {
    await this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      const zoneIds = [...this.#waiting];
      this.#waiting = new Set();
      try {
        await notifyZones(this.#db, zoneIds);
      } catch (err) {
        this.#observe({ kind: "zone-notice-failed", level: "warn", err });
      }
      await sleep(GATHER_MS);
    }
  }
}
