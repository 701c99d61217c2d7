import { Counts } from "../../core/counts.ts";

/** What somebody took is half forgotten after this. */
const HALF_LIFE_MS = 10_000;
/** Less than this is nothing. */
const LEAST_MS = 1;

/** Work of somebody that waits. */
export interface Waiting {
  /** Whose it is. */
  readonly company: number | null;
  /** Since when; ms since the epoch. */
  readonly sinceMs: number;
}

/**
 * Whose turn it is, where companies share what one process can do: the company's that took least time lately, of those that
 * have less than so many turns under way. So who has much to do waits for itself.
 */
export class FairTurns {
  readonly #mostAtOnce: number;
  readonly #nowMs: () => number;
  readonly #tookMs = new Map<number | null, number>();
  readonly #underWay = new Counts<number | null>();
  #countedAtMs: number;

  /** @param nowMs a clock that only goes forward */
  constructor(mostAtOnce: number, nowMs: () => number) {
    this.#mostAtOnce = mostAtOnce;
    this.#nowMs = nowMs;
    this.#countedAtMs = nowMs();
  }

  /** Takes the one that is to be next out of those that wait; undefined when all that wait have their turns under way. */
  next<Work extends Waiting>(waiting: Work[]): Work | undefined {
    let best = -1;
    for (const [index, work] of waiting.entries()) {
      if (this.#underWay.of(work.company) >= this.#mostAtOnce) continue;
      if (best < 0 || this.#isBefore(work, waiting[best]!)) best = index;
    }
    return best < 0 ? undefined : waiting.splice(best, 1)[0];
  }

  /** Does what one turn is for, and counts what it took. */
  async run(company: number | null, work: () => Promise<void>): Promise<void> {
    const from = this.#nowMs();
    this.#underWay.add(company, 1);
    try {
      await work();
    } finally {
      this.#underWay.add(company, -1);
      this.#forget();
      this.#tookMs.set(company, (this.#tookMs.get(company) ?? 0) + this.#nowMs() - from);
    }
  }

  #isBefore(a: Waiting, b: Waiting): boolean {
    const [ofA, ofB] = [a, b].map(({ company }) => this.#tookMs.get(company) ?? 0) as [number, number];
    return ofA === ofB ? a.sinceMs < b.sinceMs : ofA < ofB;
  }

  #forget(): void {
    const now = this.#nowMs();
    const left = 0.5 ** ((now - this.#countedAtMs) / HALF_LIFE_MS);
    this.#countedAtMs = now;
    for (const [company, took] of this.#tookMs) {
      if (took * left < LEAST_MS) this.#tookMs.delete(company);
      else this.#tookMs.set(company, took * left);
    }
  }
}
