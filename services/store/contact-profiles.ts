import type { CampaignName, Contact, ContactOperation } from "../core/mail/contact.ts";
import type { ContactChange } from "../core/mail/contact-input.ts";
import { type Db, queryRows } from "../platform/db.ts";
import { addMissingContacts } from "./contacts.ts";
import { joinGroups } from "./groups.ts";

/** What of a contact is read from its own row, groups and campaigns. */
const CONTACT_COLUMNS = `
  contact.*,
  array(select groups.name from contact_groups join groups on groups.id = contact_groups.group_id
    where contact_groups.contact_id = contact.id order by groups.name) as groups,
  (select coalesce(jsonb_agg(jsonb_build_object('numid', numid, 'name', name) order by numid), '[]')
    from (select distinct campaign_numid from events where events.contact_id = contact.id) as seen
    join campaigns on campaigns.numid = seen.campaign_numid and campaigns.instance_id = contact.instance_id)
    as campaigns,
  (select coalesce(jsonb_agg(jsonb_build_object('numid', numid, 'name', name) order by numid), '[]') from campaigns
    join campaign_unsubscriptions on campaign_numid = numid where campaign_unsubscriptions.contact_id = contact.id)
    as unsubscribed_campaigns`;

export async function findContact(db: Db, instanceId: number, emailKey: string): Promise<Contact | undefined> {
  const [row] = await queryRows<ContactRow>(
    db,
    `select ${CONTACT_COLUMNS} from contacts as contact where instance_id = ? and email_key = ?`,
    [instanceId, emailKey],
  );
  return row && toContact(row);
}

/** The id of the contact with an address. */
export async function findContactId(db: Db, instanceId: number, emailKey: string): Promise<number | undefined> {
  const row = await db("contacts").where({ instance_id: instanceId, email_key: emailKey }).first("id");
  return row?.id;
}

const CONTACTS_PER_READ = 500;

/** All contacts of an instance, or the invalid ones, by id; read bit by bit, so that their number does not matter. */
export async function* streamContacts(
  db: Db,
  instanceId: number,
  only: { readonly invalid?: true } = {},
): AsyncGenerator<Contact> {
  for (let after = 0; ; ) {
    const rows = await queryRows<ContactRow>(
      db,
      `select ${CONTACT_COLUMNS} from contacts as contact
       where instance_id = ? and id > ? ${only.invalid ? "and invalid" : ""} order by id limit ?`,
      [instanceId, after, CONTACTS_PER_READ],
    );
    for (const row of rows) yield toContact(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < CONTACTS_PER_READ) return;
    after = last.id;
  }
}

/**
 * Creates and updates contacts.
 * @param changes each address at most once; up to a few thousand
 * @param operation what an update is called; a creation is `created` where it is `modified`
 * @returns how many came into being
 */
export async function saveContacts(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
  operation: "modified" | "imported",
): Promise<{ readonly created: number }> {
  return db.transaction(async (transaction) => {
    const created = await addMissingContacts(
      transaction,
      instanceId,
      changes.map(({ address }) => ({ address })),
    );
    await applyChanges(transaction, instanceId, changes, { created, operation });
    await joinGroups(
      transaction,
      instanceId,
      changes.flatMap(({ address, groups = [] }) => groups.map((group) => ({ emailKey: address.key, group }))),
    );
    return { created: created.length };
  });
}

async function applyChanges(
  db: Db,
  instanceId: number,
  changes: readonly ContactChange[],
  { created, operation }: { readonly created: readonly number[]; readonly operation: "modified" | "imported" },
): Promise<void> {
  const given = changes.map(({ address, groups: _, ...change }) => ({
    ...change,
    email: address.asGiven,
    emailKey: address.key,
  }));
  await queryRows(
    db,
    `with given as materialized (
       select contact.id as contact_id, given.*
       from jsonb_to_recordset(?::jsonb) as given (email text, "emailKey" text, "firstName" text, "lastName" text,
         age smallint, sex text, profession text, locality text, "countryCode" text, "regionCode" text, city text,
         device text, "deviceSubtypeId" integer, invalid boolean, fields jsonb)
       join contacts as contact on contact.instance_id = ? and contact.email_key = given."emailKey"
       order by contact.email_key for update of contact
     )
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
       fields = jsonb_strip_nulls(contact.fields || coalesce(given.fields, '{}')),
       invalid = coalesce(given.invalid, contact.invalid),
       bounces_count_from =
         case when contact.invalid and not given.invalid then now() else contact.bounces_count_from end,
       last_operation = case when contact.id = any(?::bigint[]) and ? = 'modified' then 'created' else ? end,
       updated_at = now()
     from given where contact.id = given.contact_id`,
    [JSON.stringify(given), instanceId, created, operation, operation],
  );
}

interface ContactRow {
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
  campaigns: CampaignName[];
  unsubscribed_campaigns: CampaignName[];
}

function toContact(row: ContactRow): Contact {
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
    campaigns: row.campaigns,
    unsubscribedCampaigns: row.unsubscribed_campaigns,
  };
}
