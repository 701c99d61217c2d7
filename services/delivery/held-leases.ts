import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { WakeUp } from "../platform/wake-up.ts";
import { listHeldDestinations } from "../store/mail/queue/queue-destinations.ts";
import { extendLeases, type PartitionKey } from "../store/mail/queue/queue-leases.ts";
import { acknowledgeStops, findStops } from "../store/mail/queue/queue-stops.ts";
import { eachPlace } from "./each-place.ts";

interface HeldLeasesOptions {
  readonly db: Db;
  readonly workerId: string;
  readonly leaseSeconds: number;
  /** Instances of partitions whose lanes have ended and which are not given back yet, by the partition's id. */
  readonly unreleased: () => ReadonlyMap<number, number>;
  readonly observe: Observe;
}

/** A lane stops this long before its lease ends: what it has just begun must end within it. */
const LEASE_MARGIN_MS = 5_000;
/** Leases are prolonged so many times within their term. */
const TIMES_A_TERM = 4;

/** When leases were asked for, as {@link HeldLeases} has it. */
interface LeaseRequestMark {
  readonly askedAtMs: number;
  readonly stopNotices: number;
}

/**
 * A worker's leases of partitions, until their lanes are done: prolonged in time, and watched for stops. A worker that
 * cannot prolong them stops sending before they end.
 */
export class HeldLeases {
  readonly #options: HeldLeasesOptions;
  /** Until when each is certain, by `performance.now()`. */
  readonly #leases = new Map<number, { readonly instanceId: number; untilMs: number }>();
  /** Partitions of which no further message may begin. */
  readonly #stopped = new Set<number>();
  /** Notices of stops that have come: what was leased meanwhile is asked for as well. */
  #stopNotices = 0;
  readonly #end = new WakeUp();
  #ending = false;

  constructor(options: HeldLeasesOptions) {
    this.#options = options;
  }

  /** To be called before leases are asked for. */
  mark(): LeaseRequestMark {
    return { askedAtMs: performance.now(), stopNotices: this.#stopNotices };
  }

  /** Takes leases that were asked for after the mark. */
  async add(partitions: readonly PartitionKey[], { askedAtMs, stopNotices }: LeaseRequestMark): Promise<void> {
    for (const { id, instanceId } of partitions) {
      this.#leases.set(id, { instanceId, untilMs: askedAtMs + this.#certainMs });
    }
    if (this.#stopNotices > stopNotices) await this.heedStops();
  }

  /** Its lane is done, or will not begin: the lease is left to end. */
  drop(partitionId: number): void {
    this.#leases.delete(partitionId);
    this.#stopped.delete(partitionId);
  }

  /** Whether a message of the partition may begin. */
  mayLeave(partitionId: number): boolean {
    const untilMs = this.#leases.get(partitionId)?.untilMs ?? 0;
    return performance.now() < untilMs && !this.#ending && !this.#stopped.has(partitionId);
  }

  /** A batch or a destination may have been stopped: its lanes begin no further message, and the database is told so. */
  async heedStops(): Promise<void> {
    const { db, workerId, observe } = this.#options;
    this.#stopNotices += 1;
    try {
      const instances = [...new Set([...this.#leases.values()].map(({ instanceId }) => instanceId))];
      if (instances.length === 0) return;
      const held = await listHeldDestinations(db);
      const keys = instances.map((instanceId) => ({ instanceId }));
      await eachPlace(db, keys, async (own) => {
        const ids = own.map(({ instanceId }) => instanceId);
        const stopped = await findStops(db, workerId, ids, held);
        for (const { id } of stopped) this.#stopped.add(id);
        if (stopped.length > 0) await acknowledgeStops(db, workerId, stopped);
      });
    } catch (error) {
      observe({ kind: "stops-not-read", level: "warn", err: error }); // asked again with the next lease
    }
  }

  /** Prolongs the leases well before they end, until {@link end}. */
  async keep(): Promise<void> {
    const { leaseSeconds, observe } = this.#options;
    while (!this.#ending) {
      try {
        await this.#prolong();
      } catch (error) {
        observe({ kind: "leases-not-prolonged", level: "warn", err: error });
      }
      await this.#end.wait((leaseSeconds * 1000) / TIMES_A_TERM);
    }
  }

  /** No message begins any more. */
  end(): void {
    this.#ending = true;
    this.#end.ring();
  }

  /** For so long after it was asked for a lease is certain. */
  get #certainMs(): number {
    return this.#options.leaseSeconds * 1000 - LEASE_MARGIN_MS;
  }

  async #prolong(): Promise<void> {
    const { db, workerId, leaseSeconds, unreleased } = this.#options;
    const known = new Map([...this.#leases].map(([id, { instanceId }]) => [id, instanceId] as const));
    for (const [id, instanceId] of unreleased()) known.set(id, instanceId);
    const untilMs = performance.now() + this.#certainMs;
    const partitions = [...known].map(([id, instanceId]) => ({ instanceId, id }));
    try {
      await eachPlace(db, partitions, async (own) => {
        const held = new Set(await extendLeases(db, workerId, leaseSeconds, own));
        for (const { id } of own) {
          const lease = this.#leases.get(id);
          if (lease !== undefined) lease.untilMs = held.has(id) ? untilMs : 0;
        }
      });
    } finally {
      await this.heedStops();
    }
  }
}
