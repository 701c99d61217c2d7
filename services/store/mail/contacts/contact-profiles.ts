import { type EmailAddress, validateAddress } from "../../../core/mail/address.ts";
import type { CampaignName, Contact, ContactOperation } from "../../../core/mail/contact.ts";
import { type ContactChange, MOST_FIELDS_KIBIBYTES } from "../../../core/mail/contact-input.ts";
import type { Result } from "../../../core/result.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { joinGroups } from "./groups.ts";
import { addMissingContacts } from "./recipients.ts";

/** What of a `contact` of the instance `$1` is read from its own row and its links: a `ContactRow`, see `readContacts`. */
export const CONTACT_COLUMNS = `
  contact.*,
  array(select groups.name from contact_groups join groups
      on groups.instance_id = contact_groups.instance_id and groups.id = contact_groups.group_id
    where contact_groups.instance_id = $1 and contact_groups.contact_id = contact.id order by groups.name) as groups,
  to_json(array(select distinct campaign_numid from events
    where events.instance_id = $1 and events.contact_id = contact.id and campaign_numid is not null)) as campaign_numids,
  to_json(array(select campaign_numid from campaign_unsubscriptions as unsubscription
    where unsubscription.instance_id = $1 and unsubscription.contact_id = contact.id)) as unsubscribed_numids`;

export async function findContact(db: Db, instanceId: number, emailKey: string): Promise<Contact | undefined> {
  const [row] = await queryRows<ContactRow>(
    db,
    `select ${CONTACT_COLUMNS} from contacts as contact where instance_id = $1 and email_key = $2`,
    [instanceId, emailKey],
  );
  return row && (await readContacts(db, instanceId, [row]))[0];
}

/** The id of the contact with an address. */
export async function findContactId(db: Db, instanceId: number, emailKey: string): Promise<number | undefined> {
  const row = await db("contacts").where({ instance_id: instanceId, email_key: emailKey }).first("id");
  return row?.id;
}

/** What keeps the contact with an address from being mailed: it is invalid, or has unsubscribed from anything. */
export async function findContactStops(
  db: Db,
  instanceId: number,
  emailKey: string,
): Promise<{ readonly invalid: boolean; readonly unsubscribed: boolean } | undefined> {
  const [row] = await queryRows<{ invalid: boolean; unsubscribed: boolean }>(
    db,
    `select invalid, unsubscribed_at is not null or exists (select 1 from campaign_unsubscriptions as unsubscription
       where unsubscription.instance_id = $1 and unsubscription.contact_id = contacts.id) as unsubscribed
     from contacts where instance_id = $1 and email_key = $2`,
    [instanceId, emailKey],
  );
  return row;
}

/** Those of the keys that are contacts' already. */
export async function findKnownKeys(
  db: Db,
  instanceId: number,
  emailKeys: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await queryRows<{ email_key: string }>(
    db,
    "select email_key from contacts where instance_id = $1 and email_key = any($2)",
    [instanceId, emailKeys],
  );
  return new Set(rows.map((row) => row.email_key));
}

/**
 * Judges an address that is a contact's, or is to become one's. Beyond ASCII it must be a contact's already: submission
 * takes such recipients (RFC 6531), nobody else brings them in.
 * @returns refused with a sentence for the API's `on`, without its prefix
 */
export async function judgeContactAddress(
  db: Db,
  instanceId: number,
  text: string,
): Promise<Result<EmailAddress, Sentence>> {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (address.ok && !address.value.needsSmtputf8) return address;
  const isKnown = address.ok && (await findContactId(db, instanceId, address.value.key)) !== undefined;
  return isKnown ? address : validateAddress(text, { allowSmtputf8: false });
}

const CONTACTS_PER_READ = 1_000;

/** All contacts of an instance, or the invalid ones, by id; portion by portion, so that their number does not matter. */
export async function* streamContacts(
  db: Db,
  instanceId: number,
  only: { readonly invalid?: true } = {},
): AsyncGenerator<readonly Contact[]> {
  for (let after = 0; ; ) {
    const rows = await queryRows<ContactRow>(
      db,
      `select ${CONTACT_COLUMNS} from contacts as contact
       where instance_id = $1 and id > $2 ${only.invalid ? "and invalid" : ""} order by id limit $3`,
      [instanceId, after, CONTACTS_PER_READ],
    );
    if (rows.length > 0) yield await readContacts(db, instanceId, rows);
    const last = rows.at(-1);
    if (last === undefined || rows.length < CONTACTS_PER_READ) return;
    after = last.id;
  }
}

