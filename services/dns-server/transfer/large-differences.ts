import { FairTurns } from "../../platform/fair-turns.ts";

/** Large differences that are held at a time, and those by the ACLs of a reseller: each has up to a hundred MiB until it has gone out. */
const LIMITS = { atOnce: 6, perClient: 2 };

/** A client that stops reading holds a place for longer. */
const PATIENCE_MS = 2_000;

/** Places of large differences, in turn by reseller. Who has none in time is sent the whole zone, which is held by all. */
export class LargeDifferences {
  readonly #turns = new FairTurns(LIMITS);

  /** @param resellerId whose ACL allows the transfer */
  for(resellerId: string): DifferencePlace {
    let end: (() => void) | undefined;
    return {
      take: async () => {
        end = await this.#turns.takeWithin(PATIENCE_MS, resellerId);
        return end !== undefined;
      },
      end: () => {
        end?.();
        end = undefined;
      },
    };
  }
}

/** What one transfer may need. */
export interface DifferencePlace {
  /** Waits for a place, once at most. @returns whether there was one in time */
  readonly take: () => Promise<boolean>;
  /** Gives the place back, if there is any. */
  readonly end: () => void;
}
