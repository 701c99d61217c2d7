import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { tellCancelled } from "../tracking/event-feed.ts";
import { beginWork, wakeInstances } from "./mail-work.ts";
import { announceMail, waitsForLimit } from "./queue.ts";

/** What became of a wish for one delivery; `leased`: somebody is sending it, or what goes with it, at this moment. */
export type Wish = "done" | "settled" | "leased" | WaitsForLimit;

/** Its instance's sending limits have room for it at this moment, and no earlier. */
export interface WaitsForLimit {
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
    await queryRows(
      transaction,
      `with cancelled as (
         update deliveries set state = 'cancelled', personal = null, finished_at = now() where id = $1 and instance_id = $2
         returning instance_id, id
       )
       ${tellCancelled("cancelled")}`,
      [deliveryId, instanceId],
    );
    await queryRows(
      transaction,
      "update partitions set recipients = recipients - 1, modified_at = now() where id = $1 and instance_id = $2",
      [partition.id, instanceId],
    );
    return "done";
  });
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
