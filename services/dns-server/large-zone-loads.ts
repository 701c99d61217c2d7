import type pg from "pg";
import { inSnapshot, readChangedZones, type ZoneState } from "../store/dns/published-zones.ts";
import type { ZonePublisher } from "./zone-publisher.ts";

export interface LargeZoneLoadsOptions {
  readonly publisher: ZonePublisher;
  readonly openConnection: () => Promise<pg.Client>;
  /** Told of zones whose new version is answered from now on. */
  readonly onPublished: (zones: readonly ZoneState[], startedMs: number) => void;
  /** Told once that loading has failed; what was being loaded is released, and nothing more is taken on. */
  readonly onFailed: (error: Error) => void;
}

/**
 * Loads zones that take long over a connection of its own, so that changes of others need not wait for them. What
 * changes in them meanwhile comes in a round of its own, behind.
 */
export class LargeZoneLoads {
  readonly #options: LargeZoneLoadsOptions;
  /** Zones that wait, and the snapshot since which the first of them has changed; see `readChangedZones`. */
  readonly #waiting = new Set<number>();
  #sinceXid = "";
  #client: pg.Client | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: LargeZoneLoadsOptions) {
    this.#options = options;
  }

  /** Whether there are zones that the picture does not have as it should. */
  get isBusy(): boolean {
    return this.#running !== undefined;
  }

  /**
   * Takes on zones, which are held back until they are published.
   * @param sinceXid the xmin of a snapshot before their change
   */
  add(zones: readonly ZoneState[], sinceXid: string): void {
    if (zones.length === 0 || this.#stopped) return;
    if (this.#waiting.size === 0) this.#sinceXid = sinceXid;
    const ids = zones.map(({ id }) => id);
    this.#options.publisher.holdBack(ids);
    for (const id of ids) this.#waiting.add(id);
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#client?.end().catch(() => {});
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      while (this.#waiting.size > 0 && !this.#stopped) await this.#loadWaiting();
    } catch (error) {
      if (!this.#stopped) this.#options.onFailed(error as Error);
      this.#stopped = true;
    } finally {
      this.#options.publisher.release(this.#waiting);
      this.#running = undefined;
    }
  }

  async #loadWaiting(): Promise<void> {
    const { publisher } = this.#options;
    const startedMs = performance.now();
    const ids = new Set(this.#waiting);
    const sinceXid = this.#sinceXid;
    this.#waiting.clear();
    try {
      const client = await this.#connected();
      // What the snapshot shows is what counts, whatever happened before.
      publisher.holdBack(ids);
      const published = await inSnapshot(client, () =>
        publisher.publishHeldBack(client, ids, () => readChangedZones(client, sinceXid)),
      );
      this.#options.onPublished(published, startedMs);
    } finally {
      publisher.release([...ids].filter((id) => !this.#waiting.has(id)));
    }
  }

  /** The connection, which stays open for what comes later. */
  async #connected(): Promise<pg.Client> {
    this.#client ??= await this.#options.openConnection();
    if (!this.#stopped) return this.#client;
    await this.#client.end().catch(() => {});
    throw new Error("stopped while it connected");
  }
}
