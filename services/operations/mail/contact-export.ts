import type { EmailAddress } from "../../core/mail/address.ts";
import type { Contact, ContactEvent } from "../../core/mail/contact.ts";
import { PROFILE_COLUMNS } from "../../core/mail/contact-input.ts";
import { toCsvLine } from "../../core/mail/csv-cell.ts";
import { joinGroupNames } from "../../core/mail/group-list.ts";
import { bareTagName } from "../../core/mail/personalise.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContact, listUsedColumns, streamContacts } from "../../store/mail/contacts/contact-profiles.ts";
import { isWhitelisted } from "../../store/mail/contacts/whitelist.ts";
import { listCopyEvents } from "../../store/mail/events/event-copies.ts";
import { listContactEvents } from "../../store/mail/events/event-pages.ts";
import {
  listReturnedMessages,
  listSentMessages,
  type ReturnedMessage,
  type SentMessage,
} from "../../store/mail/sends/address-messages.ts";

/** Columns of the CSV that every export has; those of `OPTIONAL_COLUMNS` follow where some contact fills them. */
const COLUMNS: readonly (readonly [name: string, read: (contact: Contact) => string | number | null])[] = [
  ["email", ({ email }) => email],
  ["nombre", ({ firstName }) => firstName],
  ["apellido", ({ lastName }) => lastName],
  ["edad", ({ age }) => age],
  ["sexo", ({ sex }) => sex],
  ["profesion", ({ profession }) => profession],
  ["localidad", ({ locality }) => locality],
  ["grupos", ({ groups }) => joinGroupNames(groups)],
];

const OPTIONAL_COLUMNS: typeof COLUMNS = [
  ["codigo_pais", ({ countryCode }) => countryCode],
  ["codigo_region", ({ regionCode }) => regionCode],
  ["ciudad", ({ city }) => city],
  ["dispositivo", ({ device }) => device],
  ["subtipo_dispositivo_id", ({ deviceSubtypeId }) => deviceSubtypeId],
];

/** A custom field's column: wrapped where its bare name would be read as something else, or lose the blanks around it. */
function columnName(field: string): string {
  const isOwn = field !== "email" && !PROFILE_COLUMNS.has(field) && bareTagName(field.trim()) === field;
  return isOwn ? field : `XYZ${field}XYZ`;
}

/** An instance's contacts as the CSV that `importContacts` reads, some lines at a time. */
export async function* exportContacts(db: Db, instanceId: number): AsyncGenerator<string> {
  const used = await listUsedColumns(db, instanceId);
  const columns = [
    ...COLUMNS,
    ...OPTIONAL_COLUMNS.filter(([name]) => used.profile.includes(name)),
    ...used.fields.map(
      (name) =>
        [columnName(name), ({ fields }: Contact) => (Object.hasOwn(fields, name) ? fields[name]! : "")] as const,
    ),
  ];
  yield toCsvLine(columns.map(([name]) => name));
  for await (const contacts of streamContacts(db, instanceId)) {
    yield contacts.map((contact) => toCsvLine(columns.map(([, read]) => String(read(contact) ?? "")))).join("");
  }
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
  const deliveries = await listSentMessages(db, instanceId, address, contact?.id ?? null);
  return {
    contact,
    events: [
      ...(contact === undefined ? [] : await listContactEvents(db, instanceId, contact.id)),
      ...(await listCopyEvents(db, instanceId, address)),
    ],
    whitelisted: await isWhitelisted(db, instanceId, address.key),
    messages: deliveries.map(({ id: _, ...message }) => message),
    returned: await listReturnedMessages(
      db,
      deliveries.map(({ id }) => id),
    ),
  };
}
