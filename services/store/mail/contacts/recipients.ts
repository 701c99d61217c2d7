import type { EmailAddress } from "../../../core/mail/address.ts";
import type { RecipientDsn } from "../../../core/mail/dsn-parameters.ts";
import type { ContactProfile } from "../../../core/mail/personalise.ts";
import { domainGroups } from "../../../platform/config/domain-groups.ts";
import { integers, texts } from "../../../platform/postgres/array-columns.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance, isSpread, type Own, ownRows } from "../by-instance.ts";
import { findSuppressed, isSuppressed, type SuppressingInstance } from "./suppressions.ts";
import { takeOverListed } from "./taken-over.ts";

/** Somebody to send to; names, when given, update the contact. */
export interface RecipientAddress {
  readonly address: EmailAddress;
  readonly firstName?: string;
  readonly lastName?: string;
  /** What its sender wants to be told of it. */
  readonly dsn?: RecipientDsn | undefined;
}

/** A contact as sending needs it. */
export interface KnownContact extends ContactProfile {
  readonly contactId: number;
  readonly emailKey: string;
  readonly invalid: boolean;
  /** Its address or domain is on the instance's or the operator's list (suppressions.ts). */
  readonly suppressed: boolean;
  /** By name, without the XYZ wrapping. */
  readonly customFields: Readonly<Record<string, string>>;
}

export interface Recipient extends KnownContact {
  readonly unsubscribedFromCampaign: boolean;
  readonly dsn?: RecipientDsn;
}

/** A send under a campaign: to whom. */
interface CampaignRecipients {
  readonly campaignNumid: number;
  /** Up to 50,000; an address given twice counts once, with the names it was given last. */
  readonly recipients: readonly RecipientAddress[];
}

/**
 * The contacts behind the recipients of an instance's sends. A recipient that is no contact yet becomes one.
 * Who writes several contacts adds the new ones first and locks the others then, each in the order of their addresses:
 * so nobody waits for another in a circle.
 * @returns for each send one for each distinct address, in the order in which they were first given, with its own names
 */
export async function resolveRecipients(
  db: Db,
  instanceId: number,
  sends: readonly CampaignRecipients[],
): Promise<Recipient[][]> {
  const all = byAddress(sends.flatMap((send) => send.recipients));
  const recipients = [...all.values()];
  const campaignNumids = [...new Set(sends.map(({ campaignNumid }) => campaignNumid))];
  const found = new Map(await findOrAddContacts(db, instanceId, campaignNumids, recipients));
  // What somebody else added just now was not to be seen by the statement that could not add it.
  const missed = recipients.flatMap(({ address }) => (found.has(address.key) ? [] : [address.key]));
  if (missed.length > 0) {
    for (const [key, contact] of await selectContacts(db, instanceId, campaignNumids, texts(missed)))
      found.set(key, contact);
  }
  // Where nobody is listed this costs nothing. Who is listed by hand or by its domain is looked for in vain.
  const listed = [...found.values()].filter(({ suppressed }) => suppressed).map(({ emailKey }) => emailKey);
  const taken = await takeOverListed(db, instanceId, listed);
  if (taken.length > 0) {
    for (const [key, contact] of await selectContacts(db, instanceId, campaignNumids, texts(taken)))
      found.set(key, contact);
  }
  await updateNames(db, instanceId, recipients, found);
  return sends.map((send) => {
    const resolved: Recipient[] = [];
    for (const [key, given] of sends.length === 1 ? all : byAddress(send.recipients)) {
      const contact = found.get(key);
      if (contact !== undefined) resolved.push(asRecipient(contact, send.campaignNumid, given));
    }
    return resolved;
  });
}

function byAddress(recipients: readonly RecipientAddress[]): ReadonlyMap<string, RecipientAddress> {
  const distinct = new Map<string, RecipientAddress>();
  for (const recipient of recipients) {
    const { address } = recipient;
    const earlier = distinct.get(address.key);
    distinct.set(address.key, earlier ? { ...earlier, ...definedOnly(recipient), address } : recipient);
  }
  return distinct;
}

