import type { EmailAddress } from "../core/mail/address.ts";
import type { Contact, ContactEvent } from "../core/mail/contact.ts";
import { type Db, queryRows } from "../platform/db.ts";
import { findContact, streamContacts } from "./contact-profiles.ts";
import { listContactEvents } from "./event-pages.ts";
import { isWhitelisted } from "./whitelist.ts";

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

/** An instance's contacts as the CSV that `importContacts` reads, line by line. */
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
    ...used!.fields.map((name) => [name, (contact: Contact) => contact.fields[name] ?? ""] as const),
  ];
  yield toCsvLine(columns.map(([name]) => name));
  for await (const contact of streamContacts(db, instanceId)) {
    yield toCsvLine(columns.map(([, read]) => String(read(contact) ?? "")));
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

/** Everything held on one address. */
export interface AddressRecords {
  readonly contact: Contact | undefined;
  readonly events: readonly ContactEvent[];
  readonly whitelisted: boolean;
  readonly messages: readonly SentMessage[];
}

/** @param address a contact's or not: copies leave records too */
export async function readAddressRecords(db: Db, instanceId: number, address: EmailAddress): Promise<AddressRecords> {
  const contact = await findContact(db, instanceId, address.key);
  const messages = await queryRows<SentMessage>(
    db,
    `select batches.eeid, deliveries.recipient, messages.created_at as "acceptedAt", archived_messages.octets
     from deliveries join partitions on partitions.id = deliveries.partition_id
       join messages on messages.id = partitions.message_id join batches on batches.eeid = messages.eeid
       left join archived_messages on archived_messages.delivery_id = deliveries.id
     where batches.instance_id = ?
       and (deliveries.contact_id = ? or deliveries.contact_id is null
         and partitions.destination = ? and split_part(deliveries.recipient, '@', 1) = ?)
     order by messages.created_at, deliveries.id`,
    [instanceId, contact?.id ?? null, address.asciiDomain, address.local],
  );
  return {
    contact,
    events: contact === undefined ? [] : await listContactEvents(db, contact.id),
    whitelisted: await isWhitelisted(db, instanceId, address.key),
    messages,
  };
}

/** RFC 4180 §2: quoted where a cell needs it, so that it is read back as it was. */
function toCsvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\r\n`;
}
