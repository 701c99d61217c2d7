import type { EmailAddress } from "../../core/mail/address.ts";
import type { RecipientDsn } from "../../core/mail/dsn-parameters.ts";
import type { QueuedBooking } from "../../core/mail/guard/sending-limits.ts";
import { builtInValues } from "../../core/mail/personalise.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { holdErasures } from "../../store/mail/contacts/contacts.ts";
import {
  FieldsOversized,
  findContacts,
  type KnownContact,
  listEmailKeys,
  MOST_FIELDS_MEBIBYTES,
  type Recipient,
  type RecipientAddress,
  resolveRecipients,
} from "../../store/mail/contacts/recipients.ts";
import { findSuppressed } from "../../store/mail/contacts/suppressions.ts";
import { type NewEvent, recordEvents } from "../../store/mail/events/events.ts";
import type { Charge, ChargedWindow } from "../../store/mail/guard/sending-counts.ts";
import { globalValues } from "../../store/mail/instances/globals.ts";
import { enqueue, type NewDelivery, type PersonalData } from "../../store/mail/queue/queue.ts";
import type { MessageContent, ReportRequest } from "../../store/mail/sends/messages.ts";
import { noteReportRequests } from "./note-reports.ts";
import { tagsOf } from "./template-globals.ts";

/** An additional addressee of a message to one recipient. It need not be a contact, and does not become one. */
export interface SendCopy {
  readonly address: EmailAddress;
  readonly role: "cc" | "bcc";
}

/** Whose contacts, and what they are sent. */
interface AudienceSource {
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly content: MessageContent;
}

/** Those who get a message, and those who are not to be mailed and get a `not-sent` event instead. */
interface Audience {
  readonly addressees: readonly NewDelivery[];
  readonly barred: readonly BarredRecipient[];
  /** Recipients that nothing is sent to, for whatever reason. */
  readonly leftOut: readonly { readonly recipient: string; readonly dsn?: RecipientDsn }[];
}

/** An invalid contact, or an address that is suppressed; contact or, among copies, not. */
interface BarredRecipient {
  readonly contactId: number | null;
  readonly recipient: string;
  readonly suppressed: boolean;
}

/** A call that sends: to whom. */
interface AudienceRequest extends AudienceSource {
  /** An address given twice counts once. */
  readonly recipients: readonly RecipientAddress[];
  readonly copies: readonly SendCopy[];
}

/**
 * The audiences of calls that send. Recipients become contacts; who unsubscribed from the campaign is left out,
 * recipient or copy. Calls of one instance are looked up together.
 */
export async function gatherAudiences(
  transaction: Transaction,
  requests: readonly AudienceRequest[],
): Promise<Audience[]> {
  const resolved = await resolveTogether(transaction, requests);
  const audiences: Audience[] = [];
  for (const request of requests) {
    const contacts = resolved.get(request)!;
    const personalise = await makePersonalise(transaction, request);
    const keys = new Set(contacts.map(({ emailKey }) => emailKey));
    const [first] = contacts;
    // A copy shows what the recipient gets, so it is personalised for the recipient.
    const personal = first ? personalise(first) : null;
    const copies = await gatherCopies(transaction, request, { known: keys, personal });
    const direct = sortOut(contacts, personalise);
    audiences.push({
      addressees: [...direct.addressees, ...copies.addressees],
      barred: [...direct.barred, ...copies.barred],
      leftOut: direct.leftOut,
    });
  }
  return audiences;
}

/** The recipients of each call. Instances come in the order of their ids: others lock their contacts in the same. */
async function resolveTogether(
  transaction: Transaction,
  requests: readonly AudienceRequest[],
): Promise<ReadonlyMap<AudienceRequest, readonly Recipient[]>> {
  const instanceIds = new Set(requests.map(({ instanceId }) => instanceId));
  await holdErasures(transaction, [...instanceIds]);
  const resolved = new Map<AudienceRequest, readonly Recipient[]>();
  for (const instanceId of [...instanceIds].sort((a, b) => a - b)) {
    const calls = requests.filter((request) => request.instanceId === instanceId);
    const recipients = await resolveRecipients(transaction, instanceId, calls);
    for (const [index, call] of calls.entries()) resolved.set(call, recipients[index]!);
  }
  return resolved;
}

