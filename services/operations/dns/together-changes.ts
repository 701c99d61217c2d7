import { GatheredWork } from "../../platform/gathered-work.ts";
import { type Db, isDatabaseAway, isOverLimit, isRefused } from "../../platform/postgres/db.ts";
import { holdGrowthTogether } from "../../store/dns/held-growth.ts";
import { type Addition, writeAdditions } from "../../store/dns/zone-additions.ts";
import type { WrittenChange } from "../../store/dns/zone-changes.ts";
import { type ExcerptAsk, readExcerpts, type ZoneExcerpt } from "../../store/dns/zone-excerpts.ts";

/** More names are not read together with others'. */
const MOST_NAMES = 16;

/** One at a time of each kind: what comes while it is under way has its statement in common. */
const LIMITS = { atOnce: 1, most: 64, patienceMs: 2 } as const;

/** Undefined when it was not written. */
type Written = WrittenChange | undefined;

/**
 * The statements of small changes that come at the same time, made together: a few statements and commits for all of
 * them. Each is written or refused by itself, as it would be alone.
 */
export class TogetherChanges {
  readonly #db: Db;
  readonly #reads: GatheredWork<ExcerptAsk, ZoneExcerpt | "large" | undefined>;
  readonly #writes: GatheredWork<Addition, Written>;
  readonly #growing: GatheredWork<Addition, Written>;

  constructor(db: Db) {
    this.#db = db;
    this.#reads = new GatheredWork({ ...LIMITS, run: (asks) => this.#read(asks) });
    this.#writes = new GatheredWork({ ...LIMITS, run: (additions) => this.#write(additions) });
    this.#growing = new GatheredWork({ ...LIMITS, run: (additions) => this.#grow(additions) });
  }

  /** Whether an excerpt is small enough, as far as its ask tells. */
  takes({ names, ids = [] }: ExcerptAsk): boolean {
    return names.length <= MOST_NAMES && ids.length === 0;
  }

  /** @returns "large" for what is to be read by itself */
  read(ask: ExcerptAsk): Promise<ZoneExcerpt | "large" | undefined> {
    return this.#reads.ask(ask);
  }

  /** @returns undefined when it was not written, and has to be tried by itself */
  async write(addition: Addition): Promise<WrittenChange | undefined> {
    return (await this.#writes.ask(addition)) ?? (await this.#growing.ask(addition));
  }

  async #read(asks: readonly ExcerptAsk[]): Promise<readonly (ZoneExcerpt | "large" | undefined)[]> {
    return (await unlessRefused(() => readExcerpts(this.#db, asks))) ?? asks.map(() => "large");
  }

  async #write(additions: readonly Addition[]): Promise<Written[]> {
    return (await unlessRefused(() => writeAdditions(this.#db, additions))) ?? additions.map(() => undefined);
  }

  /** Writes those whose zones did not hold what they grow by, once they do. */
  async #grow(additions: readonly Addition[]): Promise<Written[]> {
    const none = additions.map(() => undefined);
    if (additions.length === 1) return none;
    const written = await unlessRefused(async () => {
      const growing = additions.map(({ zone, growth }) => ({ zoneId: zone.id, growth }));
      const held = await holdGrowthTogether(this.#db, growing);
      return held.size > 0 ? writeAdditions(this.#db, additions) : none;
    });
    return written ?? none;
  }
}

/**
 * What PostgreSQL refuses of one, or has no time for, must not befall the others: nothing is done then, and each is tried
 * by itself.
 */
async function unlessRefused<Done>(work: () => Promise<Done>): Promise<Done | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!isRefused(error) || (isDatabaseAway(error) && !isOverLimit(error))) throw error;
    return undefined;
  }
}
