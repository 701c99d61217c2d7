import { type EmailAddress, validateAddress } from "../../../core/mail/address.ts";
import type { CampaignName, Contact, ContactOperation, ContactSummary } from "../../../core/mail/contact.ts";
import { type ContactChange, MOST_KIBIBYTES, type Oversized } from "../../../core/mail/contact-input.ts";
import type { Result } from "../../../core/result.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { lockContactsAt } from "./contacts.ts";
import { findExcessGroups, joinGroups } from "./groups.ts";
import { addMissingContacts } from "./recipients.ts";
import { removeValidityRows } from "./suppressions.ts";
import { takeOverListed } from "./taken-over.ts";

/** Of a `contact`. @param instance the parameter with its instance: Citus does not infer it within subqueries */
const groupNames = (instance: "$1" | "$2") => `select groups.name from contact_groups join groups
      on groups.instance_id = ${instance} and groups.id = contact_groups.group_id
    where contact_groups.instance_id = ${instance} and contact_groups.contact_id = contact.id`;

/** What lists show of a `contact` of the instance `$1`, of its own row and its links: a `SummaryRow`, see `readSummaries`. */
export const SUMMARY_COLUMNS = `
  contact.id, contact.email, contact.first_name, contact.last_name, contact.age, contact.sex, contact.profession,
  contact.locality, contact.country_code, contact.region_code, contact.city, contact.device, contact.device_subtype_id,
  contact.domain_group_id, contact.invalid, contact.last_operation, contact.updated_at,
  array(${groupNames("$1")} order by groups.name) as groups,
  to_json(array(select distinct campaign_numid from events
    where events.instance_id = $1 and events.contact_id = contact.id and campaign_numid is not null)) as campaign_numids,
  to_json(array(select campaign_numid from campaign_unsubscriptions as unsubscription
    where unsubscription.instance_id = $1 and unsubscription.contact_id = contact.id)) as unsubscribed_numids`;

/** All of a contact: a `ContactRow`. */
const CONTACT_COLUMNS = `contact.fields, ${SUMMARY_COLUMNS}`;

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

/** Of contacts in one read; fewer where they take more octets, as text, but for one that does so alone. */
const CONTACTS_PER_READ = 1_000;
const OCTETS_PER_READ = 2 * 2 ** 20;
/** How many they are at first, while it is not known what they take. */
const FIRST_CONTACTS = 100;

/** All contacts of an instance, by id; portion by portion, so that their number does not matter. */
export async function* streamContacts(db: Db, instanceId: number): AsyncGenerator<readonly Contact[]> {
  for await (const rows of contactPages<ContactRow>(db, instanceId, CONTACT_COLUMNS)) {
    yield await readContacts(db, instanceId, rows);
  }
}

/** As `streamContacts`, of the invalid ones. */
export async function* streamInvalidContacts(db: Db, instanceId: number): AsyncGenerator<readonly ContactSummary[]> {
  for await (const rows of contactPages<SummaryRow>(db, instanceId, SUMMARY_COLUMNS, "and invalid")) {
    yield await readSummaries(db, instanceId, rows);
  }
}

async function* contactPages<Row extends SummaryRow>(
  db: Db,
  instanceId: number,
  columns: string,
  condition = "",
): AsyncGenerator<readonly Row[]> {
  let limit = FIRST_CONTACTS;
  for (let after = 0; ; ) {
    const rows = await queryRows<Row>(
      db,
      `select * from (
         select page.*, sum(octet_length(page::text)) over (order by id rows between unbounded preceding and 1 preceding) as before
         from (select ${columns} from contacts as contact
           where instance_id = $1 and id > $2 ${condition} order by id limit $3) as page
       ) as page where coalesce(before, 0) < $4 order by id`,
      [instanceId, after, limit, OCTETS_PER_READ],
    );
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = last.id;
    // Those that were left out were made for nothing.
    limit = Math.min(CONTACTS_PER_READ, 2 * rows.length);
  }
}

/**
 * Creates and updates contacts.
 * @param given each address at most once; up to a few thousand
 * @param operation what an update is called; a creation is `created` where it is `modified`
 * @returns how many came into being, and the addresses of those that stay as they were: they would have too much of something
 */
export async function saveContacts(
  db: Db,
  instanceId: number,
  given: readonly ContactChange[],
  operation: "modified" | "imported",
): Promise<SavedContacts> {
  return db.transaction(async (transaction) => {
    const crowded = await findCrowded(transaction, instanceId, given);
    const changes = given.filter(({ address }) => !crowded.has(address.key));
    const created = await addMissingContacts(
      transaction,
      instanceId,
      changes.map(({ address }) => ({ address })),
    );
    const keysOfMembers = changes.flatMap(({ address, groups }) => (groups?.length ? [address.key] : []));
    // A statement of its own, so that the next one sees what others made of their groups before.
    if (keysOfMembers.length > 0) await lockContactsAt(transaction, instanceId, keysOfMembers);
    const oversized = await applyChanges(transaction, instanceId, changes, { created, operation });
    const unmade =
      oversized.size === 0
        ? 0
        : await transaction("contacts")
            .where({ instance_id: instanceId })
            .whereIn("id", created)
            .whereIn("email_key", [...oversized.keys()])
            .delete();
    const saved = changes.filter(({ address }) => !oversized.has(address.key));
    const valid = saved.filter(({ invalid }) => invalid === false);
    await removeValidityRows(
      transaction,
      instanceId,
      valid.map(({ address }) => address.key),
    );
    await takeOverListed(
      transaction,
      instanceId,
      saved.map(({ address }) => address.key),
    );
    await joinGroups(
      transaction,
      instanceId,
      saved.flatMap(({ address, groups = [] }) => groups.map((group) => ({ emailKey: address.key, group }))),
    );
    return { created: created.length - unmade, oversized: new Map([...crowded, ...oversized]) };
  });
}

