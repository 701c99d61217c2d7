import type pg from "pg";
import { measureZones } from "../../store/dns/large-zones.ts";
import { inSnapshot } from "../../store/dns/published-zones.ts";
import { readZones, type ZoneState, type ZoneSummary } from "../../store/dns/zone-states.ts";
import type { ZonePublisher } from "./zone-publisher.ts";

/** More zones than that are small ones, and are loaded together. */
const MANY_ZONES = 1_000;

export interface LargeZoneLoadsOptions {
  readonly publisher: ZonePublisher;
  readonly openConnection: () => Promise<pg.Client>;
  /** Told of zones whose new version is answered from now on. */
  readonly onPublished: (zones: readonly ZoneState[], startedMs: number) => void;
  /** Resolves when what was replaced or given up is free, as far as readers let it. */
  readonly collected: () => Promise<void>;
  /** Told once that loading has failed; what was being loaded is released, and nothing more is taken on. */
  readonly onFailed: (error: Error) => void;
}

/**
 * Loads zones that take long over a connection of its own, so that changes of others need not wait for them: one at a
 * time, the smallest first. What changes in them meanwhile comes in a round of its own, behind.
 */
export class LargeZoneLoads {
  readonly #options: LargeZoneLoadsOptions;
  readonly #waiting = new Set<number>();
  /** About how large those that wait are, as far as somebody wanted to know. */
  readonly #octets = new Map<number, number>();
  #client: pg.Client | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: LargeZoneLoadsOptions) {
    this.#options = options;
  }

  /** Whether there are zones that the zone database does not have as it should. */
  get isBusy(): boolean {
    return this.#running !== undefined;
  }

  /** Takes on zones, which are held back until they are published. */
  add(zones: readonly ZoneSummary[]): void {
    if (zones.length === 0 || this.#stopped) return;
    const ids = zones.map(({ id }) => id);
    this.#options.publisher.standings.holdBack(ids);
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
      this.#options.publisher.standings.release(this.#waiting);
      this.#running = undefined;
    }
  }

  async #loadWaiting(): Promise<void> {
    const { publisher } = this.#options;
    const startedMs = performance.now();
    const client = await this.#connected();
    const ids = await this.#next(client);
    for (const id of ids) {
      this.#waiting.delete(id);
      this.#octets.delete(id);
    }
    try {
      // What the snapshot shows is what counts, whatever happened before.
      publisher.standings.holdBack(ids);
      const published = await inSnapshot(client, () =>
        publisher.publishHeldBack(client, ids, () => readZones(client, [...ids])),
      );
      this.#options.onPublished(published, startedMs);
      await this.#options.collected();
    } finally {
      publisher.standings.release([...ids].filter((id) => !this.#waiting.has(id)));
    }
  }

  /** The smallest of the zones that wait; all where they are many, or only one. */
  async #next(client: pg.Client): Promise<ReadonlySet<number>> {
    if (this.#waiting.size === 1 || this.#waiting.size > MANY_ZONES) return new Set(this.#waiting);
    const unknown = [...this.#waiting].filter((id) => !this.#octets.has(id));
    if (unknown.length > 0)
      for (const [id, octets] of await measureZones(client, unknown)) this.#octets.set(id, octets);
    const [smallest] = [...this.#waiting].sort((a, b) => this.#octets.get(a)! - this.#octets.get(b)!);
    return new Set([smallest!]);
  }

  /** The connection, which stays open for what comes later. */
  async #connected(): Promise<pg.Client> {
    this.#client ??= await this.#options.openConnection();
    if (!this.#stopped) return this.#client;
    await this.#client.end().catch(() => {});
    throw new Error("stopped while it connected");
  }
}
