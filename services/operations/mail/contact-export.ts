import type { EmailAddress } from "../../core/mail/address.ts";
import type { Contact, ContactEvent } from "../../core/mail/contact.ts";
import { neutraliseCell } from "../../core/mail/csv-cell.ts";
import { bareTagName } from "../../core/mail/personalise.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { findContact, streamContacts } from "../../store/mail/contacts/contact-profiles.ts";
import { isWhitelisted } from "../../store/mail/contacts/whitelist.ts";
import { findCopySpellings, listCopyEvents } from "../../store/mail/events/event-copies.ts";
import { listContactEvents } from "../../store/mail/events/event-pages.ts";

/** Columns of the CSV that every export has; those of `OPTIONAL_COLUMNS` follow where some contact fills them. */
const COLUMNS: readonly (readonly [name: string, read: (contact: Contact) => string | number | null])[] = [
  ["email", ({ email }) => email],
  ["nombre", ({ firstName }) => firstName],
  ["apellido", ({ lastName }) => lastName],
  ["edad", ({ age }) => age],
  ["sexo", ({ sex }) => sex],
  ["profesion", ({ profession }) => profession],
  ["localidad", ({ locality }) => locality],
  ["grupos", ({ groups }) => groups.join("|")],
];

const OPTIONAL_COLUMNS: typeof COLUMNS = [
  ["codigo_pais", ({ countryCode }) => countryCode],
  ["codigo_region", ({ regionCode }) => regionCode],
  ["ciudad", ({ city }) => city],
  ["dispositivo", ({ device }) => device],
  ["subtipo_dispositivo_id", ({ deviceSubtypeId }) => deviceSubtypeId],
];

const COLUMN_NAMES: ReadonlySet<string> = new Set([...COLUMNS, ...OPTIONAL_COLUMNS].map(([name]) => name));

/** A custom field's column: wrapped where its bare name would be read as something else. */
function columnName(field: string): string {
  return COLUMN_NAMES.has(field) || bareTagName(field) !== field ? `XYZ${field}XYZ` : field;
}

/** An instance's contacts as the CSV that `importContacts` reads, some lines at a time. */
export async function* exportContacts(db: Db, instanceId: number): AsyncGenerator<string> {
  const [used] = await queryRows<{ profile: string[]; fields: string[] }>(
    db,
    `select
       array_remove(array[
         case when bool_or(country_code <> '') then 'codigo_pais' end,
         case when bool_or(region_code <> '') then 'codigo_region' end,
         case when bool_or(city <> '') then 'ciudad' end,
         case when bool_or(device <> '') then 'dispositivo' end,
         case when bool_or(device_subtype_id is not null) then 'subtipo_dispositivo_id' end], null) as profile,
       array(select distinct name from contacts as contact, jsonb_object_keys(contact.fields) as name
         where contact.instance_id = ? order by name) as fields
     from contacts where instance_id = ?`,
    [instanceId, instanceId],
  );
  const columns = [
    ...COLUMNS,
    ...OPTIONAL_COLUMNS.filter(([name]) => used!.profile.includes(name)),
    ...used!.fields.map(
      (name) =>
        [columnName(name), ({ fields }: Contact) => (Object.hasOwn(fields, name) ? fields[name]! : "")] as const,
    ),
  ];
  yield toCsvLine(columns.map(([name]) => name));
  for await (const contacts of streamContacts(db, instanceId)) {
    yield contacts.map((contact) => toCsvLine(columns.map(([, read]) => String(read(contact) ?? "")))).join("");
  }
}

/** A message that went to an address, or that is kept of it. */
export interface SentMessage {
  readonly eeid: string;
  readonly recipient: string;
  readonly acceptedAt: Date;
  /** The archived octets, where there are any. */
  readonly octets: Buffer | null;
}

/** What came back for a message to an address: a bounce, a complaint. */
export interface ReturnedMessage {
  readonly eeid: string;
  readonly receivedAt: Date;
  readonly octets: Buffer;
}

/** Everything held on one address. */
export interface AddressRecords {
  readonly contact: Contact | undefined;
  /** Those of the contact, or of copies to an address that is none. */
  readonly events: readonly ContactEvent[];
  readonly whitelisted: boolean;
  readonly messages: readonly SentMessage[];
  readonly returned: readonly ReturnedMessage[];
}

/** @param address a contact's or not: copies leave records too */
export async function readAddressRecords(db: Db, instanceId: number, address: EmailAddress): Promise<AddressRecords> {
  const contact = await findContact(db, instanceId, address.key);
  const deliveries = await queryRows<SentMessage & { readonly id: number }>(
    db,
    `select deliveries.id, messages.eeid, deliveries.recipient, messages.created_at as "acceptedAt",
       archived_messages.octets
     from deliveries
       join partitions on partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       join messages on messages.instance_id = deliveries.instance_id and messages.id = partitions.message_id
       left join archived_messages on archived_messages.instance_id = deliveries.instance_id
         and archived_messages.delivery_id = deliveries.id
     where deliveries.instance_id = ?
       and (deliveries.contact_id = ? or deliveries.contact_id is null
         and partitions.destination = ? and split_part(deliveries.recipient, '@', 1) = ?)
     order by messages.created_at, deliveries.id`,
    [instanceId, contact?.id ?? null, address.asciiDomain, address.local],
  );
  return {
    contact,
    events: [
      ...(contact === undefined ? [] : await listContactEvents(db, contact.id)),
      ...(await listCopyEvents(db, instanceId, await findCopySpellings(db, instanceId, address))),
    ],
    whitelisted: await isWhitelisted(db, instanceId, address.key),
    messages: deliveries.map(({ id: _, ...message }) => message),
    returned: await listReturned(
      db,
      deliveries.map(({ id }) => id),
    ),
  };
}

async function listReturned(db: Db, deliveryIds: readonly number[]): Promise<ReturnedMessage[]> {
  return queryRows(
    db,
    `select partitions.eeid, inbound_messages.received_at as "receivedAt", inbound_messages.octets
     from inbound_messages
       join deliveries on deliveries.id = coalesce(inbound_messages.delivery_id, inbound_messages.about_delivery_id)
       join partitions on partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
     where inbound_messages.delivery_id = any(?::bigint[]) or inbound_messages.about_delivery_id = any(?::bigint[])
     order by inbound_messages.received_at`,
    [deliveryIds, deliveryIds],
  );
}

/** RFC 4180 §2: quoted where a cell needs it, so that it is read back as it was. No cell is a formula. */
function toCsvLine(cells: readonly string[]): string {
  const quoted = cells
    .map(neutraliseCell)
    .map((cell) => (/[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\r\n`;
}
