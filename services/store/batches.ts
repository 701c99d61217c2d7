import { randomUUID } from "node:crypto";
import type { EmailAddress } from "../core/mail/address.ts";
import type { EventKind } from "../core/mail/event-kind.ts";
import { builtInValues, parseTemplate, tagValue } from "../core/mail/personalise.ts";
import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { type ArchiveSummary, summariseArchive } from "./archive.ts";
import { findContacts, type KnownContact, type RecipientAddress, resolveRecipients } from "./contacts.ts";
import { eventKindOf } from "./event-kinds.ts";
import { type NewEvent, recordEvents } from "./events.ts";
import { globalValues } from "./globals.ts";
import { addMessage, type MessageContent, type StoredTemplate } from "./messages.ts";
import { enqueue, type NewDelivery, type PersonalData } from "./queue.ts";

/** An additional addressee of a message to one recipient. It need not be a contact, and does not become one. */
export interface SendCopy {
  readonly address: EmailAddress;
  readonly role: "cc" | "bcc";
}

/** One call that sends: an operation of the API, or a message submitted by SMTP. */
export interface Send {
  readonly instanceId: number;
  readonly campaignNumid: number;
  /** `api`, `smtp`, or the console user's login. */
  readonly creator: string;
  readonly content: MessageContent;
  /** Domain of the From field as A-labels: whose DKIM key signs. */
  readonly senderDomain: string;
  /** An address given twice gets one message. */
  readonly recipients: readonly RecipientAddress[];
  readonly copies: readonly SendCopy[];
  /** Keep the exact octets that each recipient gets. */
  readonly archive: boolean;
  /** An earlier batch of the same instance (see `findBatch`) that this send joins. */
  readonly reuseEeid?: string | undefined;
}

export interface AcceptedSend {
  readonly eeid: string;
  /** Messages that will be sent, copies included; invalid and unsubscribed contacts are left out. */
  readonly sent: number;
}

/**
 * Accepts a send: recipients become contacts, and batch, message, partitions, deliveries and events are stored.
 * Durable, and visible to the delivery workers, when the caller's transaction commits: then `announceMail`, and answer.
 * An invalid contact gets a `not-sent` event and no message; one that unsubscribed from the campaign gets neither,
 * recipient or copy.
 * @throws when `reuseEeid` is no batch of the instance
 */
export async function acceptSend(transaction: Transaction, send: Send): Promise<AcceptedSend> {
  const eeid = send.reuseEeid ?? randomUUID();
  const at = await openBatch(transaction, eeid, send);
  const audience = await gatherAudience(transaction, send);
  if (audience.addressees.length > 0) {
    const messageId = await addMessage(transaction, { ...send, eeid });
    const deliveries = await enqueue(transaction, { eeid, messageId, deliveries: audience.addressees });
    await recordEvents(
      transaction,
      deliveries.map((delivery) => eventOf("sent", delivery)),
    );
  }
  await recordEvents(
    transaction,
    audience.invalid.map((contact) => eventOf("not-sent", contact)),
  );
  return { eeid, sent: audience.addressees.length };

  function eventOf(
    kind: "sent" | "not-sent",
    who: { readonly contactId: number | null; readonly recipient: string; readonly id?: number },
  ): NewEvent {
    return {
      kind,
      at,
      eeid,
      instanceId: send.instanceId,
      campaignNumid: send.campaignNumid,
      contactId: who.contactId,
      email: who.recipient,
      ...(who.id === undefined ? {} : { deliveryId: who.id }),
    };
  }
}

/** A batch as `eeid_info` shows it. */
export interface Batch {
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly creator: string;
  readonly createdAt: Date;
  readonly modifiedAt: Date;
  readonly state: "queued" | "sending" | "sent" | "cancelled";
  readonly partitions: number;
  /** Partitions that some worker took, finished ones included. */
  readonly partitionsTaken: number;
  readonly partitionsFinished: number;
  /** Recipients refused for good. */
  readonly refused: number;
  /** Only of a batch sent with `archive`. */
  readonly archive?: ArchiveSummary;
}

