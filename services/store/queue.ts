import { type Db, queryRows, type Transaction } from "../platform/db.ts";

/** Where `announceMail` tells of new mail. The payload is empty. */
export const QUEUE_CHANNEL = "palomar_queue";

/**
 * Tells the workers that there is new mail, so that they need not wait for their next look. To be called after the
 * commit that made it visible, never within: a transaction that notifies holds back the commits of all others.
 */
export async function announceMail(db: Db): Promise<void> {
  // A notice is no data: its commit need not wait for the disk.
  await db.raw("select set_config('synchronous_commit', 'off', true), pg_notify(?, '')", [QUEUE_CHANNEL]);
}

/** A recipient about to be queued. */
export interface NewDelivery {
  readonly contactId: number | null;
  readonly role: "to" | "cc" | "bcc";
  /** Address as it was given. */
  readonly recipient: string;
  /** Its domain as A-labels. */
  readonly destination: string;
  readonly personal: PersonalData | null;
}

/** What the rendering of a template needs of one recipient, kept until the last outcome. */
export interface PersonalData {
  /** Display name for the To field. */
  readonly name?: string;
  /** Values of the tags that the template uses, by name without wrapping. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Small enough that the connections of a destination share a batch, large enough that a lease is worth its cost. */
const RECIPIENTS_PER_PARTITION = 100;

/**
 * Queues the recipients of a message, cut into partitions by destination.
 * @returns the deliveries with their ids, in the given order
 */
export async function enqueue(
  transaction: Transaction,
  batch: { readonly eeid: string; readonly messageId: number; readonly deliveries: readonly NewDelivery[] },
): Promise<(NewDelivery & { readonly id: number })[]> {
  const chunks = partition(batch.deliveries);
  const { partitionIds, deliveryIds } = await takeIds(transaction, chunks.length, batch.deliveries.length);
  const partitionOf = new Map(
    chunks.flatMap(({ deliveries }, index) => deliveries.map((delivery) => [delivery, partitionIds[index]!] as const)),
  );
  await queryRows(
    transaction,
    `with cut as (
       insert into partitions (id, eeid, message_id, destination, recipients) overriding system value
       select id, ?, ?, destination, recipients
       from unnest(?::bigint[], ?::text[], ?::integer[]) as given (id, destination, recipients)
     )
     insert into deliveries (id, partition_id, contact_id, role, recipient, personal) overriding system value
     select * from unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::jsonb[])`,
    [
      batch.eeid,
      batch.messageId,
      partitionIds,
      chunks.map(({ destination }) => destination),
      chunks.map(({ deliveries }) => deliveries.length),
      deliveryIds,
      batch.deliveries.map((delivery) => partitionOf.get(delivery)),
      batch.deliveries.map(({ contactId }) => contactId),
      batch.deliveries.map(({ role }) => role),
      batch.deliveries.map(({ recipient }) => recipient),
      batch.deliveries.map(({ personal }) => personal && JSON.stringify(personal)),
    ],
  );
  return batch.deliveries.map((delivery, index) => ({ ...delivery, id: deliveryIds[index]! }));
}

function partition(deliveries: readonly NewDelivery[]): { destination: string; deliveries: NewDelivery[] }[] {
  const open = new Map<string, NewDelivery[]>();
  const chunks: { destination: string; deliveries: NewDelivery[] }[] = [];
  for (const delivery of deliveries) {
    const { destination } = delivery;
    let chunk = open.get(destination);
    if (chunk === undefined || chunk.length === RECIPIENTS_PER_PARTITION) {
      chunk = [];
      open.set(destination, chunk);
      chunks.push({ destination, deliveries: chunk });
    }
    chunk.push(delivery);
  }
  return chunks;
}

/** Ids ahead of the rows, so that rows which refer to each other are inserted in bulk. */
async function takeIds(
  transaction: Transaction,
  partitions: number,
  deliveries: number,
): Promise<{ readonly partitionIds: readonly number[]; readonly deliveryIds: readonly number[] }> {
  const [row] = await queryRows<{ partition_ids: number[]; delivery_ids: number[] }>(
    transaction,
    `select (select json_agg(nextval('partitions_id_seq')) from generate_series(1, ?)) as partition_ids,
            (select json_agg(nextval('deliveries_id_seq')) from generate_series(1, ?)) as delivery_ids`,
    [partitions, deliveries],
  );
  return { partitionIds: row!.partition_ids, deliveryIds: row!.delivery_ids };
}
