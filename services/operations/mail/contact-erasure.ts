import { addressKeyOf, type EmailAddress } from "../../core/mail/address.ts";
import type { MessageDescription } from "../../core/mail/message-terms.ts";
import { redactOctets, redactText } from "../../core/mail/redaction.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  cancelCopies,
  type ErasureSubject,
  findNaming,
  findReportsNaming,
  findUnsent,
  lockContent,
  removeAbandonedMessages,
  removeDeliveries,
  removeFeedback,
  removeFromSandbox,
  removeMentions,
  replaceContent,
} from "../../store/mail/contacts/contact-erasure-messages.ts";
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
import { beginErasure, lockAddress } from "../../store/mail/contacts/contacts.ts";
import { hasObjected, keepErased, removeSuppression } from "../../store/mail/contacts/suppressions.ts";
import { findPlaces, type GivenUpPlaces, giveUpPlaces } from "../../store/mail/guard/waiting-recipients.ts";
import { announceStop } from "../../store/mail/queue/queue.ts";
import { takeRecipientsOff } from "../../store/mail/queue/single-deliveries.ts";
import type { StoredMailbox, StoredTemplate } from "../../store/mail/sends/messages.ts";
import { inTransaction } from "../../store/transactions.ts";

/** What was removed of an address; see `isNothing`. */
interface Erasure {
  readonly contacts: number;
  readonly events: number;
  readonly messages: number;
  /** It was on the whitelist. */
  readonly whitelisted: boolean;
  /** It was listed as not to be mailed, and stays so, unreadably. */
  readonly suppressed: boolean;
}

/**
 * Removes everything that an instance holds on an address: the contact, its events (and what they add to the counts),
 * its messages with their archives and what came back for them, its place on the whitelist, and its name in what is
 * kept of others: messages with several addressees, bodies of webhooks, reports. What is queued for it is not sent any
 * more. What the customer wrote himself stays: senders of campaigns, conditions of filters.
 *
 * Who had asked for no more mail (unsubscribed from the instance, complained, was listed by hand) stays suppressed by a
 * digest of the address alone, so that the next import does not undo what they asked for (GDPR, article 21 (3)).
 * @param options.keepOut suppresses the address so in any case
 */
export async function eraseAddress(
  db: Db,
  instanceId: number,
  address: EmailAddress,
  options: { readonly keepOut?: boolean } = {},
): Promise<Erasure> {
  const { unsent, redacted, ...erased } = await inTransaction(db, async (transaction) => {
    await beginErasure(transaction, instanceId);
    await lockAddress(transaction, instanceId, address.key);
    const given = await findGivenEmail(transaction, instanceId, address.key);
    const spellings = [
      ...new Set([address.key, address.text, address.asGiven, ...(given === undefined ? [] : [given])]),
    ];
    // Before the contact, as the calls that send do.
    await removeCalls(transaction, instanceId, spellings);
    const contactId = await lockContactOf(transaction, instanceId, address.key);
    const subject: ErasureSubject = { instanceId, contactId, address, spellings };
    const suppressed = await removeSuppression(transaction, { instanceId }, address.key, { readable: true });
    const objected = contactId !== null && (await hasObjected(transaction, instanceId, contactId));
    const messages = await eraseFromMessages(transaction, subject);
    const events = await removeEvents(transaction, subject);
    await removeFromWebhooks(transaction, subject);
    await redactConsole(transaction, subject);
    if (subject.contactId !== null) await removeConversions(transaction, instanceId, subject.contactId);
    const removed = await removeContact(transaction, instanceId, address.key);
    if (suppressed || objected || options.keepOut) await keepErased(transaction, instanceId, address.key);
    const { removed: sent, unsent, places, redacted } = messages;
    // Last: workers prolong all of their leases at once, and are not to wait for all that an erasure reads.
    await takeRecipientsOff(transaction, instanceId, unsent);
    await giveUpPlaces(transaction, instanceId, places);
    return { ...removed, events, messages: sent, suppressed, unsent, redacted };
  });
  // Workers make all anew that they have ready.
  if (unsent.length > 0 || redacted) await announceStop(db);
  return erased;
}

/** Whether an instance held nothing on the address. */
export function isNothing({ contacts, events, messages, whitelisted, suppressed }: Erasure): boolean {
  return contacts + events + messages === 0 && !whitelisted && !suppressed;
}

