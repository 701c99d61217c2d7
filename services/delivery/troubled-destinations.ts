import { ANY_SOURCE } from "../core/mail/queue/destination-queue.ts";
import { nextAttempt, type RetrySchedule } from "../core/mail/retry.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { backOffDestination, endBackOffs } from "../store/mail/queue/queue-backoffs.ts";

interface TroubledDestinationsOptions {
  readonly db: Db;
  readonly schedule: RetrySchedule;
  /** The longest that a destination is left alone. */
  readonly mostBackOffSeconds: number;
  readonly random: () => number;
  readonly observe: Observe;
}

/** What a destination refused. */
interface DestinationRefusal {
  readonly sources: readonly string[];
  readonly words: string;
  /** The only one whom it may concern, unless others are refused as well; undefined: it concerns all. */
  readonly recipient: string | undefined;
}

/**
 * Recipients who are refused one after another, with nobody accepted between them, before it is the destination that is in
 * trouble: as many in one list may be gone, full or greylisted.
 */
export const MOST_IN_DOUBT = 5;

/** Destinations in back-off that are remembered; of a forgotten one the back-off ends by itself. */
const MOST_REMEMBERED = 10_000;

/** Puts destinations into back-off for sources of ours, and takes them out of it when they take mail again. */
export class TroubledDestinations {
  readonly #options: TroubledDestinationsOptions;
  /** Sources in back-off, with their destinations, as far as this worker knows. */
  readonly #troubled = recentMap<string, true>(MOST_REMEMBERED);
  /** By destination and source: the recipients who were refused, with nobody accepted since. */
  readonly #refused = recentMap<string, Set<string>>(MOST_REMEMBERED);

  constructor(options: TroubledDestinationsOptions) {
    this.#options = options;
  }

  /** The destination took mail of a source. */
  noteAccepted(destination: string, source: string): void {
    this.#refused.delete(at(destination, source));
    this.#store(this.#endBackOff(destination, source));
  }

  /**
   * The destination refused these sources, as far as is known.
   * @returns those that are in trouble there: others need not be tried from them now
   */
  noteRefused(destination: string, { sources, words, recipient }: DestinationRefusal): readonly string[] {
    if (recipient !== undefined) for (const source of sources) this.#noteInDoubt(at(destination, source), recipient);
    // The destination says so itself, or so many recipients were refused.
    const isInTrouble = (source: string) =>
      recipient === undefined || (this.#refused.get(at(destination, source))?.size ?? 0) >= MOST_IN_DOUBT;
    const inTrouble = sources.filter(isInTrouble);
    // After the back-off others are tried, as many again.
    for (const source of inTrouble) this.#refused.delete(at(destination, source));
    if (inTrouble.length > 0) this.#store(this.#backOff(destination, inTrouble, words));
    return inTrouble;
  }

  #noteInDoubt(key: string, recipient: string): void {
    const refused = this.#refused.get(key) ?? new Set();
    this.#refused.set(key, refused.add(recipient));
  }

  /** A back-off that is not stored costs a needless attempt, no more. */
  #store(change: Promise<void> | undefined): void {
    change?.catch((error: unknown) =>
      this.#options.observe({ kind: "back-off-not-stored", level: "warn", err: error }),
    );
  }

  #endBackOff(destination: string, source: string): Promise<void> | undefined {
    const sources = [source, ANY_SOURCE];
    const ended = sources.map((each) => at(destination, each)).filter((key) => this.#troubled.has(key));
    for (const key of ended) this.#troubled.delete(key);
    return ended.length === 0 ? undefined : endBackOffs(this.#options.db, destination, sources);
  }

  async #backOff(destination: string, sources: readonly string[], reason: string): Promise<void> {
    const { db, schedule, mostBackOffSeconds, random } = this.#options;
    for (const source of sources) this.#troubled.set(at(destination, source), true);
    const seconds = Math.min(nextAttempt(1, schedule, random) / 1000, mostBackOffSeconds);
    await backOffDestination(db, destination, { sources, seconds, reason });
  }
}

/** A source of ours at a destination. */
function at(destination: string, source: string): string {
  return `${destination} ${source}`;
}
