import { type InvalidationRule, recordOutcomes } from "../../services/operations/mail/outcomes.ts";
import type { Transaction } from "../../services/platform/postgres/db.ts";
import type { DeliveryOutcome } from "../../services/store/mail/queue/deliveries.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";

/** Stores outcomes of an instance as a worker does. */
export async function storeOutcomes(
  transaction: Transaction,
  instanceId: number,
  outcomes: readonly DeliveryOutcome[],
  rule: InvalidationRule,
): Promise<void> {
  const now = await beginWork(transaction, [instanceId]);
  await recordOutcomes(transaction, { instanceId, now }, outcomes, rule);
}
