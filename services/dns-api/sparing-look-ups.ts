import { recentMap } from "../core/recent-map.ts";
import type { LookUpDs } from "../platform/lookups/ds-lookup.ts";

/** After so many look-ups in a row that nobody answered, or late, whoever they are for is left alone for a while. */
const SILENCES = 5;
const LATE_MS = 1_000;
const REST_MS = 60_000;
/** Companies whose look-ups went wrong and are remembered. */
const MOST_REMEMBERED = 10_000;

/**
 * Look-ups of DS for the zones of many companies. The parents of one that do not answer hold up its own zones, and nobody
 * else's for long.
 */
export class SparingLookUps {
  readonly #lookUpDs: LookUpDs;
  readonly #companies = recentMap<number | null, { silences: number; restUntilMs: number }>(MOST_REMEMBERED);

  constructor(lookUpDs: LookUpDs) {
    this.#lookUpDs = lookUpDs;
  }

  /** @returns undefined while those of the company rest */
  of(companyId: number | null): LookUpDs | undefined {
    if (performance.now() < (this.#companies.get(companyId)?.restUntilMs ?? 0)) return undefined;
    return async (name) => {
      const askedAtMs = performance.now();
      const found = await this.#lookUpDs(name);
      this.#note(companyId, found !== undefined && performance.now() < askedAtMs + LATE_MS);
      return found;
    };
  }

  #note(companyId: number | null, isWell: boolean): void {
    if (isWell) {
      this.#companies.delete(companyId);
      return;
    }
    const silences = (this.#companies.get(companyId)?.silences ?? 0) + 1;
    const rests = silences >= SILENCES;
    const restUntilMs = rests ? performance.now() + REST_MS : 0;
    this.#companies.set(companyId, { silences: rests ? 0 : silences, restUntilMs });
  }
}
