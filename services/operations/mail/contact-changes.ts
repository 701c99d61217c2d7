import type { ListingWords } from "../../core/mail/suppression.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { lockContacts, lockUnlistedContact, setInvalid, setValid } from "../../store/mail/contacts/contacts.ts";
import { removeValidityRows } from "../../store/mail/contacts/suppressions.ts";
import { broughtIn } from "../../store/mail/contacts/taken-over.ts";
import {
  addUnsubscription,
  endUnsubscription,
  isUnsubscriptionBroughtIn,
  type Unsubscription,
} from "../../store/mail/contacts/unsubscriptions.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { lockSubscription, unsubscribeAllFromInstance } from "../../store/mail/tracking/subscriptions.ts";

/** Why a contact becomes invalid, and what the event says of it. */
interface InvalidationCause {
  /** Only a `request` confirms a contact that is invalid already with another event, and whoever has words for it. */
  readonly reason: "request" | "hard-bounces" | "complaint" | "brought-in";
  /** Of what was brought in. */
  readonly words?: ListingWords;
  readonly campaignNumid?: number;
  readonly eeid?: string;
  readonly deliveryId?: number;
}

export type ValidityChange = "done" | "already-invalid" | "whitelisted" | "unknown";

/**
 * Makes a contact invalid and stores the event, unless its address is whitelisted.
 * @param db may be a transaction; then the address stays locked until it ends
 */
export async function invalidateContact(
  db: Db,
  instanceId: number,
  contactId: number,
  { reason, words, ...cause }: InvalidationCause,
): Promise<ValidityChange> {
  return db.transaction(async (transaction) => {
    const contact = await lockUnlistedContact(transaction, instanceId, contactId);
    if (typeof contact === "string") return contact;
    if (contact.invalid && reason !== "request" && words === undefined) return "already-invalid";
    await setInvalid(transaction, { instanceId, id: contactId });
    const detail = words === undefined ? { reason } : broughtIn(reason, words);
    const event = { ...cause, at: contact.at, instanceId, contactId, detail };
    await recordEvents(transaction, [{ ...event, kind: "invalidated" }]);
    return "done";
  });
}

/**
 * Makes a contact valid, starts the count of its hard bounces anew, and stores the event, whatever its validity was;
 * unless its address is whitelisted.
 */
export async function revalidateContact(
  db: Db,
  instanceId: number,
  contactId: number,
): Promise<Exclude<ValidityChange, "already-invalid">> {
  return db.transaction(async (transaction) => {
    const contact = await lockUnlistedContact(transaction, instanceId, contactId);
    if (typeof contact === "string") return contact;
    await setValid(transaction, { instanceId, id: contactId }, contact.at);
    // Brought in from elsewhere before it was a contact: now it is said to be valid.
    await removeValidityRows(transaction, instanceId, [contact.emailKey]);
    await recordEvents(transaction, [{ instanceId, contactId, at: contact.at, kind: "revalidated" }]);
    return "done";
  });
}

/**
 * Takes a contact off a campaign's recipients and stores the event; a second time does neither.
 * @returns whether it was done now; false also for a contact or campaign that the instance does not have
 */
export async function unsubscribeContact(
  db: Db,
  unsubscription: Unsubscription & { readonly eeid?: string; readonly deliveryId?: number },
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    if (!(await addUnsubscription(transaction, unsubscription))) return false;
    await recordEvents(transaction, [{ ...unsubscription, kind: "unsubscribed" }]);
    return true;
  });
}

/** Why a contact gets nothing more of an instance: it was brought in so, or chose it where it got a message. */
type UnsubscriptionCause =
  | { readonly reason: "brought-in"; readonly words: ListingWords }
  | {
      readonly reason: "all";
      readonly campaignNumid: number;
      readonly eeid: string;
      readonly deliveryId: number;
      readonly at: Date;
    };

/**
 * Takes a contact off all of an instance's mail and stores the event; a second time does neither. Of one that was brought in
 * so, the person's own word is stored as well, and what else is said of it.
 * @returns whether anything was stored now
 */
export async function unsubscribeFromAll(
  db: Db,
  instanceId: number,
  contactId: number,
  cause: UnsubscriptionCause,
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const contact = { instanceId, id: contactId };
    const locked = await lockSubscription(transaction, contact);
    if (locked === undefined) return false;
    const event = describeUnsubscription(cause, locked.at);
    if (locked.unsubscribed) {
      if (!(await isUnsubscriptionBroughtIn(transaction, contact))) return false;
    } else {
      const since = cause.reason === "brought-in" ? cause.words.since : undefined;
      await unsubscribeAllFromInstance(transaction, instanceId, [{ id: contactId, at: since ?? event.at }]);
    }
    await recordEvents(transaction, [{ ...event, instanceId, contactId, kind: "unsubscribed" }]);
    return true;
  });
}

function describeUnsubscription(cause: UnsubscriptionCause, lockedAt: Date) {
  if (cause.reason === "brought-in") return { at: lockedAt, detail: broughtIn(cause.reason, cause.words) };
  const { reason, ...own } = cause;
  return { ...own, detail: { reason } };
}

/**
 * Takes back that a contact was brought in as unsubscribed from everything. What its person chose stays.
 * @returns whether there was anything to take back
 */
export async function takeBackUnsubscription(db: Db, instanceId: number, contactId: number): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const contact = { instanceId, id: contactId };
    await lockContacts(transaction, [contact]);
    if (!(await isUnsubscriptionBroughtIn(transaction, contact))) return false;
    await endUnsubscription(transaction, contact);
    return true;
  });
}
