import { Counts } from "../../core/counts.ts";

/** What somebody took is half forgotten after this. */
const HALF_LIFE_MS = 10_000;
/** Less than this is nothing. */
const LEAST_MS = 1;

/** Work of somebody that waits. */
export interface Waiting {
  /** Whose it is. */
  readonly company: number | null;
  /** The company's. */
  readonly reseller: string | null;
  /** Since when; ms since the epoch. */
  readonly sinceMs: number;
}

type Whose = Pick<Waiting, "company" | "reseller">;

/** Turns that may be under way. */
export interface MostTurns {
  readonly ofCompany: number;
  readonly ofReseller: number;
}

/**
 * Whose turn it is, where resellers share what one process can do, and their companies what is theirs: the reseller's that took
 * least time lately, and of it the company's that did, of those that have less than so many turns under way. So who has much
 * to do waits for itself, however many companies it is made of.
 */
export class LeastServedTurns {
  readonly #most: MostTurns;
  readonly #nowMs: () => number;
  /** By reseller, and by company. */
  readonly #tookMs = new Map<string | number, number>();
  readonly #underWay = new Counts<string | number>();
  #countedAtMs: number;

  /** @param nowMs a clock that only goes forward */
  constructor(most: MostTurns, nowMs: () => number) {
    this.#most = most;
    this.#nowMs = nowMs;
    this.#countedAtMs = nowMs();
  }

  /** Takes the one that is to be next out of those that wait; undefined when all that wait have their turns under way. */
  next<Work extends Waiting>(waiting: Work[]): Work | undefined {
    let best = -1;
    for (const [index, work] of waiting.entries()) {
      if (!this.#hasRoom(work)) continue;
      if (best < 0 || this.#isBefore(work, waiting[best]!)) best = index;
    }
    return best < 0 ? undefined : waiting.splice(best, 1)[0];
  }

  /** Does what one turn is for, and counts what it took. */
  async run(whose: Whose, work: () => Promise<void>): Promise<void> {
    const from = this.#nowMs();
    const keys = keysOf(whose);
    for (const key of keys) this.#underWay.add(key, 1);
    try {
      await work();
    } finally {
      this.#forget();
      const took = this.#nowMs() - from;
      for (const key of keys) {
        this.#underWay.add(key, -1);
        this.#tookMs.set(key, (this.#tookMs.get(key) ?? 0) + took);
      }
    }
  }

  #hasRoom(whose: Whose): boolean {
    const [reseller, company] = keysOf(whose);
    return this.#underWay.of(reseller) < this.#most.ofReseller && this.#underWay.of(company) < this.#most.ofCompany;
  }

  #isBefore(a: Waiting, b: Waiting): boolean {
    for (const level of [0, 1] as const) {
      const [ofA, ofB] = [a, b].map((one) => this.#tookMs.get(keysOf(one)[level]) ?? 0) as [number, number];
      if (ofA !== ofB) return ofA < ofB;
    }
    return a.sinceMs < b.sinceMs;
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

function keysOf({ reseller, company }: Whose): readonly [reseller: string, company: number] {
  return [reseller ?? "", company ?? 0];
}