/** Contacts, as a campaign sees them, by the keys of their addresses; addresses that are no contacts are absent. */
export async function findContacts(
  db: Db,
  instanceId: number,
  campaignNumid: number,
  emailKeys: readonly string[],
): Promise<ReadonlyMap<string, Recipient>> {
  const contacts = await selectContacts(db, instanceId, [campaignNumid], texts(emailKeys));
  return new Map([...contacts].map(([key, contact]) => [key, asRecipient(contact, campaignNumid)]));
}

/** What the custom fields of all recipients of a send may come to: they are in memory together. */
export const MOST_FIELDS_MEBIBYTES = 128;

/** Recipients have more custom fields than that. */
export class FieldsOversized extends Error {}

/** @throws FieldsOversized */
async function selectContacts(
  db: Db,
  instanceId: number,
  campaignNumids: readonly number[],
  emailKeys: Buffer,
): Promise<ReadonlyMap<string, Subscriber>> {
  const rows = await queryRows<RecipientRow>(
    db,
    `select ${recipientColumns("case when all_fields_octets <= $4 then fields end")}
     from (${FIND_CONTACTS}) as contact ${RECIPIENT_JOINS} ($3::bigint[])`,
    [instanceId, emailKeys, campaignNumids, MOST_FIELDS_MEBIBYTES * 2 ** 20],
    { rowMode: "array" },
  );
  if (rows[0]?.[FIELDS] === null) throw new FieldsOversized("the custom fields of these contacts take too much");
  return toSubscribers(rows);
}

/** The same, and those that are no contacts become such. Absent is only who was added by somebody else just now. */
async function findOrAddContacts(
  db: Db,
  instanceId: number,
  campaignNumids: readonly number[],
  recipients: readonly RecipientAddress[],
): Promise<ReadonlyMap<string, Subscriber>> {
  if (recipients.length > MOST_PREPARED_RECIPIENTS || (await isSpread(db))) {
    return findContactsAndAddOthers(db, instanceId, campaignNumids, recipients);
  }
  const rows = await queryRows<RecipientRow>(
    db,
    `with known as materialized (
       ${FIND_FEW_CONTACTS}
     ), added as (
       ${ADD_GIVEN} where email_key not in (select email_key from known) ${IN_ORDER} returning *
     )
     select ${recipientColumns("fields")} from (select * from known union all select * from added) as contact
     ${RECIPIENT_JOINS} ($7::bigint[])`,
    [instanceId, ...addressColumns(recipients), campaignNumids],
    { rowMode: "array", name: "find-or-add-contacts" },
  );
  return toSubscribers(rows);
}

/**
 * The same in statements of their own, each of which does less of many: what was just added is known without reading it.
 * On Citus each part of the other statement would go to every machine.
 */
async function findContactsAndAddOthers(
  db: Db,
  instanceId: number,
  campaignNumids: readonly number[],
  recipients: readonly RecipientAddress[],
): Promise<ReadonlyMap<string, Subscriber>> {
  const found = await selectContacts(db, instanceId, campaignNumids, keysOf(recipients));
  const others = recipients.filter(({ address }) => !found.has(address.key));
  if (others.length === 0) return found;
  const rows = await queryRows<[id: number, emailKey: string]>(
    db,
    `${ADD_GIVEN} ${IN_ORDER} returning id, email_key`,
    [instanceId, ...addressColumns(others)],
    { rowMode: "array" },
  );
  const ids = new Map(rows.map(([id, emailKey]) => [emailKey, id]));
  const suppressed = await findSuppressed(db, instanceId, [...ids.keys()]);
  const contacts = new Map(found);
  for (const { address, firstName = "", lastName = "" } of others) {
    const contactId = ids.get(address.key);
    if (contactId === undefined) continue;
    const names = [contactId, address.asGiven, address.key, firstName, lastName] as const;
    contacts.set(
      address.key,
      toSubscriber([...names, ...NEW_PROFILE, false, suppressed.has(address.key), false, null]),
    );
  }
  return contacts;
}

