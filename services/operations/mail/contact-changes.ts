import type { Db } from "../../platform/postgres/db.ts";
import {
  addUnsubscription,
  lockUnlistedContact,
  setInvalid,
  setValid,
  type Unsubscription,
} from "../../store/mail/contacts/contacts.ts";
import { removeValidityRows } from "../../store/mail/contacts/suppressions.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { lockSubscribed, unsubscribeFromInstance } from "../../store/mail/tracking/subscriptions.ts";

/** Why a contact becomes invalid, and what the event says of it. */
export interface InvalidationCause {
  /** Only a `request` confirms a contact that is invalid already with another event. */
  readonly reason: "request" | "hard-bounces" | "complaint" | "brought-in";
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
  { reason, ...cause }: InvalidationCause,
): Promise<ValidityChange> {
  return db.transaction(async (transaction) => {
    const contact = await lockUnlistedContact(transaction, instanceId, contactId);
    if (typeof contact === "string") return contact;
    if (contact.invalid && reason !== "request") return "already-invalid";
    await setInvalid(transaction, { instanceId, id: contactId });
    const event = { ...cause, at: contact.at, instanceId, contactId, detail: { reason } };
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
    await removeValidityRows(transaction, instanceId, contactId);
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
export type UnsubscriptionCause =
  | { readonly reason: "brought-in" }
  | {
      readonly reason: "all";
      readonly campaignNumid: number;
      readonly eeid: string;
      readonly deliveryId: number;
      readonly at: Date;
    };

/** Takes a contact off all of an instance's mail and stores the event; a second time does neither. @returns whether it was done now */
export async function unsubscribeFromAll(
  db: Db,
  instanceId: number,
  contactId: number,
  { reason, ...cause }: UnsubscriptionCause,
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const lockedAt = await lockSubscribed(transaction, instanceId, contactId);
    if (lockedAt === undefined) return false;
    const event = { at: lockedAt, ...cause, instanceId, contactId, detail: { reason } };
    await unsubscribeFromInstance(transaction, { instanceId, id: contactId }, event.at);
    await recordEvents(transaction, [{ ...event, kind: "unsubscribed" }]);
    return true;
  });
}
