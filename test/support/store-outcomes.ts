import { type InvalidationRule, recordOutcomes } from "../../services/operations/mail/outcomes.ts";
import type { Transaction } from "../../services/platform/postgres/db.ts";
import type { DeliveryOutcome } from "../../services/store/mail/queue/deliveries.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";

/** Stores outcomes as a worker does. */
export async function storeOutcomes(
  transaction: Transaction,
  outcomes: readonly DeliveryOutcome[],
  rule: InvalidationRule,
): Promise<void> {
  const now = await beginWork(transaction, [...new Set(outcomes.map(({ instanceId }) => instanceId))]);
  await recordOutcomes(transaction, { now }, outcomes, rule);
}
