import type { EmailAddress } from "../../core/mail/address.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type ErasureSubject, eraseFromMessages } from "../../store/mail/contacts/contact-erasure-messages.ts";
import {
  findGivenEmail,
  lockContactOf,
  redactConsole,
  removeCalls,
  removeContact,
  removeConversions,
  removeEvents,
  removeFromWebhooks,
} from "../../store/mail/contacts/contact-erasure-traces.ts";
import { lockAddress } from "../../store/mail/contacts/contacts.ts";
import { inTransaction } from "../../store/transactions.ts";

/** What was removed of an address; see `isNothing`. */
export interface Erasure {
  readonly contacts: number;
  readonly events: number;
  readonly messages: number;
  /** It was on the whitelist. */
  readonly whitelisted: boolean;
}

/**
 * Removes everything that an instance holds on an address: the contact, its events (and what they add to the counts),
 * its messages with their archives and what came back for them, its place on the whitelist, and its name in what is
 * kept of others: messages with several addressees, bodies of webhooks, reports. What is queued for it is not sent any
 * more. What the customer wrote himself stays: senders of campaigns, conditions of filters.
 */
export async function eraseAddress(db: Db, instanceId: number, address: EmailAddress): Promise<Erasure> {
  return inTransaction(db, async (transaction) => {
    await lockAddress(transaction, instanceId, address.key);
    const given = await findGivenEmail(transaction, instanceId, address.key);
    const spellings = [
      ...new Set([address.key, address.text, address.asGiven, ...(given === undefined ? [] : [given])]),
    ];
    // Before the contact, as the calls that send do.
    await removeCalls(transaction, instanceId, spellings);
    const contactId = await lockContactOf(transaction, instanceId, address.key);
    const subject: ErasureSubject = { instanceId, contactId, address, spellings };
    const messages = await eraseFromMessages(transaction, subject);
    const events = await removeEvents(transaction, subject);
    await removeFromWebhooks(transaction, subject);
    await redactConsole(transaction, subject);
    if (subject.contactId !== null) await removeConversions(transaction, subject.contactId);
    return { ...(await removeContact(transaction, instanceId, address.key)), events, messages };
  });
}

/** Whether an instance held nothing on the address. */
export function isNothing({ contacts, events, messages, whitelisted }: Erasure): boolean {
  return contacts + events + messages === 0 && !whitelisted;
}
