import { GatheredWork } from "../../platform/gathered-work.ts";
import { type Db, isDatabaseAway } from "../../platform/postgres/db.ts";
import { type Addition, writeAdditions } from "../../store/dns/zone-additions.ts";
import { type WrittenChange, writeZoneChange } from "../../store/dns/zone-changes.ts";
import { type ExcerptAsk, readExcerpt, readExcerpts, type ZoneExcerpt } from "../../store/dns/zone-excerpts.ts";

/** Of whoever reads more names, an excerpt is read by itself. */
const MOST_NAMES = 16;

/** While one run commits, another may be prepared. */
const LIMITS = { atOnce: 2, most: 64 } as const;

/**
 * The statements of small changes that come at the same time, made together: a few statements and commits for all of
 * them. Each is written or refused by itself, exactly as it would be alone.
 */
export class TogetherChanges {
  readonly #db: Db;
  readonly #reads: GatheredWork<ExcerptAsk, ZoneExcerpt | undefined>;
  readonly #writes: GatheredWork<Addition, WrittenChange | undefined>;

  constructor(db: Db) {
    this.#db = db;
    this.#reads = new GatheredWork({ ...LIMITS, run: (asks) => this.#read(asks) });
    this.#writes = new GatheredWork({ ...LIMITS, run: (additions) => this.#write(additions) });
  }

  read(ask: ExcerptAsk): Promise<ZoneExcerpt | undefined> {
    return ask.names.length <= MOST_NAMES ? this.#reads.ask(ask) : readExcerpt(this.#db, ask, ask.names, []);
  }

  /** @returns undefined when it was not written, and has to be tried by itself */
  write(addition: Addition): Promise<WrittenChange | undefined> {
    return this.#writes.ask(addition);
  }

  async #read(asks: readonly ExcerptAsk[]): Promise<(ZoneExcerpt | undefined)[]> {
    const [only, ...others] = asks as [ExcerptAsk, ...ExcerptAsk[]];
    return others.length === 0 ? [await readExcerpt(this.#db, only, only.names, [])] : readExcerpts(this.#db, asks);
  }

  async #write(additions: readonly Addition[]): Promise<(WrittenChange | undefined)[]> {
    const [only, ...others] = additions as [Addition, ...Addition[]];
    if (others.length === 0) {
      const { zone, change, actor, growth } = only;
      return [await writeZoneChange(this.#db, zone, change, { actor, growth, withinHeld: true })];
    }
    try {
      return await writeAdditions(this.#db, additions);
    } catch (error) {
      // What PostgreSQL refuses of one must not befall the others: each is tried by itself.
      if (isDatabaseAway(error) || !isRefused(error)) throw error;
      return additions.map(() => undefined);
    }
  }
}

/** Whether PostgreSQL has answered with an error: then nothing was written. */
function isRefused(error: unknown): boolean {
  return typeof (error as { code?: unknown }).code === "string" && "severity" in (error as object);
}
