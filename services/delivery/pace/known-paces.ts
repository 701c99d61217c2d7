import { recentMap } from "../../core/recent-map.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listLimited, paceName } from "../../store/mail/pace/source-paces.ts";
import { listWarming } from "../../store/mail/pace/warm-ups.ts";
import { isSettled, makeEntry, type PaceEntry } from "./pace-entry.ts";

/** What was not used for so long is no longer asked about. */
const IDLE_MS = 60_000;
/** Sources at providers that are remembered; half of the number at least. */
const MOST_ENTRIES = 20_000;

/** Sources at providers, as far as a worker knows them. Times are the keeper's. */
export class KnownPaces {
  readonly #configuredPerHour: (provider: string) => number | null;
  readonly #entries = recentMap<string, PaceEntry>(MOST_ENTRIES);
  /** Those that are limited, which are never forgotten while they are used. */
  readonly #limited = new Map<string, PaceEntry>();
  /** Limited by what others learnt: to be asked about before the first message. */
  #known: ReadonlySet<string> = new Set();
  /** Sources that are new, and send by a plan. */
  #warming: ReadonlySet<string> = new Set();

  /** @param configuredPerHour messages an hour of one source; null: as fast as it goes */
  constructor(configuredPerHour: (provider: string) => number | null) {
    this.#configuredPerHour = configuredPerHour;
  }

  /** Reads what others, and those before, have learnt. @param timeMs the present where it is not the database's */
  async read(db: Db, timeMs: number | undefined): Promise<void> {
    const [limited, warming] = await Promise.all([listLimited(db), listWarming(db, timeMs)]);
    this.#known = new Set(limited.map(paceName));
    const before = this.#warming;
    this.#warming = new Set(warming);
    // Whose plan was ended has to wait for no day any more: the database says for what.
    for (const entry of this.#limited.values()) {
      if (before.has(entry.source) && !this.isWarming(entry.source)) {
        entry.waitsUntilMs = 0;
        entry.nextAtMs = 0;
      }
    }
    for (const name of this.#known) {
      const entry = this.#entries.get(name);
      if (entry !== undefined && !entry.isLimited) this.limit(entry);
    }
    if (warming.length === 0) return;
    for (const entry of this.#entries.values()) {
      if (!entry.isLimited && this.isWarming(entry.source)) this.limit(entry);
    }
  }

  of(source: string, provider: string, nowMs: number): PaceEntry {
    const name = paceName({ source, provider });
    let entry = this.#limited.get(name) ?? this.#entries.get(name);
    if (entry === undefined) {
      entry = makeEntry({ source, provider }, this.#configuredPerHour(provider), nowMs);
      this.#entries.set(name, entry);
      if (entry.isLimited || this.#known.has(name) || this.isWarming(source)) this.limit(entry);
    }
    entry.usedAtMs = nowMs;
    return entry;
  }

  /** @returns undefined where nothing is limited */
  limitedOf(source: string, provider: string): PaceEntry | undefined {
    return this.#limited.get(paceName({ source, provider }));
  }

  get limited(): readonly PaceEntry[] {
    return [...this.#limited.values()];
  }

  /** Who waits for long asks now and then: an operator may have ended it. */
  doubtWaits(longerThanMs: number): void {
    for (const entry of this.#limited.values()) entry.isDoubtful ||= entry.waitsUntilMs > longerThanMs;
  }

  limit(entry: PaceEntry): void {
    entry.isLimited = true;
    this.#limited.set(paceName(entry), entry);
  }

  /** Nothing is limited any more. */
  release(entry: PaceEntry): void {
    entry.isLimited = false;
    this.#limited.delete(paceName(entry));
  }

  forgetIdle(nowMs: number): void {
    for (const [name, entry] of this.#limited) {
      if (nowMs - entry.usedAtMs < IDLE_MS || entry.sessions > 0 || !isSettled(entry)) continue;
      this.#limited.delete(name);
      this.#entries.delete(name);
    }
  }

  get isAnyWarming(): boolean {
    return this.#warming.size > 0;
  }

  isWarming(source: string): boolean {
    return this.#warming.has(source);
  }

  /** Whether messages from there go by a plan: at a provider where that is over they do not. */
  isPlanned({ source, grant }: PaceEntry): boolean {
    return this.isWarming(source) && (grant === undefined || grant.warmUp !== undefined);
  }
}
