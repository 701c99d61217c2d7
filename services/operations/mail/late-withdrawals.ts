import type { Db } from "../../platform/postgres/db.ts";
import { type BarredContact, findBarred } from "../../store/mail/contacts/recipients.ts";
import { TOLD_KINDS } from "../../store/mail/events/event-kinds.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { beginWork } from "../../store/mail/queue/mail-work.ts";
import type { DueDelivery, LeasedPartition } from "../../store/mail/queue/queue-leases.ts";
import { withdrawDeliveries } from "../../store/mail/queue/single-deliveries.ts";
import { tellDeliveries } from "../../store/mail/tracking/event-feed.ts";
import { inTransaction } from "../../store/transactions.ts";

/** A delivery that is about to begin, after it waited. */
interface LateDelivery {
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly id: number;
  /** Null for a copy to an address that is no contact. */
  readonly contactId: number | null;
}

/**
 * Takes back what waited, for a limit, a hold or another attempt, while its recipient unsubscribed, was suppressed or became
 * invalid. An invalid or suppressed one gets a `not-sent` event, as it would have when the message was accepted.
 * @param partitions that the worker has leased and not begun
 * @param deliveries of them
 * @returns those that are to be sent
 */
export async function withoutBarred(
  db: Db,
  partitions: readonly LeasedPartition[],
  deliveries: readonly DueDelivery[],
): Promise<readonly DueDelivery[]> {
  const late = deliveries.filter(({ hasWaited }) => hasWaited);
  if (late.length === 0) return deliveries;
  const partitionOf = new Map(partitions.map((partition) => [partition.id, partition]));
  const withdrawn = new Set<number>();
  const all = late.map(({ id, contactId, partitionId }) => {
    const { instanceId, message } = partitionOf.get(partitionId)!;
    return { id, contactId, instanceId, campaignNumid: message.campaignNumid };
  });
  for (const own of byCampaign(all)) for (const id of await withdrawBarred(db, own)) withdrawn.add(id);
  return deliveries.filter(({ id }) => !withdrawn.has(id));
}

/** @param deliveries of one instance and campaign @returns those that are not sent any more */
async function withdrawBarred(db: Db, deliveries: readonly LateDelivery[]): Promise<readonly number[]> {
  const { instanceId, campaignNumid } = deliveries[0]!;
  const contactIds = deliveries.flatMap(({ contactId }) => contactId ?? []);
  const barred = await findBarred(db, instanceId, campaignNumid, contactIds);
  const contacts = new Map(barred.map((contact) => [contact.id, contact]));
  const late = deliveries.filter(({ contactId }) => contactId !== null && contacts.has(contactId));
  if (late.length > 0) await withdraw(db, late, contacts);
  return late.map(({ id }) => id);
}

function byCampaign(deliveries: readonly LateDelivery[]): Iterable<readonly LateDelivery[]> {
  const groups = new Map<string, LateDelivery[]>();
  for (const delivery of deliveries) {
    const key = `${delivery.instanceId} ${delivery.campaignNumid}`;
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(delivery);
  }
  return groups.values();
}

/** @param deliveries of one instance and campaign */
async function withdraw(
  db: Db,
  deliveries: readonly LateDelivery[],
  contacts: ReadonlyMap<number, BarredContact>,
): Promise<void> {
  const { instanceId, campaignNumid } = deliveries[0]!;
  await inTransaction(db, async (transaction) => {
    const at = new Date(await beginWork(transaction, [instanceId]));
    const ids = deliveries.map(({ id }) => id);
    const gone = await withdrawDeliveries(transaction, instanceId, ids);
    const kind = TOLD_KINDS.cancelled;
    await tellDeliveries(
      transaction,
      gone.flatMap(({ deliveryId, isHeard }) => (isHeard ? [{ instanceId, deliveryId, at, kind, detail: {} }] : [])),
    );
    const events = gone.flatMap(({ isHeard: _isHeard, ...withdrawn }) => {
      const { invalid, suppressed } = contacts.get(withdrawn.contactId)!;
      if (!invalid && !suppressed) return [];
      const detail = suppressed ? { detail: { reason: "suppressed" } } : {};
      return [{ kind: "not-sent" as const, at, instanceId, campaignNumid, ...withdrawn, ...detail }];
    });
    await recordEvents(transaction, events);
  });
}