/** @returns undefined when the instance has no such batch */
export async function findBatch(db: Db, instanceId: number, eeid: string): Promise<Batch | undefined> {
  const rows = await queryRows<BatchRow>(
    db,
    `select b.*, p.*, (select bool_or(m.archive) from messages m where m.eeid = b.eeid) as archive
     from batches b cross join lateral (
       select count(*)::int as partitions, count(taken_at)::int as taken,
              (count(*) filter (where state = 'finished'))::int as finished,
              coalesce(sum(refused), 0)::int as refused, max(modified_at) as partitions_modified_at
       from partitions where partitions.eeid = b.eeid) p
     where b.eeid = ? and b.instance_id = ?`,
    [eeid, instanceId],
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  return {
    eeid: row.eeid,
    campaignNumid: row.campaign_numid,
    creator: row.creator,
    createdAt: row.created_at,
    modifiedAt: new Date(Math.max(row.modified_at.getTime(), row.partitions_modified_at?.getTime() ?? 0)),
    state: stateOf(row),
    partitions: row.partitions,
    partitionsTaken: row.taken,
    partitionsFinished: row.finished,
    refused: row.refused,
    ...(row.archive ? { archive: await summariseArchive(db, row.eeid) } : {}),
  };
}

/** Somebody that a batch was for, with what happened since, oldest first. */
export interface BatchContact {
  readonly email: string;
  readonly events: readonly { readonly kind: EventKind; readonly at: Date }[];
}

/** Everybody who has an event of a batch, copies and invalid contacts included. */
export async function listBatchContacts(db: Db, instanceId: number, eeid: string): Promise<BatchContact[]> {
  const rows = await queryRows<{ email: string; kind: number; at: Date }>(
    db,
    `select coalesce(contacts.email, events.email) as email, events.kind, events.at
     from events left join contacts on contacts.id = events.contact_id
     where events.eeid = ? and events.instance_id = ? order by events.at, events.id`,
    [eeid, instanceId],
  );
  const contacts = new Map<string, { kind: EventKind; at: Date }[]>();
  for (const { email, kind, at } of rows) {
    const events = contacts.get(email) ?? [];
    events.push({ kind: eventKindOf(kind), at });
    contacts.set(email, events);
  }
  return [...contacts].map(([email, events]) => ({ email, events }));
}

interface BatchRow {
  eeid: string;
  campaign_numid: number;
  creator: string;
  created_at: Date;
  modified_at: Date;
  cancelled_at: Date | null;
  partitions: number;
  taken: number;
  finished: number;
  refused: number;
  partitions_modified_at: Date | null;
  archive: boolean | null;
}

function stateOf(row: BatchRow): Batch["state"] {
  if (row.cancelled_at !== null) return "cancelled";
  if (row.finished === row.partitions) return "sent";
  return row.taken === 0 ? "queued" : "sending";
}

/** @returns the moment of acceptance, by the database's clock */
async function openBatch(transaction: Transaction, eeid: string, send: Send): Promise<Date> {
  if (send.reuseEeid !== undefined) {
    const rows = await queryRows<{ modified_at: Date }>(
      transaction,
      "update batches set modified_at = now() where eeid = ? and instance_id = ? returning modified_at",
      [eeid, send.instanceId],
    );
    if (rows.length === 0) throw new Error(`${eeid} is no batch of instance ${send.instanceId}`);
    return rows[0]!.modified_at;
  }
  const [row] = await transaction("batches").insert(
    { eeid, instance_id: send.instanceId, campaign_numid: send.campaignNumid, creator: send.creator },
    ["created_at"],
  );
  return row.created_at;
}

interface Audience {
  readonly addressees: readonly NewDelivery[];
  readonly invalid: readonly { readonly contactId: number; readonly recipient: string }[];
}

async function gatherAudience(transaction: Transaction, send: Send): Promise<Audience> {
  const contacts = await resolveRecipients(transaction, send.instanceId, send.campaignNumid, send.recipients);
  const personalise = await makePersonalise(transaction, send);
  const known = new Set(contacts.map(({ emailKey }) => emailKey));
  const [first] = contacts;
  // A copy shows what the recipient gets, so it is personalised for the recipient.
  const copies = await gatherCopies(transaction, send, { known, personal: first ? personalise(first) : null });
  return {
    addressees: [
      ...contacts
        .filter((contact) => !contact.invalid && !contact.unsubscribedFromCampaign)
        .map((contact) => ({
          contactId: contact.contactId,
          role: "to" as const,
          recipient: contact.email,
          destination: contact.emailKey.slice(contact.emailKey.lastIndexOf("@") + 1),
          personal: personalise(contact),
        })),
      ...copies.addressees,
    ],
    invalid: [
      ...contacts.filter((contact) => contact.invalid).map(({ contactId, email }) => ({ contactId, recipient: email })),
      ...copies.invalid,
    ],
  };
}

async function gatherCopies(
  transaction: Transaction,
  send: Send,
  recipient: { readonly known: ReadonlySet<string>; readonly personal: PersonalData | null },
): Promise<Audience> {
  const copies = distinctCopies(send.copies, recipient.known);
  if (copies.size === 0) return { addressees: [], invalid: [] };
  const contacts = await findContacts(transaction, send.instanceId, send.campaignNumid, [...copies.keys()]);
  const addressees: NewDelivery[] = [];
  const invalid: { contactId: number; recipient: string }[] = [];
  for (const [key, { address, role }] of copies) {
    const contact = contacts.get(key);
    const { asGiven, asciiDomain } = address;
    if (contact?.invalid) invalid.push({ contactId: contact.contactId, recipient: asGiven });
    else if (!contact?.unsubscribedFromCampaign) {
      const { personal } = recipient;
      const contactId = contact?.contactId ?? null;
      addressees.push({ contactId, role, recipient: asGiven, destination: asciiDomain, personal });
    }
  }
  return { addressees, invalid };
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

/** What is kept of a contact for rendering: only what the template shows of it, as it is now. */
async function makePersonalise(db: Db, send: Send): Promise<(contact: KnownContact) => PersonalData | null> {
  if (send.content.kind === "finished") return () => null;
  const tags = tagsOf(send.content.template);
  const globals = tags.length > 0 ? await globalValues(db, send.instanceId) : new Map<string, string>();
  return (contact) => ({
    name: `${contact.firstName} ${contact.lastName}`.trim(),
    tags: tagValues(tags, contact, globals),
  });
}

function tagsOf({ subject, html }: StoredTemplate): string[] {
  const parts = [...parseTemplate(subject), ...parseTemplate(html)];
  return [...new Set(parts.flatMap((part) => (typeof part === "string" ? [] : [part.tag])))];
}

function tagValues(
  tags: readonly string[],
  contact: KnownContact,
  globals: ReadonlyMap<string, string>,
): Record<string, string> {
  const values = {
    system: new Map<string, string>(),
    customFields: new Map(Object.entries(contact.customFields)),
    builtIns: builtInValues(contact),
    globals,
  };
  return Object.fromEntries(tags.map((tag) => [tag, tagValue(tag, values)]));
}