/**
 * Creates and updates contacts.
 * @param changes each address at most once; up to a few thousand
 * @param operation what an update is called; a creation is `created` where it is `modified`
 * @returns how many came into being, and the addresses of those that stay as they were: they would have too many custom fields
 */
export async function saveContacts(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
  operation: "modified" | "imported",
): Promise<SavedContacts> {
  return db.transaction(async (transaction) => {
    const created = await addMissingContacts(
      transaction,
      instanceId,
      changes.map(({ address }) => ({ address })),
    );
    const oversized = await applyChanges(transaction, instanceId, changes, { created, operation });
    const unmade =
      oversized.size === 0
        ? 0
        : await transaction("contacts")
            .where({ instance_id: instanceId })
            .whereIn("id", created)
            .whereIn("email_key", [...oversized])
            .delete();
    await joinGroups(
      transaction,
      instanceId,
      changes
        .filter(({ address }) => !oversized.has(address.key))
        .flatMap(({ address, groups = [] }) => groups.map((group) => ({ emailKey: address.key, group }))),
    );
    return { created: created.length - unmade, oversized };
  });
}

export interface SavedContacts {
  readonly created: number;
  /** Keys of their addresses. */
  readonly oversized: ReadonlySet<string>;
}

/** The addresses of those changes that `saveContacts` would leave out as things are. */
export async function findOversized(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
): Promise<ReadonlySet<string>> {
  const given = changes.map(({ address, fields }) => ({ emailKey: address.key, fields }));
  const rows = await queryRows<{ emailKey: string }>(
    db,
    `select given."emailKey" from jsonb_to_recordset($1::jsonb) as given ("emailKey" text, fields jsonb)
     left join contacts as contact on contact.instance_id = $2 and contact.email_key = given."emailKey"
     where ${IS_OVERSIZED}`,
    [JSON.stringify(given), instanceId],
  );
  return new Set(rows.map(({ emailKey }) => emailKey));
}

const CHANGED_FIELDS = "jsonb_strip_nulls(coalesce(contact.fields, '{}') || coalesce(given.fields, '{}'))";
/** Whether a `contact` would have more custom fields than it may, once it is as `given`. Who has more already may have less. */
const IS_OVERSIZED = `octet_length(${CHANGED_FIELDS}::text)
  > greatest(${MOST_FIELDS_KIBIBYTES * 1024}, octet_length(contact.fields::text))`;

/** @returns the keys of those that were left out */
async function applyChanges(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
  { created, operation }: { readonly created: readonly number[]; readonly operation: "modified" | "imported" },
): Promise<ReadonlySet<string>> {
  const given = changes.map(({ address, groups: _, ...change }) => ({
    ...change,
    email: address.asGiven,
    emailKey: address.key,
  }));
  const rows = await queryRows<{ emailKey: string }>(
    db,
    `with given as materialized (
       select contact.id as contact_id, now() as at, ${IS_OVERSIZED} as oversized, given.*
       from jsonb_to_recordset($1::jsonb) as given (email text, "emailKey" text, "firstName" text, "lastName" text,
         age smallint, sex text, profession text, locality text, "countryCode" text, "regionCode" text, city text,
         device text, "deviceSubtypeId" integer, invalid boolean, fields jsonb)
       join contacts as contact on contact.instance_id = $2 and contact.email_key = given."emailKey"
       order by contact.email_key for no key update of contact
     ), changed as (
     update contacts as contact set
       email = given.email,
       first_name = coalesce(given."firstName", contact.first_name),
       last_name = coalesce(given."lastName", contact.last_name),
       age = coalesce(given.age, contact.age),
       sex = coalesce(given.sex, contact.sex),
       profession = coalesce(given.profession, contact.profession),
       locality = coalesce(given.locality, contact.locality),
       country_code = coalesce(given."countryCode", contact.country_code),
       region_code = coalesce(given."regionCode", contact.region_code),
       city = coalesce(given.city, contact.city),
       device = coalesce(given.device, contact.device),
       device_subtype_id = coalesce(given."deviceSubtypeId", contact.device_subtype_id),
       fields = ${CHANGED_FIELDS},
       invalid = coalesce(given.invalid, contact.invalid),
       bounces_count_from =
         case when contact.invalid and not given.invalid then given.at else contact.bounces_count_from end,
       last_operation = case when contact.id = any($3::bigint[]) and $4 = 'modified' then 'created' else $5 end,
       updated_at = now()
     from given where contact.instance_id = $2 and contact.id = given.contact_id and not given.oversized)
     select "emailKey" from given where oversized`,
    [JSON.stringify(given), instanceId, created, operation, operation],
  );
  return new Set(rows.map(({ emailKey }) => emailKey));
}