/** To plan the one statement for so many costs more than it does. */
const MOST_PREPARED_RECIPIENTS = 100;

/** Addresses as a table; its values are, after the instance, their `addressColumns`. */
const GIVEN_ADDRESSES = `unnest($2::text[], $3::text[], $4::integer[], $5::text[], $6::text[])
    as given (email_key, email, domain_group_id, first_name, last_name)`;

const ADD_GIVEN = `insert into contacts (instance_id, email, email_key, domain_group_id, first_name, last_name)
  select $1, email, email_key, domain_group_id, first_name, last_name from ${GIVEN_ADDRESSES}`;
const IN_ORDER = "order by email_key on conflict (instance_id, email_key) do nothing";

/**
 * By all keys at once, and not joined to them: an instance that came after the last statistics is taken for empty, and a
 * join of many keys would then go through all of its contacts for each of them.
 */
const FIND_CONTACTS = `select *, sum(octet_length(fields::text)) over () as all_fields_octets
  from contacts where instance_id = $1 and email_key = any($2::text[]) offset 0`;
/**
 * The same of few, by a plan that is kept: key by key. Of a list of keys such a plan, if it was made before there were
 * contacts, looks for none in the index, and goes through all of the instance's.
 */
const FIND_FEW_CONTACTS = `select contact.* from unnest($2::text[]) as wanted (key) cross join lateral (
    select * from contacts where instance_id = $1 and email_key = wanted.key offset 0
  ) contact`;
/**
 * Of a `contact` of instance $1 as sending needs it: a row for each campaign, of those that follow the joins, that it
 * unsubscribed from.
 */
const recipientColumns = (
  fields: string,
) => `contact.id, contact.email, contact.email_key, first_name, last_name, age, sex,
  profession, locality, ${fields} as fields, invalid, ${isSuppressed("contact.email_key")} as suppressed,
  contact.unsubscribed_at is not null as unsubscribed, unsubscription.campaign_numid as unsubscribed_from`;
const RECIPIENT_JOINS = `left join lateral (
    select campaign_numid from campaign_unsubscriptions as unsubscription
    where unsubscription.instance_id = $1 and unsubscription.contact_id = contact.id offset 0
  ) unsubscription on unsubscription.campaign_numid = any`;

/**
 * Makes contacts of the addresses that are none yet, with the names that come with them.
 * @returns the ids of the new ones
 */
export async function addMissingContacts(
  db: Db,
  instanceId: number,
  recipients: readonly RecipientAddress[],
): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    db,
    `${ADD_GIVEN}
     where email_key not in (select email_key from contacts where instance_id = $1 and email_key = any($2::text[]))
     ${IN_ORDER} returning id`,
    [instanceId, ...addressColumns(recipients)],
  );
  return rows.map((row) => row.id);
}

function addressColumns(recipients: readonly RecipientAddress[]): Buffer[] {
  return [
    keysOf(recipients),
    texts(recipients.map(({ address }) => address.asGiven)),
    integers(recipients.map(({ address }) => domainGroups.ofDomain(address.asciiDomain))),
    texts(recipients.map(({ firstName }) => firstName ?? "")),
    texts(recipients.map(({ lastName }) => lastName ?? "")),
  ];
}

const keysOf = (recipients: readonly RecipientAddress[]) => texts(recipients.map(({ address }) => address.key));