/** Those of the changes for whose new groups there is no room. */
async function findCrowded(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
): Promise<ReadonlyMap<string, Oversized>> {
  const names = changes.flatMap(({ groups = [] }) => groups);
  const excess = await findExcessGroups(db, instanceId, names);
  const crowded = changes.filter(({ groups = [] }) => groups.some((group) => excess.has(group)));
  return new Map(crowded.map(({ address }) => [address.key, "instance-groups"]));
}

export interface SavedContacts {
  readonly created: number;
  /** By keys of their addresses. */
  readonly oversized: ReadonlyMap<string, Oversized>;
}

/** Those of the changes that `saveContacts` would leave out as things are, by the keys of their addresses. */
export async function findOversized(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
): Promise<SavedContacts["oversized"]> {
  const given = changes.map(({ address, fields, groups }) => ({ emailKey: address.key, fields, groups }));
  const rows = await queryRows<OversizedRow>(
    db,
    `select * from (
       select given."emailKey", ${OVERSIZED} as oversized
       from jsonb_to_recordset($1::jsonb) as given ("emailKey" text, fields jsonb, groups jsonb)
       left join contacts as contact on contact.instance_id = $2 and contact.email_key = given."emailKey"
     ) as judged where oversized is not null`,
    [JSON.stringify(given), instanceId],
  );
  const crowded = await findCrowded(db, instanceId, changes);
  return new Map([...crowded, ...rows.map(({ emailKey, oversized }) => [emailKey, oversized] as const)]);
}

interface OversizedRow {
  emailKey: string;
  oversized: Oversized;
}

const CHANGED_FIELDS = "jsonb_strip_nulls(coalesce(contact.fields, '{}') || coalesce(given.fields, '{}'))";
const octetsOf = (names: string) => `(select coalesce(sum(octet_length(name)), 0) from (${names}) as names)`;
/** What a `contact` of the instance `$2` would have too much of, once it is as `given`. Who has more already may have less. */
const OVERSIZED = `case
  when octet_length(${CHANGED_FIELDS}::text)
    > greatest(${MOST_KIBIBYTES.fields * 1024}, octet_length(contact.fields::text)) then 'fields'
  when given.groups is not null
    and ${octetsOf(`${groupNames("$2")} union select name from jsonb_array_elements_text(given.groups) as name`)}
    > greatest(${MOST_KIBIBYTES.groups * 1024}, ${octetsOf(groupNames("$2"))}) then 'groups' end`;

/** @returns those that were left out */
async function applyChanges(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
  { created, operation }: { readonly created: readonly number[]; readonly operation: "modified" | "imported" },
): Promise<SavedContacts["oversized"]> {
  const given = changes.map(({ address, ...change }) => ({
    ...change,
    email: address.asGiven,
    emailKey: address.key,
  }));
  const rows = await queryRows<OversizedRow>(
    db,
    `with given as materialized (
       select contact.id as contact_id, now() as at, ${OVERSIZED} as oversized, given.*
       from jsonb_to_recordset($1::jsonb) as given (email text, "emailKey" text, "firstName" text, "lastName" text,
         age smallint, sex text, profession text, locality text, "countryCode" text, "regionCode" text, city text,
         device text, "deviceSubtypeId" integer, invalid boolean, fields jsonb,
         groups jsonb)
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
     from given where contact.instance_id = $2 and contact.id = given.contact_id and given.oversized is null)
     select "emailKey", oversized from given where oversized is not null`,
    [JSON.stringify(given), instanceId, created, operation, operation],
  );
  return new Map(rows.map(({ emailKey, oversized }) => [emailKey, oversized]));
}

/** A row of `SUMMARY_COLUMNS`. */
export interface SummaryRow {
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
  groups: string[];
  campaign_numids: number[];
  unsubscribed_numids: number[];
}

interface ContactRow extends SummaryRow {
  fields: Record<string, string>;
}

async function readContacts(db: Db, instanceId: number, rows: readonly ContactRow[]): Promise<Contact[]> {
  const summaries = await readSummaries(db, instanceId, rows);
  return summaries.map((summary, index) => ({ ...summary, fields: rows[index]!.fields }));
}

/** Contacts with the names of their campaigns, which are read once for all of them. */
export async function readSummaries(
  db: Db,
  instanceId: number,
  rows: readonly SummaryRow[],
): Promise<ContactSummary[]> {
  const numids = new Set(rows.flatMap((row) => [...row.campaign_numids, ...row.unsubscribed_numids]));
  const named = await queryRows<CampaignName>(
    db,
    "select numid, name from campaigns where instance_id = $1 and numid = any($2::bigint[]) order by numid",
    [instanceId, [...numids]],
  );
  const names = new Map(named.map((campaign) => [campaign.numid, campaign]));
  return rows.map((row) => toSummary(row, names));
}

function toSummary(row: SummaryRow, names: ReadonlyMap<number, CampaignName>): ContactSummary {
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
    groups: row.groups,
    campaigns: campaignsOf(row.campaign_numids),
    unsubscribedCampaigns: campaignsOf(row.unsubscribed_numids),
  };
}

/** What some contact of an instance has: columns of a CSV by their names, and custom fields. */
interface UsedColumns {
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
