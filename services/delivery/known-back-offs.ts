import type { Db } from "../platform/postgres/db.ts";
import { ANY_POOL, ANY_SOURCE, lotOf, splitLot } from "../store/mail/queue/lease-partitions.ts";
import { readBackOffs } from "../store/mail/queue/queue-backoffs.ts";

/** They are read again after so long: one that is not known yet costs a needless attempt, no more. */
const READ_AGAIN_MS = 500;
/** Of one statement; what comes after them has its turn later. */
const MOST_BARRED = 500;

/** What is passed over of an instance's lots. */
export interface BarredLots {
  /** Lots, and with the pool `*` destinations. */
  readonly barred: readonly string[];
  /** What is barred of destinations from this one on is not given; '' for no end. */
  readonly before: string;
}

/** Sources in back-off at destinations, of all workers: what one look at the queue passes over. */
export class KnownBackOffs {
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  readonly #nowMs: () => number;
  /** By destination and source, until when. */
  #until = new Map<string, Map<string, number>>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #barred: readonly string[] = [];
  #isBarred: ReadonlySet<string> = new Set();
  /** When `read` was last called. */
  atMs = Number.NEGATIVE_INFINITY;
  /** When something was found to be barred no longer. */
  freedAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param sources where the mail of each pool leaves from; '' is the default pool
   * @param nowMs a monotonic clock; it is that of all times here
   */
  constructor(sources: ReadonlyMap<string, readonly string[]>, nowMs: () => number) {
    this.#sources = sources;
    this.#nowMs = nowMs;
  }

  /** They may have changed. */
  forget(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Has what is known be of now. @param held destinations that nobody turns to */
  async read(db: Db, held: readonly string[]): Promise<void> {
    const nowMs = this.#nowMs();
    this.atMs = nowMs;
    if (nowMs - this.#readAtMs >= READ_AGAIN_MS) {
      const rows = await readBackOffs(db);
      this.#readAtMs = nowMs;
      this.#until = new Map();
      for (const { destination, source, seconds } of rows) {
        const own = this.#until.get(destination) ?? new Map<string, number>();
        this.#until.set(destination, own.set(source, nowMs + seconds * 1000));
      }
    }
    const lots = [...this.#until.keys()].flatMap((destination) => this.#barredOf(destination, nowMs));
    const isBarred = new Set([...lots, ...held.map((destination) => lotOf(destination, ANY_POOL))]);
    if (this.#barred.some((lot) => !isBarred.has(lot))) this.freedAtMs = nowMs;
    this.#isBarred = isBarred;
    this.#barred = [...isBarred].sort();
  }

  #barredOf(destination: string, nowMs: number): string[] {
    const resting = this.resting(destination, nowMs);
    if (resting.has(ANY_SOURCE)) return [lotOf(destination, ANY_POOL)];
    const pools = [...this.#sources].filter(([, own]) => own.length > 0 && own.every((source) => resting.has(source)));
    return pools.map(([pool]) => lotOf(destination, pool));
  }

  /** Whether nothing of a lot is to leave now. */
  isBarred(lot: string): boolean {
    return this.#isBarred.has(lot) || this.#isBarred.has(lotOf(splitLot(lot).destination, ANY_POOL));
  }

  /** Those from a lot on, as many as one statement takes. */
  barredFrom(lot: string): BarredLots {
    const { destination } = splitLot(lot);
    const first = this.#barred.findIndex((each) => each >= destination);
    if (first < 0) return { barred: [], before: "" };
    const next = this.#barred[first + MOST_BARRED];
    return {
      barred: this.#barred.slice(first, first + MOST_BARRED),
      before: next === undefined ? "" : splitLot(next).destination,
    };
  }

  /** Sources in back-off at a destination, with the seconds for which they stay so. */
  resting(destination: string, nowMs = this.#nowMs()): ReadonlyMap<string, number> {
    const own = [...(this.#until.get(destination) ?? [])].filter(([, untilMs]) => untilMs > nowMs);
    return new Map(own.map(([source, untilMs]) => [source, (untilMs - nowMs) / 1000]));
  }
}