/** Writes the names that contacts were given, where they are others. */
async function updateNames(
  db: Db,
  instanceId: number,
  recipients: readonly RecipientAddress[],
  found: ReadonlyMap<string, KnownContact>,
): Promise<void> {
  const named = recipients.filter(({ address, firstName, lastName }) => {
    const contact = found.get(address.key);
    const isNamed = (given: string | undefined, kept: string | undefined) => given !== undefined && given !== kept;
    return isNamed(firstName, contact?.firstName) || isNamed(lastName, contact?.lastName);
  });
  if (named.length === 0) return;
  await queryRows(
    db,
    `with given as materialized (
       select contact.id, coalesce(given.first_name, contact.first_name) as first_name,
         coalesce(given.last_name, contact.last_name) as last_name
       from unnest($1::text[], $2::text[], $3::text[]) as given (email_key, first_name, last_name)
       join contacts as contact on contact.instance_id = $4 and contact.email_key = given.email_key
       where given.first_name <> contact.first_name or given.last_name <> contact.last_name
       order by contact.email_key for no key update of contact
     )
     update contacts set first_name = given.first_name, last_name = given.last_name, updated_at = now(),
       last_operation = 'modified'
     from given where contacts.instance_id = $4 and contacts.id = given.id`,
    [
      named.map(({ address }) => address.key),
      named.map(({ firstName }) => firstName ?? null),
      named.map(({ lastName }) => lastName ?? null),
      instanceId,
    ],
  );
}

function definedOnly({ firstName, lastName, dsn }: Omit<RecipientAddress, "address">) {
  return {
    ...(firstName === undefined ? {} : { firstName }),
    ...(lastName === undefined ? {} : { lastName }),
    ...(dsn === undefined ? {} : { dsn }),
  };
}

/** As in `recipientColumns`: of many rows, tuples cost much less. */
type RecipientRow = [
  id: number,
  email: string,
  emailKey: string,
  firstName: string,
  lastName: string,
  age: number | null,
  sex: string,
  profession: string,
  locality: string,
  fields: Record<string, string>,
  invalid: boolean,
  suppressed: boolean,
  unsubscribed: boolean,
  unsubscribedFrom: number | null,
];

/** Their place in such a row. */
const FIELDS = 9;

/** A contact, and what it unsubscribed from: everything, or some of the campaigns that were asked about. */
interface Subscriber extends KnownContact {
  readonly unsubscribed: boolean;
  readonly unsubscribedFrom: readonly number[];
}

function toSubscribers(rows: readonly RecipientRow[]): ReadonlyMap<string, Subscriber> {
  const contacts = new Map<string, Subscriber>();
  for (const row of rows) {
    const contact = toSubscriber(row);
    const { emailKey } = contact;
    const others = contacts.get(emailKey)?.unsubscribedFrom ?? NOTHING;
    const unsubscribedFrom = others.length > 0 ? [...others, ...contact.unsubscribedFrom] : contact.unsubscribedFrom;
    contacts.set(emailKey, others.length > 0 ? { ...contact, unsubscribedFrom } : contact);
  }
  return contacts;
}

/** Field by field, as lists of recipients are long. @param given the names that it was given, and what is to be told of it */
function asRecipient(
  contact: Subscriber,
  campaignNumid: number,
  given: Omit<RecipientAddress, "address"> = {},
): Recipient {
  const recipient: Recipient = {
    contactId: contact.contactId,
    email: contact.email,
    emailKey: contact.emailKey,
    firstName: given.firstName ?? contact.firstName,
    lastName: given.lastName ?? contact.lastName,
    age: contact.age,
    sex: contact.sex,
    profession: contact.profession,
    locality: contact.locality,
    customFields: contact.customFields,
    invalid: contact.invalid,
    suppressed: contact.suppressed,
    unsubscribedFromCampaign: contact.unsubscribed || contact.unsubscribedFrom.includes(campaignNumid),
  };
  return given.dsn === undefined ? recipient : { ...recipient, dsn: given.dsn };
}

const NOTHING: readonly number[] = [];
/** Of who has just become a contact: as the table has it where nothing is given. */
const NEW_PROFILE = [null, "", "", "", {}] as const;

function toSubscriber([
  contactId,
  email,
  emailKey,
  firstName,
  lastName,
  age,
  sex,
  profession,
  locality,
  customFields,
  invalid,
  suppressed,
  unsubscribed,
  unsubscribedFrom,
]: RecipientRow): Subscriber {
  return {
    contactId,
    email,
    emailKey,
    firstName,
    lastName,
    age,
    sex,
    profession,
    locality,
    customFields,
    invalid,
    suppressed,
    unsubscribed,
    unsubscribedFrom: unsubscribedFrom === null ? NOTHING : [unsubscribedFrom],
  };
}

