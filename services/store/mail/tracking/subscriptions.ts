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

/**
 * Unsubscribes contacts from all campaigns, each as of a moment of its own. Campaigns that are made later are covered by the
 * contact's own mark.
 */
export async function unsubscribeAllFromInstance(
  transaction: Db,
  instanceId: number,
  contacts: readonly { readonly id: number; readonly at: Date }[],
): Promise<void> {
  if (contacts.length === 0) return;
  const marked = await queryRows<{ id: number; at: Date }>(
    transaction,
    `update contacts set unsubscribed_at = coalesce(unsubscribed_at, given.at), last_operation = 'unsubscribed', updated_at = now()
     from unnest($2::bigint[], $3::timestamptz[]) as given (id, at)
     where contacts.instance_id = $1 and contacts.id = given.id returning contacts.id, given.at`,
    [instanceId, contacts.map(({ id }) => id), contacts.map(({ at }) => at.toISOString())],
  );
  if (marked.length === 0) return;
  await queryRows(
    transaction,
    `insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid, at)
     select $1, given.id, campaigns.numid, given.at
     from campaigns cross join unnest($2::bigint[], $3::timestamptz[]) as given (id, at)
     where campaigns.instance_id = $1 on conflict do nothing`,
    [instanceId, marked.map(({ id }) => id), marked.map(({ at }) => at.toISOString())],
  );
}

/** Locks a contact. @returns the moment, and whether it has unsubscribed from everything; undefined of one that is gone */
export async function lockSubscription(
  transaction: Transaction,
  { instanceId, id }: ContactOfInstance,
): Promise<{ readonly at: Date; readonly unsubscribed: boolean } | undefined> {
  const row = await transaction("contacts")
    .where({ instance_id: instanceId, id })
    .forNoKeyUpdate()
    .first("unsubscribed_at", transaction.raw("clock_timestamp() as at"));
  return row && { at: row.at, unsubscribed: row.unsubscribed_at !== null };
}