/** The audience among contacts, by their ids; those that are gone meanwhile are left out. */
export async function gatherContacts(
  transaction: Transaction,
  source: AudienceSource,
  contactIds: readonly number[],
): Promise<Audience> {
  await holdErasures(transaction, [source.instanceId]);
  const keys = await listEmailKeys(transaction, source.instanceId, contactIds);
  const contacts = await findContacts(transaction, source.instanceId, source.campaignNumid, keys);
  return sortOut([...contacts.values()], await makePersonalise(transaction, source));
}

/** A message and those whom it is for. */
interface AddressedMessage extends Omit<AudienceSource, "content"> {
  readonly eeid: string;
  /** Undefined where nobody gets a message. */
  readonly messageId: number | undefined;
  readonly audience: Audience;
  /** It goes ahead of its instance's other mail. */
  readonly goesAhead?: boolean | undefined;
  /** When they go, in the order of the audience; all at once unless given. */
  readonly bookings?: readonly QueuedBooking[] | undefined;
  /** Who is told what becomes of it. */
  readonly dsn?: ReportRequest | undefined;
}

/**
 * Queues messages for their audiences and stores the events, `sent` or `not-sent`, as of a moment; as the last thing it
 * counts what is charged for them.
 * @returns the windows of the charges, as they count now
 */
export async function queueAudiences(
  transaction: Transaction,
  messages: readonly AddressedMessage[],
  at: Date,
  charges: readonly Charge[],
): Promise<readonly ChargedWindow[]> {
  const sent = messages.flatMap((message) =>
    message.messageId === undefined ? [] : [{ ...message, messageId: message.messageId }],
  );
  const ids = await enqueue(
    transaction,
    sent.map(({ audience, goesAhead, bookings, instanceId, campaignNumid, eeid, messageId }) => ({
      instanceId,
      campaignNumid,
      eeid,
      messageId,
      deliveries: audience.addressees,
      goesAhead,
      bookings,
    })),
  );
  await noteReportRequests(transaction, sent, ids);
  const events: NewEvent[] = [
    ...sent.flatMap((message, index) =>
      message.audience.addressees.map(({ contactId, recipient }, position) => ({
        kind: "sent" as const,
        at,
        eeid: message.eeid,
        instanceId: message.instanceId,
        campaignNumid: message.campaignNumid,
        contactId,
        email: recipient,
        deliveryId: ids[index]![position]!,
      })),
    ),
    ...messages.flatMap((message) =>
      message.audience.barred.map(({ contactId, recipient, suppressed }) => ({
        kind: "not-sent" as const,
        at,
        eeid: message.eeid,
        instanceId: message.instanceId,
        campaignNumid: message.campaignNumid,
        contactId,
        email: recipient,
        ...(suppressed ? { detail: { reason: "suppressed" } } : {}),
      })),
    ),
  ];
  return recordEvents(transaction, events, charges);
}

/**
 * What a template's tags become for a contact, as it is now; an empty value is as good as none, and left out. Global
 * variables are among them where the template does not keep its own: one that nobody sends, or a campaign's from before
 * templates did.
 */
export async function makePersonalise(
  db: Db,
  { instanceId, content }: Pick<AudienceSource, "instanceId" | "content">,
): Promise<(contact: KnownContact) => PersonalData | null> {
  if (content.kind === "finished") return () => null;
  const tags = tagsOf(content.template);
  const kept = content.template.globals;
  const others =
    kept === undefined && tags.size > 0 ? await globalValues(db, instanceId, tags) : new Map<string, string>();
  return (contact) => ({
    name: `${contact.firstName} ${contact.lastName}`.trim(),
    tags: tagValues(tags, contact, { kept: new Set(Object.keys(kept ?? {})), others }),
  });
}

