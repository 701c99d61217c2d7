import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import type { Sharer } from "../../platform/http/endpoint.ts";

/** Each has a connection, and a processor of the database: others' are never all taken. */
const SEARCHES = { atOnce: 3, perClient: 1, perGroup: 2 };

/** More of one client's do not wait. */
const MANY_SEARCHES = { mostWaiting: 16, retryAfterSeconds: 2 };

/** Lets clients look for records in turn: what finds nothing goes through all that they have. */
export class RecordSearchTurns {
  readonly #turns = new FairTurns(SEARCHES);

  run<T>({ key, group }: Sharer, search: () => Promise<Result<T, Refusal>>): Promise<Result<T, Refusal>> {
    return this.#turns.runOrRefuse(key, { ...MANY_SEARCHES, group }, search);
  }
}
