import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** What a message's Message-ID follows from. */
export interface MessageName {
  readonly messageId: number;
  /** Domain of the From field as A-labels. */
  readonly senderDomain: string;
  /** Its copies are one message. */
  readonly isShared: boolean;
  /** Of a message that came finished: its own, with angle brackets; null of one that is rendered. */
  readonly own: string | null;
  /** Of one that came finished and is not known to have one: its beginning. */
  readonly head: Buffer | null;
}

/** More header than any mail program writes. */
const HEAD_OCTETS = 64 * 1024;

/** The messages of deliveries that there still are. */
export async function findMessagesOf(
  db: Db,
  instanceId: number,
  deliveryIds: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  if (deliveryIds.length === 0) return new Map();
  const rows = await queryRows<{ id: number; message_id: number }>(
    db,
    `select d.id, p.message_id from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     where d.instance_id = $1 and d.id = any($2::bigint[])`,
    [instanceId, deliveryIds],
  );
  return new Map(rows.map(({ id, message_id }) => [id, message_id]));
}

export async function findMessageNames(
  db: Db,
  instanceId: number,
  messageIds: readonly number[],
): Promise<MessageName[]> {
  if (messageIds.length === 0) return [];
  return queryRows(
    db,
    `select id as "messageId", sender_domain as "senderDomain", coalesce(template ? 'to', false) as "isShared",
       message_id as own, case when message_id is null then substring(octets from 1 for ${HEAD_OCTETS}) end as head
     from messages where instance_id = $1 and id = any($2::bigint[])`,
    [instanceId, messageIds],
  );
}
