import { queueOf } from "../../core/mail/queue/destination-queue.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listLastTouches } from "../../store/mail/events/last-touches.ts";
import type { DueDelivery, LeasedPartition } from "../../store/mail/queue/queue-leases.ts";
import type { TrafficShaping } from "../shaping.ts";

/** Who did nothing for so long is as good as one who never did. */
const WITHIN_DAYS = 366;

/**
 * Where an address of the pool is new, has those recipients first who opened or clicked last: the provider sees from there
 * what people want. Of all other mail nothing is looked up.
 * @param due by partition; changed in place
 */
export async function rankByEngagement(
  db: Db,
  shaping: TrafficShaping,
  partitions: readonly LeasedPartition[],
  due: Map<number, DueDelivery[]>,
): Promise<void> {
  const ranked = partitions.filter(({ destination, pool }) => shaping.warming(queueOf(destination, pool)).length > 0);
  if (ranked.length === 0) return;
  const contacts = ranked.flatMap(({ id, instanceId }) =>
    (due.get(id) ?? []).flatMap(({ contactId }) => (contactId === null ? [] : [{ instanceId, id: contactId }])),
  );
  const touches = await listLastTouches(db, contacts, WITHIN_DAYS);
  const daysAgo = ({ contactId }: DueDelivery) => (contactId === null ? undefined : touches.get(contactId));
  for (const { id } of ranked) {
    const deliveries = (due.get(id) ?? []).map((delivery) => ({ ...delivery, touchedDaysAgo: daysAgo(delivery) }));
    const rank = ({ touchedDaysAgo = Number.POSITIVE_INFINITY }: DueDelivery) => touchedDaysAgo;
    due.set(
      id,
      deliveries.toSorted((one, other) => (rank(one) === rank(other) ? 0 : rank(one) - rank(other))),
    );
  }
}