/**
 * Removes an address from everything that was sent to it: its deliveries with their archives and reports, and its
 * name in messages that went to others as well.
 * @returns how many deliveries were removed, the partitions of those that had not been sent, with the copies of them: each
 *   as often as it had some; their places in windows to come; and whether what others get was changed
 */
async function eraseFromMessages(
  transaction: Transaction,
  subject: ErasureSubject,
): Promise<{
  readonly removed: number;
  readonly unsent: readonly number[];
  readonly places: readonly GivenUpPlaces[];
  readonly redacted: boolean;
}> {
  const unsent = await findUnsent(transaction, subject);
  const reports = await findReportsNaming(transaction, subject, unsent);
  const removed = await removeDeliveries(transaction, subject);
  const queued = removed.filter(({ state }) => state === "queued").map(({ partitionId }) => partitionId);
  // A partition goes with its message.
  const places = await findPlaces(transaction, subject.instanceId, queued);
  const messageIds = [...new Set(removed.map(({ messageId }) => messageId))].sort((a, b) => a - b);
  const kept = await removeAbandonedMessages(transaction, subject.instanceId, messageIds);
  const shared = [...new Set([...kept, ...unsent.map(({ id }) => id)])];
  const addressed = new Set([
    ...removed.filter(({ role }) => role === "to").map(({ messageId }) => messageId),
    ...unsent.filter(({ addressed }) => addressed).map(({ id }) => id),
  ]);
  const copies = await cancelCopies(
    transaction,
    subject.instanceId,
    shared.filter((id) => addressed.has(id)),
  );
  places.push(...(await findPlaces(transaction, subject.instanceId, copies)));
  const naming = await findNaming(transaction, shared, subject);
  await removeMentions(transaction, naming, subject);
  let redacted = false;
  for (const id of [...naming, ...reports]) redacted = (await redactMessage(transaction, id, subject)) || redacted;
  await removeFeedback(transaction, subject);
  await removeFromSandbox(transaction, subject);
  return { removed: removed.length, unsent: [...queued, ...copies], places, redacted };
}

/** @returns whether it named the address */
async function redactMessage(transaction: Transaction, id: number, subject: ErasureSubject): Promise<boolean> {
  const own = { id, instanceId: subject.instanceId };
  const content = await lockContent(transaction, own);
  if (content === undefined) return false;
  const { template, octets, tracking, isSettled } = content;
  const description = redactDescription(content.description, subject);
  if (template !== null) {
    const without = redactTemplate(template, subject);
    if (JSON.stringify(without) === JSON.stringify(template)) return false;
    await replaceContent(transaction, own, { template: without, description });
  } else if (octets !== null) {
    // What was sent to everybody is not needed any more.
    if (isSettled) await replaceContent(transaction, own, { octets: Buffer.alloc(0), tracking: null, description });
    else {
      await replaceContent(transaction, own, {
        description,
        octets: redactOctets(octets, subject.spellings),
        tracking: tracking && redactText(tracking, subject.spellings),
      });
    }
  }
  return true;
}

function redactDescription(description: MessageDescription, { spellings }: ErasureSubject): MessageDescription {
  const redact = (text: string | null) => text && redactText(text, spellings);
  return { ...description, subject: redact(description.subject), messageId: redact(description.messageId) };
}

/**
 * A template without an addressee, and without its name in the text. The sender's own mailboxes stay: they are the
 * customer's.
 */
function redactTemplate(template: StoredTemplate, subject: ErasureSubject): StoredTemplate {
  const { to, cc, globals, ...rest } = template;
  const isOther = (mailbox: StoredMailbox) => addressKeyOf(mailbox.address) !== subject.address.key;
  const isSender = !isOther(template.from) || (template.replyTo !== undefined && !isOther(template.replyTo));
  const redact = (text: string) => (isSender ? text : redactText(text, subject.spellings));
  return {
    ...rest,
    subject: redact(template.subject),
    html: redact(template.html),
    ...(globals && {
      globals: Object.fromEntries(Object.entries(globals).map(([name, value]) => [name, redact(value)])),
    }),
    ...(to === undefined || !isOther(to) ? {} : { to }),
    ...(cc === undefined ? {} : { cc: cc.filter(isOther) }),
  };
}
