import { addressKeyOf } from "../../core/mail/address.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type BarredDelivery, findBarred, findBarredCopies } from "../../store/mail/contacts/recipients.ts";
import { TOLD_KINDS } from "../../store/mail/events/event-kinds.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { beginWork } from "../../store/mail/queue/mail-work.ts";
import type { DueDelivery, LeasedPartition } from "../../store/mail/queue/queue-leases.ts";
import { withdrawDeliveries } from "../../store/mail/queue/single-deliveries.ts";
import { tellDeliveries } from "../../store/mail/tracking/event-feed.ts";
import { inTransaction } from "../../store/transactions.ts";

/**
 * Takes back what waited, for a limit, a hold or another attempt, while its recipient unsubscribed, was suppressed or became
 * invalid. An invalid or suppressed one gets a `not-sent` event, as it would have when the message was accepted. Copies to addresses
 * that are no contacts are judged by their addresses.
 * @param partitions that the worker has leased and not begun
 * @param deliveries of them
 * @returns those that are to be sent
 */
export async function withoutBarred(
  db: Db,
  partitions: readonly LeasedPartition[],
  deliveries: readonly DueDelivery[],
): Promise<readonly DueDelivery[]> {
  if (!deliveries.some(({ hasWaited }) => hasWaited)) return deliveries;
  const partitionOf = new Map(partitions.map((partition) => [partition.id, partition]));
  const late = deliveries
    .filter(({ hasWaited }) => hasWaited)
    .map(({ id, contactId, recipient, partitionId }) => {
      const { instanceId, message } = partitionOf.get(partitionId)!;
      return { id, contactId, recipient, instanceId, campaignNumid: message.campaignNumid };
    });
  const ofContacts = late.flatMap(({ contactId, ...delivery }) =>
    contactId === null ? [] : [{ ...delivery, contactId }],
  );
  const copies = late.flatMap(({ contactId, recipient, ...delivery }) => {
    const emailKey = contactId === null ? addressKeyOf(recipient) : undefined;
    return emailKey === undefined ? [] : [{ ...delivery, emailKey }];
  });
  const barred = [...(await findBarred(db, ofContacts)), ...(await findBarredCopies(db, copies))];
  for (const instanceId of new Set(barred.map((one) => one.instanceId))) {
    await withdraw(
      db,
      instanceId,
      barred.filter((one) => one.instanceId === instanceId),
    );
  }
  const withdrawn = new Set(barred.map(({ id }) => id));
  return deliveries.filter(({ id }) => !withdrawn.has(id));
}

async function withdraw(db: Db, instanceId: number, deliveries: readonly BarredDelivery[]): Promise<void> {
  const barred = new Map(deliveries.map((delivery) => [delivery.id, delivery]));
  await inTransaction(db, async (transaction) => {
    const at = new Date(await beginWork(transaction, [instanceId]));
    const gone = await withdrawDeliveries(transaction, instanceId, [...barred.keys()]);
    const kind = TOLD_KINDS.cancelled;
    await tellDeliveries(
      transaction,
      gone.flatMap(({ deliveryId, isHeard }) => (isHeard ? [{ instanceId, deliveryId, at, kind, detail: {} }] : [])),
    );
    const events = gone.flatMap(({ isHeard: _isHeard, ...withdrawn }) => {
      const { invalid, suppressed, campaignNumid } = barred.get(withdrawn.deliveryId)!;
      if (!invalid && !suppressed) return [];
      const detail = suppressed ? { detail: { reason: "suppressed" } } : {};
      return [{ kind: "not-sent" as const, at, instanceId, campaignNumid, ...withdrawn, ...detail }];
    });
    await recordEvents(transaction, events);
  });
}
