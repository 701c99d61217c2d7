import type { EmailAddress } from "../core/mail/address.ts";
import type { ContactProfile } from "../core/mail/personalise.ts";
import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { domainGroups } from "../platform/domain-groups.ts";
import { EVENT_KINDS } from "./event-kinds.ts";
import { recordEvents } from "./events.ts";

/** Somebody to send to; names, when given, update the contact. */
export interface RecipientAddress {
  readonly address: EmailAddress;
  readonly firstName?: string;
  readonly lastName?: string;
}

/** A contact as sending needs it. */
export interface KnownContact extends ContactProfile {
  readonly contactId: number;
  readonly emailKey: string;
  readonly invalid: boolean;
  readonly whitelisted: boolean;
  /** By name, without the XYZ wrapping. */
  readonly customFields: Readonly<Record<string, string>>;
}

export interface Recipient extends KnownContact {
  readonly unsubscribedFromCampaign: boolean;
}

/**
 * The contacts behind the recipients of a send. A recipient that is no contact yet becomes one.
 * @param recipients up to 50,000; an address given twice counts once, with the names it was given last
 * @returns one for each distinct address, in the order in which they were first given
 */
export async function resolveRecipients(
  db: Db,
  instanceId: number,
  campaignNumid: number,
  recipients: readonly RecipientAddress[],
): Promise<Recipient[]> {
  const distinct = new Map<string, RecipientAddress>();
  for (const recipient of recipients) {
    const { address } = recipient;
    distinct.set(address.key, { ...distinct.get(address.key), ...definedOnly(recipient), address });
  }
  await addMissingContacts(db, instanceId, [...distinct.values()]);
  await updateNames(db, instanceId, [...distinct.values()]);
  const found = await findContacts(db, instanceId, campaignNumid, [...distinct.keys()]);
  return [...distinct.keys()].flatMap((key) => found.get(key) ?? []);
}

/** Contacts, as a campaign sees them, by the keys of their addresses; addresses that are no contacts are absent. */
export async function findContacts(
  db: Db,
  instanceId: number,
  campaignNumid: number,
  emailKeys: readonly string[],
): Promise<ReadonlyMap<string, Recipient>> {
  const rows = await queryRows<RecipientRow>(
    db,
    `select contact.id, contact.email, contact.email_key, first_name, last_name, age, sex, profession, locality, fields,
       invalid, whitelist.email_key is not null as whitelisted,
       unsubscription.at is not null or contact.unsubscribed_at is not null as unsubscribed
     from unnest(?::text[]) as given (email_key)
     join contacts as contact on contact.instance_id = ? and contact.email_key = given.email_key
     left join whitelist on whitelist.instance_id = contact.instance_id and whitelist.email_key = contact.email_key
     left join campaign_unsubscriptions as unsubscription
       on unsubscription.contact_id = contact.id and unsubscription.campaign_numid = ?`,
    [emailKeys, instanceId, campaignNumid],
  );
  return new Map(rows.map((row) => [row.email_key, toRecipient(row)]));
}

/**
 * Makes contacts of the addresses that are none yet, with the names that come with them.
 * @returns the ids of the new ones
 */
export async function addMissingContacts(
  db: Db,
  instanceId: number,
  recipients: readonly RecipientAddress[],
): Promise<number[]> {
  // In the order of the keys, so that two sends to the same strangers cannot wait for each other in a circle.
  const rows = await queryRows<{ id: number }>(
    db,
    `insert into contacts (instance_id, email, email_key, domain_group_id, first_name, last_name)
     select ?, email, email_key, domain_group_id, first_name, last_name
     from unnest(?::text[], ?::text[], ?::smallint[], ?::text[], ?::text[])
       as given (email, email_key, domain_group_id, first_name, last_name)
     where not exists
       (select 1 from contacts as known where known.instance_id = ? and known.email_key = given.email_key)
     order by email_key
     on conflict (instance_id, email_key) do nothing
     returning id`,
    [
      instanceId,
      recipients.map(({ address }) => address.asGiven),
      recipients.map(({ address }) => address.key),
      recipients.map(({ address }) => domainGroups.ofDomain(address.asciiDomain)),
      recipients.map(({ firstName }) => firstName ?? ""),
      recipients.map(({ lastName }) => lastName ?? ""),
      instanceId,
    ],
  );
  return rows.map((row) => row.id);
}

async function updateNames(db: Db, instanceId: number, recipients: readonly RecipientAddress[]): Promise<void> {
  const named = recipients.filter(({ firstName, lastName }) => firstName !== undefined || lastName !== undefined);
  if (named.length === 0) return;
  await queryRows(
    db,
    `with given as materialized (
       select contact.id, coalesce(given.first_name, contact.first_name) as first_name,
         coalesce(given.last_name, contact.last_name) as last_name
       from unnest(?::text[], ?::text[], ?::text[]) as given (email_key, first_name, last_name)
       join contacts as contact on contact.instance_id = ? and contact.email_key = given.email_key
       where given.first_name <> contact.first_name or given.last_name <> contact.last_name
       order by contact.email_key for update of contact
     )
     update contacts set first_name = given.first_name, last_name = given.last_name, updated_at = now(),
       last_operation = 'modified'
     from given where contacts.id = given.id`,
    [
      named.map(({ address }) => address.key),
      named.map(({ firstName }) => firstName ?? null),
      named.map(({ lastName }) => lastName ?? null),
      instanceId,
    ],
  );
}

