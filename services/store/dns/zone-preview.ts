import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/db.ts";
import { inTransaction } from "../transactions.ts";
import { type HistoryEntry, readHistory } from "./zone-history.ts";
import type { Zone } from "./zones.ts";

/** What a change would come to. */
export interface ZonePreview {
  /** As the zone would be. */
  readonly zone: Zone;
  /** The entry that the history would have; undefined when nothing would change. */
  readonly entry: HistoryEntry | undefined;
  readonly warnings: readonly string[];
}

/** Carries a preview out of the transaction that must not be. */
class Undone extends Error {
  readonly outcome: Result<ZonePreview, Refusal>;

  constructor(outcome: Result<ZonePreview, Refusal>) {
    super("undone on purpose");
    this.outcome = outcome;
  }
}

/**
 * Makes a change, looks at what came of it, and undoes it: what is shown is what the very same change would do.
 * @param change makes the change through the handle that it is given
 */
export async function previewChange(
  db: Db,
  before: Zone,
  change: (db: Db) => Promise<Result<{ readonly zone: Zone; readonly warnings: readonly string[] }, Refusal>>,
): Promise<Result<ZonePreview, Refusal>> {
  try {
    await inTransaction(db, async (transaction) => {
      const changed = await change(transaction);
      if (!changed.ok) throw new Undone(changed);
      const { zone, warnings } = changed.value;
      if (zone.version === before.version) throw new Undone(ok({ zone, entry: undefined, warnings }));
      const [entry] = await readHistory(transaction, zone.id, undefined, 1);
      // A change may be too large for the journal.
      const isKept = entry !== undefined && entry.serial === zone.soa.serial;
      throw new Undone(
        isKept ? ok({ zone, entry, warnings }) : refuse(unacceptable("the change is too large to be shown")),
      );
    });
  } catch (error) {
    if (error instanceof Undone) return error.outcome;
    throw error;
  }
  throw new Error("a preview was not undone");
}