/** A delivery whose recipient is to get no mail of its campaign. */
export interface BarredDelivery {
  readonly id: number;
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly invalid: boolean;
  readonly suppressed: boolean;
}

/** A delivery that may be barred. */
interface WaitingDelivery {
  readonly id: number;
  readonly instanceId: number;
  readonly campaignNumid: number;
}

/** A delivery to a contact. */
interface ContactDelivery extends WaitingDelivery {
  readonly contactId: number;
}

/** A copy to an address that was no contact. */
interface CopyDelivery extends WaitingDelivery {
  readonly emailKey: string;
}

/** Those of these deliveries whose contacts are invalid, suppressed, or unsubscribed from the campaign or from everything. */
export async function findBarred(db: Db, deliveries: readonly ContactDelivery[]): Promise<BarredDelivery[]> {
  const own = await ownRows(db);
  return byInstance(db, deliveries, (given) =>
    queryRows<BarredDelivery>(
      db,
      // Step by step through keys, as `loadDueDeliveries` does.
      `select given.id, given.instance_id as "instanceId", given.campaign_numid as "campaignNumid", invalid, suppressed
       from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) as given (instance_id, id, campaign_numid, contact_id),
       lateral (
         select contact.invalid, ${isSuppressed("contact.email_key", givenInstance(own))} as suppressed,
           contact.unsubscribed_at is not null or exists (
             select from campaign_unsubscriptions as gone where ${own("gone")}
               and gone.contact_id = given.contact_id and gone.campaign_numid = given.campaign_numid) as unsubscribed
         from contacts as contact where ${own("contact")} and contact.id = given.contact_id offset 0
       ) contact where invalid or suppressed or unsubscribed`,
      [
        given.map(({ instanceId }) => instanceId),
        given.map(({ id }) => id),
        given.map(({ campaignNumid }) => campaignNumid),
        given.map(({ contactId }) => contactId),
      ],
      { name: "find-barred-contacts" },
    ),
  );
}

/** Those of these copies whose addresses are suppressed, or have become contacts that are to get no mail of the campaign. */
export async function findBarredCopies(db: Db, copies: readonly CopyDelivery[]): Promise<BarredDelivery[]> {
  const own = await ownRows(db);
  const instance = givenInstance(own);
  return byInstance(db, copies, (given) =>
    queryRows<BarredDelivery>(
      db,
      `select given.id, given.instance_id as "instanceId", given.campaign_numid as "campaignNumid", invalid, suppressed
       from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) as given (instance_id, id, campaign_numid, email_key),
       lateral (select ${isSuppressed("given.email_key", instance)} as suppressed offset 0) listed,
       lateral (
         select coalesce(bool_or(contact.invalid), false) as invalid,
           coalesce(bool_or(contact.unsubscribed_at is not null or exists (
             select from campaign_unsubscriptions as gone where ${own("gone")}
               and gone.contact_id = contact.id and gone.campaign_numid = given.campaign_numid)), false) as unsubscribed
         from contacts as contact where ${instance.owns("contact")} and contact.email_key = given.email_key offset 0
       ) contact where invalid or suppressed or unsubscribed`,
      [
        given.map(({ instanceId }) => instanceId),
        given.map(({ id }) => id),
        given.map(({ campaignNumid }) => campaignNumid),
        given.map(({ emailKey }) => emailKey),
      ],
      { name: "find-barred-copies" },
    ),
  );
}

const givenInstance = (own: Own): SuppressingInstance => ({
  id: "given.instance_id",
  owns: (table) => `${own(table)} and ${table}.instance_id = given.instance_id`,
});

/** The keys of contacts' addresses, in no order; of those that are gone there is none. */
export async function listEmailKeys(db: Db, instanceId: number, contactIds: readonly number[]): Promise<string[]> {
  const rows = await queryRows<{ email_key: string }>(
    db,
    "select email_key from contacts where id = any($1) and instance_id = $2",
    [contactIds, instanceId],
  );
  return rows.map(({ email_key }) => email_key);
}