/** A row of `CONTACT_COLUMNS`. */
export interface ContactRow {
  id: number;
  email: string;
  first_name: string;
  last_name: string;
  age: number | null;
  sex: string;
  profession: string;
  locality: string;
  country_code: string;
  region_code: string;
  city: string;
  device: string;
  device_subtype_id: number | null;
  domain_group_id: number;
  invalid: boolean;
  last_operation: ContactOperation;
  updated_at: Date;
  fields: Record<string, string>;
  groups: string[];
  campaign_numids: number[];
  unsubscribed_numids: number[];
}

/** Contacts with the names of their campaigns, which are read once for all of them. */
export async function readContacts(db: Db, instanceId: number, rows: readonly ContactRow[]): Promise<Contact[]> {
  const numids = new Set(rows.flatMap((row) => [...row.campaign_numids, ...row.unsubscribed_numids]));
  const named = await queryRows<CampaignName>(
    db,
    "select numid, name from campaigns where instance_id = $1 and numid = any($2::bigint[]) order by numid",
    [instanceId, [...numids]],
  );
  const names = new Map(named.map((campaign) => [campaign.numid, campaign]));
  return rows.map((row) => toContact(row, names));
}

function toContact(row: ContactRow, names: ReadonlyMap<number, CampaignName>): Contact {
  const campaignsOf = (numids: readonly number[]) =>
    numids.toSorted((a, b) => a - b).flatMap((numid) => names.get(numid) ?? []);
  return {
    id: row.id,
    email: row.email,
    firstName: row.first_name,
    lastName: row.last_name,
    age: row.age,
    sex: row.sex,
    profession: row.profession,
    locality: row.locality,
    countryCode: row.country_code,
    regionCode: row.region_code,
    city: row.city,
    device: row.device,
    deviceSubtypeId: row.device_subtype_id,
    domainGroupId: row.domain_group_id,
    invalid: row.invalid,
    lastOperation: row.last_operation,
    updatedAt: row.updated_at,
    fields: row.fields,
    groups: row.groups,
    campaigns: campaignsOf(row.campaign_numids),
    unsubscribedCampaigns: campaignsOf(row.unsubscribed_numids),
  };
}

/** What some contact of an instance has: columns of a CSV by their names, and custom fields. */
export interface UsedColumns {
  readonly profile: readonly string[];
  readonly fields: readonly string[];
}

/** What of an instance's contacts is filled anywhere. */
export async function listUsedColumns(db: Db, instanceId: number): Promise<UsedColumns> {
  const [used] = await queryRows<UsedColumns>(
    db,
    `select
       array_remove(array[
         case when bool_or(country_code <> '') then 'codigo_pais' end,
         case when bool_or(region_code <> '') then 'codigo_region' end,
         case when bool_or(city <> '') then 'ciudad' end,
         case when bool_or(device <> '') then 'dispositivo' end,
         case when bool_or(device_subtype_id is not null) then 'subtipo_dispositivo_id' end], null) as profile,
       array(select distinct name from contacts as contact, jsonb_object_keys(contact.fields) as name
         where contact.instance_id = $1 order by name) as fields
     from contacts where instance_id = $2`,
    [instanceId, instanceId],
  );
  return used!;
}
