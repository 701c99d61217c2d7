import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import type { ContactOfInstance } from "../contacts/contacts.ts";

/** What the recipient of a delivery may see and change. */
export interface Subscription {
  readonly instanceName: string;
  readonly campaignName: string;
  readonly unsubscribedFromCampaign: boolean;
  readonly unsubscribedFromInstance: boolean;
  /** Opens and clicks are not stored. */
  readonly untracked: boolean;
}

/** @returns undefined when there is no such delivery any more */
export async function findSubscription(db: Db, deliveryId: number): Promise<Subscription | undefined> {
  const [row] = await queryRows<Subscription>(
    db,
    `select i.name as "instanceName", coalesce(c.name, '') as "campaignName",
       u.contact_id is not null or contacts.unsubscribed_at is not null as "unsubscribedFromCampaign",
       contacts.unsubscribed_at is not null as "unsubscribedFromInstance",
       coalesce(contacts.untracked, false) as untracked
     from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     join instances i on i.id = d.instance_id
     left join campaigns c on c.instance_id = m.instance_id and c.numid = m.campaign_numid
     left join contacts on contacts.instance_id = d.instance_id and contacts.id = d.contact_id
     left join campaign_unsubscriptions u on u.instance_id = d.instance_id and u.contact_id = d.contact_id
       and u.campaign_numid = m.campaign_numid
     where d.id = $1`,
    [deliveryId],
  );
  return row;
}

/** Whether a contact's openings and clicks are stored from now on. */
export async function setUntracked(
  transaction: Transaction,
  { instanceId, id }: ContactOfInstance,
  untracked: boolean,
): Promise<void> {
  await transaction("contacts").where({ instance_id: instanceId, id }).update({ untracked });
}

/** Unsubscribes a contact from all campaigns. Those that are made later are covered by the contact's own mark. */
export async function unsubscribeFromInstance(
  transaction: Transaction,
  { instanceId, id }: ContactOfInstance,
  at: Date,
): Promise<void> {
  const marked = await queryRows(
    transaction,
    `update contacts set unsubscribed_at = coalesce(unsubscribed_at, $1), last_operation = 'unsubscribed', updated_at = now()
     where instance_id = $2 and id = $3 returning 1`,
    [at, instanceId, id],
  );
  if (marked.length === 0) return;
  await queryRows(
    transaction,
    `insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid, at)
     select $2, $3, numid, $1 from campaigns where instance_id = $2 on conflict do nothing`,
    [at, instanceId, id],
  );
}

/** Locks a contact that has not unsubscribed from everything. @returns the moment, undefined where it has, or is gone */
export async function lockSubscribed(
  transaction: Transaction,
  instanceId: number,
  contactId: number,
): Promise<Date | undefined> {
  const row = await transaction("contacts")
    .where({ instance_id: instanceId, id: contactId, unsubscribed_at: null })
    .forNoKeyUpdate()
    .first(transaction.raw("clock_timestamp() as at"));
  return row?.at;
}
