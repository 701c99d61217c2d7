import { validateAddress } from "../../core/mail/address.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { findContactId } from "../../store/mail/contacts/contact-profiles.ts";
import { unsubscribeContact } from "../../store/mail/contacts/contacts.ts";
import { addMissingContacts } from "../../store/mail/contacts/recipients.ts";
import { type DeliveryOwner, findDelivery } from "../../store/mail/queue/deliveries.ts";

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
     from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     join instances i on i.id = d.instance_id
     left join campaigns c on c.instance_id = m.instance_id and c.numid = m.campaign_numid
     left join contacts on contacts.instance_id = d.instance_id and contacts.id = d.contact_id
     left join campaign_unsubscriptions u on u.instance_id = d.instance_id and u.contact_id = d.contact_id
       and u.campaign_numid = m.campaign_numid
     where d.id = ?`,
    [deliveryId],
  );
  return row;
}

/** Does what a recipient chose. An unsubscription stores its event; a second one changes nothing. */
export async function changeSubscription(
  transaction: Transaction,
  deliveryId: number,
  choice: SubscriptionChoice,
  at: Date,
): Promise<void> {
  const owner = await findDelivery(transaction, deliveryId);
  if (owner === undefined) return;
  const contactId = owner.contactId ?? (await makeContactOfCopy(transaction, owner));
  await choose(transaction, { ...owner, contactId }, choice, at);
  // After the contact: who erases it locks its deliveries after it as well.
  if (owner.contactId === null) {
    await transaction("deliveries").where({ id: deliveryId }).update({ contact_id: contactId });
  }
}

async function choose(
  transaction: Transaction,
  { deliveryId, instanceId, contactId, campaignNumid, eeid }: DeliveryOwner & { readonly contactId: number },
  choice: SubscriptionChoice,
  at: Date,
): Promise<void> {
  if (choice === "untracked" || choice === "tracked") {
    await transaction("contacts")
      .where({ id: contactId })
      .update({ untracked: choice === "untracked" });
    return;
  }
  await unsubscribeContact(transaction, instanceId, contactId, { campaignNumid, eeid, deliveryId, at });
  if (choice === "instance") await unsubscribeFromInstance(transaction, contactId, at);
}

/** An address that only got a copy is no contact; with a choice it becomes one, which is where choices are kept. */
async function makeContactOfCopy(transaction: Transaction, copy: DeliveryOwner): Promise<number> {
  const { deliveryId, instanceId, recipient } = copy;
  const address = validateAddress(recipient, { allowSmtputf8: true });
  if (!address.ok) throw new Error(`delivery ${deliveryId} went to no address: ${address.error}`);
  await addMissingContacts(transaction, instanceId, [{ address: address.value }]);
  return (await findContactId(transaction, instanceId, address.value.key))!;
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
     insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid, at)
     select instance_id, marked.id, campaigns.numid, ? from marked join campaigns using (instance_id) on conflict do nothing`,
    [at, contactId, at],
  );
}
