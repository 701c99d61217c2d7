import { validateAddress } from "../../core/mail/address.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { findContactId } from "../../store/mail/contacts/contact-profiles.ts";
import { addMissingContacts } from "../../store/mail/contacts/recipients.ts";
import { takeOverListed } from "../../store/mail/contacts/taken-over.ts";
import { assignContact, type DeliveryOwner, findDelivery } from "../../store/mail/queue/deliveries.ts";
import { setUntracked } from "../../store/mail/tracking/subscriptions.ts";
import { unsubscribeContact, unsubscribeFromAll } from "./contact-changes.ts";

/** What a recipient chooses: no more of this campaign, nothing of the instance any more, or no tracking. */
export const SUBSCRIPTION_CHOICES = ["campaign", "instance", "untracked", "tracked"] as const;
export type SubscriptionChoice = (typeof SUBSCRIPTION_CHOICES)[number];

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
    await assignContact(transaction, owner, contactId);
  }
}

async function choose(
  transaction: Transaction,
  { deliveryId, instanceId, contactId, campaignNumid, eeid }: DeliveryOwner & { readonly contactId: number },
  choice: SubscriptionChoice,
  at: Date,
): Promise<void> {
  if (choice === "untracked" || choice === "tracked") {
    await setUntracked(transaction, { instanceId, id: contactId }, choice === "untracked");
    return;
  }
  const cause = { campaignNumid, eeid, deliveryId, at };
  if (choice === "campaign") await unsubscribeContact(transaction, { instanceId, contactId, ...cause });
  else await unsubscribeFromAll(transaction, instanceId, contactId, { reason: "all", ...cause });
}

/** An address that only got a copy is no contact; with a choice it becomes one, which is where choices are kept. */
async function makeContactOfCopy(transaction: Transaction, copy: DeliveryOwner): Promise<number> {
  const { deliveryId, instanceId, recipient } = copy;
  const address = validateAddress(recipient, { allowSmtputf8: true });
  if (!address.ok) throw new Error(`delivery ${deliveryId} went to no address: ${address.error.message}`);
  await addMissingContacts(transaction, instanceId, [{ address: address.value }]);
  await takeOverListed(transaction, instanceId, [address.value.key]);
  return (await findContactId(transaction, instanceId, address.value.key))!;
}
