import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { ownRows } from "../by-instance.ts";
import { findPlaces, giveUpPlaces } from "../guard/waiting-recipients.ts";
import { hearersOfDeliveries, tellCancelled } from "../tracking/event-feed.ts";
import { beginWork, wakeInstances } from "./mail-work.ts";
import { announceMail, waitsForLimit } from "./queue.ts";
import { lockPartitions } from "./queue-leases.ts";

/** What became of a wish for one delivery; `leased`: somebody is sending it, or what goes with it, at this moment. */
export type Wish = "done" | "settled" | "leased" | WaitsForLimit;

/** Its instance's sending limits have room for it at this moment, and no earlier. */
interface WaitsForLimit {
  readonly goesOnAt: Date;
}

/**
 * Makes a delivery due now. What its destination's back-off, or a hold, keeps back it does not touch: those are everybody's. What waits
 * for a window of its instance's limits goes when that comes.
 */
export async function retryDelivery(db: Db, instanceId: number, deliveryId: number): Promise<Wish> {
  const wish = await db.transaction(async (transaction) => {
    await beginWork(transaction, [instanceId]);
    const partition = await lockQueued(transaction, instanceId, deliveryId);
    if (partition === undefined) return "settled";
    if (partition.goesOnAt !== null) return { goesOnAt: partition.goesOnAt };
    await queryRows(
      transaction,
      "update deliveries set due_at = now() where id = $1 and instance_id = $2 and due_at > now()",
      [deliveryId, instanceId],
    );
    await queryRows(
      transaction,
      `update partitions set state = 'ready', due_at = now(), modified_at = now()
       where id = $1 and instance_id = $2 and state = 'deferred'`,
      [partition.id, instanceId],
    );
    await wakeInstances(transaction, [{ instanceId }]);
    return partition.state === "leased" ? "leased" : "done";
  });
  if (wish === "done") await announceMail(db, [instanceId]);
  return wish;
}

/** Takes a delivery back that is queued still. Its partition has a recipient less, as if it had never had it. */
export async function cancelDelivery(db: Db, instanceId: number, deliveryId: number): Promise<Wish> {
  return db.transaction(async (transaction) => {
    const partition = await lockQueued(transaction, instanceId, deliveryId);
    if (partition === undefined) return "settled";
    // It may have left already, and what became of it would be lost.
    if (partition.state === "leased") return "leased";
    const places = await findPlaces(transaction, instanceId, [partition.id]);
    await queryRows(
      transaction,
      `with cancelled as (
         update deliveries set state = 'cancelled', personal = null, finished_at = now() where id = $1 and instance_id = $2
         returning instance_id, id
       )
       ${tellCancelled("cancelled")}`,
      [deliveryId, instanceId],
    );
    await countFewer(transaction, instanceId, [partition.id]);
    await giveUpPlaces(transaction, instanceId, places);
    return "done";
  });
}

/** A delivery that is not sent any more, and whose it was. */
interface WithdrawnDelivery {
  readonly deliveryId: number;
  readonly eeid: string;
  /** Null of a copy to an address that is no contact. */
  readonly contactId: number | null;
  /** Address as it was given. */
  readonly email: string;
  /** Its instance wants to know what becomes of its deliveries. */
  readonly isHeard: boolean;
}

/**
 * Takes back queued deliveries, in partitions that who asks has leased and not begun. Each partition has so
 * many recipients less, as with `cancelDelivery`. One that somebody complained of has arrived, although whoever sent it did not
 * come to store that: it is settled so.
 * @returns those that were queued still and have not arrived
 */
export async function withdrawDeliveries(
  transaction: Transaction,
  instanceId: number,
  deliveryIds: readonly number[],
): Promise<WithdrawnDelivery[]> {
  const rows = await queryRows<WithdrawnDelivery & { readonly partitionId: number; readonly hasArrived: boolean }>(
    transaction,
    `with withdrawn as (
       update deliveries d set state = case when d.complained_at is null then 'cancelled' else 'delivered' end,
         personal = null, finished_at = now() from partitions p
       where d.instance_id = ($1::bigint[])[1] and d.id = any($2::bigint[]) and d.state = 'queued'
         and p.instance_id = ($1::bigint[])[1] and p.id = d.partition_id
       returning d.instance_id, d.id, d.partition_id, p.eeid, d.contact_id, d.recipient,
         d.state = 'delivered' as has_arrived
     )
     select id as "deliveryId", partition_id as "partitionId", eeid, contact_id as "contactId", recipient as email,
       has_arrived as "hasArrived", instance_id in (${hearersOfDeliveries(await ownRows(transaction))}) as "isHeard"
     from withdrawn`,
    [[instanceId], deliveryIds],
  );
  const gone = rows.filter(({ hasArrived }) => !hasArrived);
  const partitionIds = gone.map(({ partitionId }) => partitionId);
  await takeRecipientsOff(transaction, instanceId, partitionIds);
  return gone.map(({ partitionId: _partitionId, hasArrived: _hasArrived, ...withdrawn }) => withdrawn);
}

/**
 * Has partitions have recipients less, as if they had never had them. It locks the partitions: after what is changed of
 * deliveries in the same transaction.
 * @param partitionIds each as often as it has recipients less
 */
export async function takeRecipientsOff(
  transaction: Transaction,
  instanceId: number,
  partitionIds: readonly number[],
): Promise<void> {
  if (partitionIds.length === 0) return;
  const partitions = partitionIds.map((id) => ({ instanceId, id }));
  await lockPartitions(transaction, partitions);
  await countFewer(transaction, instanceId, partitionIds);
}

/** The same of partitions that are locked. */
async function countFewer(
  transaction: Transaction,
  instanceId: number,
  partitionIds: readonly number[],
): Promise<void> {
  await queryRows(
    transaction,
    `update partitions p set recipients = p.recipients - fewer.recipients, modified_at = now()
     from (select id, count(*) as recipients from unnest($2::bigint[]) as given (id) group by id) fewer
     where p.instance_id = $1 and p.id = fewer.id`,
    [instanceId, partitionIds],
  );
}

/** Locks a delivery that is queued, and then its partition, in the order of all who do. */
async function lockQueued(
  transaction: Transaction,
  instanceId: number,
  deliveryId: number,
): Promise<{ readonly id: number; readonly state: string; readonly goesOnAt: Date | null } | undefined> {
  const [delivery] = await queryRows<{ partition: number }>(
    transaction,
    `select partition_id as partition from deliveries where id = $1 and instance_id = $2 and state = 'queued' for no key update`,
    [deliveryId, instanceId],
  );
  if (delivery === undefined) return undefined;
  const [partition] = await queryRows<{ id: number; state: string; goesOnAt: Date | null }>(
    transaction,
    `select id, state, case when ${waitsForLimit("p")} then due_at end as "goesOnAt"
     from partitions p where id = $1 and instance_id = $2 for no key update`,
    [delivery.partition, instanceId],
  );
  return partition;
}