/** Why a contact becomes invalid, and what the event says of it. */
export interface InvalidationCause {
  /** Only a `request` confirms a contact that is invalid already with another event. */
  readonly reason: "request" | "hard-bounces" | "complaint";
  readonly at: Date;
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
  return withUnlistedContact(db, instanceId, contactId, async (transaction, contact) => {
    if (contact.invalid && reason !== "request") return "already-invalid";
    await transaction("contacts")
      .where({ id: contactId })
      .update({ invalid: true, last_operation: "invalidated", updated_at: transaction.fn.now() });
    await recordEvents(transaction, [{ ...cause, instanceId, contactId, kind: "invalidated", detail: { reason } }]);
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
  at: Date,
): Promise<Exclude<ValidityChange, "already-invalid">> {
  return withUnlistedContact(db, instanceId, contactId, async (transaction) => {
    await transaction("contacts").where({ id: contactId }).update({
      invalid: false,
      bounces_count_from: at,
      last_operation: "revalidated",
      updated_at: transaction.fn.now(),
    });
    await recordEvents(transaction, [{ instanceId, contactId, at, kind: "revalidated" }]);
    return "done" as const;
  });
}

/**
 * Different messages to a contact that bounced hard since it was last revalidated. Events without a delivery
 * (imported ones) count one each.
 */
export async function countHardBouncedMessages(db: Db, contactId: number): Promise<number> {
  const rows = await queryRows<{ messages: number }>(
    db,
    `select count(distinct coalesce(events.delivery_id, -events.id))::int as messages
     from events join contacts on contacts.id = events.contact_id
     where events.contact_id = ? and events.kind = ? and events.at >= contacts.bounces_count_from`,
    [contactId, EVENT_KINDS["hard-bounce"]],
  );
  return rows[0]!.messages;
}

/**
 * Takes a contact off a campaign's recipients and stores the event; a second time does neither.
 * @returns whether it was done now; false also for a contact or campaign that the instance does not have
 */
export async function unsubscribeContact(
  db: Db,
  instanceId: number,
  contactId: number,
  from: { readonly campaignNumid: number; readonly eeid?: string; readonly deliveryId?: number; readonly at: Date },
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const rows = await queryRows(
      transaction,
      `insert into campaign_unsubscriptions (contact_id, campaign_numid, at)
       select contacts.id, campaigns.numid, ? from contacts join campaigns using (instance_id)
       where instance_id = ? and contacts.id = ? and campaigns.numid = ?
       on conflict do nothing returning 1`,
      [from.at, instanceId, contactId, from.campaignNumid],
    );
    if (rows.length === 0) return false;
    await transaction("contacts")
      .where({ id: contactId })
      .update({ last_operation: "unsubscribed", updated_at: transaction.fn.now() });
    await recordEvents(transaction, [{ ...from, instanceId, contactId, kind: "unsubscribed" }]);
    return true;
  });
}

/**
 * Holds an address until the transaction ends. Whoever whitelists an address or changes a contact's validity does
 * so first: otherwise a contact could become invalid after its whitelisting had been answered.
 */
export async function lockAddress(transaction: Transaction, instanceId: number, emailKey: string): Promise<void> {
  await transaction.raw("select pg_advisory_xact_lock(hashtextextended(?, ?))", [emailKey, instanceId]);
}

async function withUnlistedContact<Outcome>(
  db: Db,
  instanceId: number,
  contactId: number,
  change: (transaction: Transaction, contact: { readonly invalid: boolean }) => Promise<Outcome>,
): Promise<Outcome | "whitelisted" | "unknown"> {
  return db.transaction(async (transaction) => {
    const known = await transaction("contacts").where({ instance_id: instanceId, id: contactId }).first("email_key");
    if (known === undefined) return "unknown";
    await lockAddress(transaction, instanceId, known.email_key);
    const listed = await transaction("whitelist")
      .where({ instance_id: instanceId, email_key: known.email_key })
      .first("email_key");
    if (listed !== undefined) return "whitelisted";
    const contact = await transaction("contacts").where({ id: contactId }).forUpdate().first("invalid");
    return contact === undefined ? "unknown" : change(transaction, contact);
  });
}

function definedOnly({ firstName, lastName }: RecipientAddress): Omit<RecipientAddress, "address"> {
  return { ...(firstName === undefined ? {} : { firstName }), ...(lastName === undefined ? {} : { lastName }) };
}

interface RecipientRow {
  id: number;
  email: string;
  email_key: string;
  first_name: string;
  last_name: string;
  age: number | null;
  sex: string;
  profession: string;
  locality: string;
  fields: Record<string, string>;
  invalid: boolean;
  whitelisted: boolean;
  unsubscribed: boolean;
}

function toRecipient(row: RecipientRow): Recipient {
  return {
    contactId: row.id,
    email: row.email,
    emailKey: row.email_key,
    firstName: row.first_name,
    lastName: row.last_name,
    age: row.age,
    sex: row.sex,
    profession: row.profession,
    locality: row.locality,
    customFields: row.fields,
    invalid: row.invalid,
    whitelisted: row.whitelisted,
    unsubscribedFromCampaign: row.unsubscribed,
  };
}
