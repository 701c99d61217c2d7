import type { EmailAddress } from "../../../core/mail/address.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A message that went to an address, or that is kept of it. */
export interface SentMessage {
  readonly eeid: string;
  readonly recipient: string;
  readonly acceptedAt: Date;
  /** The archived octets, where there are any. */
  readonly octets: Buffer | null;
}

/** What came back for a message to an address: a bounce, a complaint. */
export interface ReturnedMessage {
  readonly eeid: string;
  readonly receivedAt: Date;
  readonly octets: Buffer;
}

/** Messages that went to an address: to its contact where there is one, else as copies. Oldest first. */
export async function listSentMessages(
  db: Db,
  instanceId: number,
  address: EmailAddress,
  contactId: number | null,
): Promise<(SentMessage & { readonly id: number })[]> {
  return queryRows<SentMessage & { readonly id: number }>(
    db,
    `select deliveries.id, messages.eeid, deliveries.recipient, messages.created_at as "acceptedAt",
       archived_messages.octets
     from deliveries
       join partitions on partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       join messages on messages.instance_id = deliveries.instance_id and messages.id = partitions.message_id
       left join archived_messages on archived_messages.instance_id = deliveries.instance_id
         and archived_messages.delivery_id = deliveries.id
     where deliveries.instance_id = $1
       and (deliveries.contact_id = $2 or deliveries.contact_id is null
         and partitions.destination = $3 and split_part(deliveries.recipient, '@', 1) = $4)
     order by messages.created_at, deliveries.id`,
    [instanceId, contactId, address.asciiDomain, address.local],
  );
}

/** What came back for deliveries, oldest first. */
export async function listReturnedMessages(db: Db, deliveryIds: readonly number[]): Promise<ReturnedMessage[]> {
  return queryRows(
    db,
    `select partitions.eeid, inbound_messages.received_at as "receivedAt", inbound_messages.octets
     from inbound_messages
       join deliveries on deliveries.id = coalesce(inbound_messages.delivery_id, inbound_messages.about_delivery_id)
       join partitions on partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
     where inbound_messages.delivery_id = any($1::bigint[]) or inbound_messages.about_delivery_id = any($2::bigint[])
     order by inbound_messages.received_at`,
    [deliveryIds, deliveryIds],
  );
}