function sortOut(
  contacts: readonly Recipient[],
  personalise: (contact: KnownContact) => PersonalData | null,
): Audience {
  return {
    addressees: contacts
      .filter((contact) => !isBarred(contact) && !contact.unsubscribedFromCampaign)
      .map((contact) => ({
        contactId: contact.contactId,
        role: "to" as const,
        recipient: contact.email,
        destination: contact.emailKey.slice(contact.emailKey.lastIndexOf("@") + 1),
        personal: personalise(contact),
        dsn: contact.dsn,
      })),
    leftOut: contacts
      .filter((contact) => isBarred(contact) || contact.unsubscribedFromCampaign)
      .map(({ email: recipient, dsn }) => ({ recipient, ...(dsn === undefined ? {} : { dsn }) })),
    barred: contacts
      .filter(isBarred)
      .map(({ contactId, email, suppressed }) => ({ contactId, recipient: email, suppressed })),
  };
}

const isBarred = ({ invalid, suppressed }: KnownContact) => invalid || suppressed;

async function gatherCopies(
  transaction: Transaction,
  source: Omit<AudienceSource, "content"> & { readonly copies: readonly SendCopy[] },
  recipient: { readonly known: ReadonlySet<string>; readonly personal: PersonalData | null },
): Promise<Omit<Audience, "leftOut">> {
  const copies = distinctCopies(source.copies, recipient.known);
  if (copies.size === 0) return { addressees: [], barred: [] };
  const { instanceId } = source;
  const contacts = await findContacts(transaction, instanceId, source.campaignNumid, [...copies.keys()]);
  const strangers = [...copies.keys()].filter((key) => !contacts.has(key));
  const suppressed = await findSuppressed(transaction, instanceId, strangers);
  const personalOctets = recipient.personal === null ? 0 : Buffer.byteLength(JSON.stringify(recipient.personal));
  if (personalOctets * copies.size > MOST_FIELDS_MEBIBYTES * 2 ** 20) {
    throw new FieldsOversized("what the copies show of their recipient takes too much");
  }
  const addressees: NewDelivery[] = [];
  const barred: BarredRecipient[] = [];
  for (const [key, { address, role }] of copies) {
    const contact = contacts.get(key);
    const { asGiven, asciiDomain } = address;
    const isListed = contact?.suppressed ?? suppressed.has(key);
    if (contact?.invalid || isListed)
      barred.push({ contactId: contact?.contactId ?? null, recipient: asGiven, suppressed: isListed });
    else if (!contact?.unsubscribedFromCampaign) {
      const { personal } = recipient;
      const contactId = contact?.contactId ?? null;
      addressees.push({ contactId, role, recipient: asGiven, destination: asciiDomain, personal });
    }
  }
  return { addressees, barred };
}

/** An address gets one message, whatever the fields it stands in. */
function distinctCopies(copies: readonly SendCopy[], recipients: ReadonlySet<string>): Map<string, SendCopy> {
  const distinct = new Map<string, SendCopy>();
  for (const copy of copies) {
    const { key } = copy.address;
    if (!recipients.has(key) && !distinct.has(key)) distinct.set(key, copy);
  }
  return distinct;
}

/** By what a contact has, not by tag: a template may hold any number of tags that mean nothing. */
function tagValues(
  tags: ReadonlySet<string>,
  contact: KnownContact,
  globals: { readonly kept: ReadonlySet<string>; readonly others: ReadonlyMap<string, string> },
): Record<string, string> {
  if (tags.size === 0) return {};
  const values = new Map<string, string>();
  // In the order of rank (see `tagValue`): what comes later counts.
  for (const known of [globals.others, builtInValues(contact), Object.entries(contact.customFields)]) {
    for (const [name, value] of known) {
      if (!tags.has(name)) continue;
      // An empty value counts as well, and not the global variable of its name.
      if (value === "" && !globals.kept.has(name)) values.delete(name);
      else values.set(name, value);
    }
  }
  return Object.fromEntries(values);
}
