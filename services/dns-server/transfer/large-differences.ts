import { Counts } from "../../core/counts.ts";

/** Large differences that are held at a time: each has up to a hundred MiB until it has gone out. */
const MOST = 6;
const MOST_OF_RESELLER = 2;

/** How many large differences are being sent. Nobody waits for a place: without one the whole zone goes out, which is held by all. */
export class LargeDifferences {
  readonly #ofReseller = new Counts<string>();
  #all = 0;

  /** @param resellerId whose ACL allows the transfer */
  for(resellerId: string): DifferencePlace {
    let isTaken = false;
    return {
      take: () => {
        if (this.#all >= MOST || this.#ofReseller.of(resellerId) >= MOST_OF_RESELLER) return false;
        this.#count(resellerId, 1);
        isTaken = true;
        return true;
      },
      end: () => {
        if (isTaken) this.#count(resellerId, -1);
      },
    };
  }

  #count(resellerId: string, more: 1 | -1): void {
    this.#all += more;
    this.#ofReseller.add(resellerId, more);
  }
}

/** What one transfer may need. */
export interface DifferencePlace {
  /** Once at most. @returns whether there was a place */
  readonly take: () => boolean;
  readonly end: () => void;
}
