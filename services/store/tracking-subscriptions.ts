import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { unsubscribeContact } from "./contacts.ts";
import { findDelivery } from "./deliveries.ts";
import { recordEvents } from "./events.ts";

/** What the recipient of a delivery may see and change. */
export interface Subscription {
  readonly instanceName: string;
  readonly campaignName: string;
  readonly unsubscribedFromCampaign: boolean;
  readonly unsubscribedFromInstance: boolean;
  /** Opens and clicks are not stored. */
  readonly untracked: boolean;
}

/** What a recipient chooses: no more of this campaign, nothing of the instance any more, or no tracking. */
export const SUBSCRIPTION_CHOICES = ["campaign", "instance", "untracked", "tracked"] as const;
export type SubscriptionChoice = (typeof SUBSCRIPTION_CHOICES)[number];

/** @returns undefined when there is no such delivery any more */
export async function findSubscription(db: Db, deliveryId: number): Promise<Subscription | undefined> {
  const [row] = await queryRows<Subscription>(
    db,
    `select i.name as "instanceName", coalesce(c.name, '') as "campaignName",
       u.contact_id is not null or contacts.unsubscribed_at is not null as "unsubscribedFromCampaign",
       contacts.unsubscribed_at is not null as "unsubscribedFromInstance",
       coalesce(contacts.untracked, false) as untracked
     from deliveries d join partitions p on p.id = d.partition_id join messages m on m.id = p.message_id
     join batches b on b.eeid = m.eeid join instances i on i.id = b.instance_id
     left join campaigns c on c.numid = m.campaign_numid
     left join contacts on contacts.id = d.contact_id
     left join campaign_unsubscriptions u on u.contact_id = d.contact_id and u.campaign_numid = m.campaign_numid
     where d.id = ?`,
    [deliveryId],
  );
  return row;
}

/**
 * Does what a recipient chose. An unsubscription stores its event; a second one changes nothing.
 * Of a copy to an address that is no contact only the event can be kept.
 */
export async function changeSubscription(
  transaction: Transaction,
  deliveryId: number,
  choice: SubscriptionChoice,
  at: Date,
): Promise<void> {
  const owner = await findDelivery(transaction, deliveryId);
  if (owner === undefined) return;
  const { instanceId, contactId, campaignNumid, eeid, recipient } = owner;
  if (choice === "untracked" || choice === "tracked") {
    if (contactId === null) return;
    await transaction("contacts")
      .where({ id: contactId })
      .update({ untracked: choice === "untracked" });
    return;
  }
  const cause = { campaignNumid, eeid, deliveryId, at };
  if (contactId === null) {
    await recordEvents(transaction, [{ ...cause, instanceId, contactId, email: recipient, kind: "unsubscribed" }]);
    return;
  }
  await unsubscribeContact(transaction, instanceId, contactId, cause);
  if (choice === "instance") await unsubscribeFromInstance(transaction, contactId, at);
}

/** Campaigns that are made later are covered by the contact's own mark. */
async function unsubscribeFromInstance(transaction: Transaction, contactId: number, at: Date): Promise<void> {
  await queryRows(
    transaction,
    `with marked as (
       update contacts set unsubscribed_at = coalesce(unsubscribed_at, ?), last_operation = 'unsubscribed',
         updated_at = now()
       where id = ? returning id, instance_id
     )
     insert into campaign_unsubscriptions (contact_id, campaign_numid, at)
     select marked.id, campaigns.numid, ? from marked join campaigns using (instance_id) on conflict do nothing`,
    [at, contactId, at],
  );
}
