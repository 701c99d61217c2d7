import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { lockAddress } from "./contacts.ts";
import { COUNT_AGGREGATES, COUNT_COLUMNS } from "./event-kinds.ts";

/** What was removed of an address. */
export interface Erasure {
  readonly contacts: number;
  readonly events: number;
  readonly messages: number;
}

/**
 * Removes everything that an instance holds on an address: the contact, its events (and what they add to the counts),
 * its messages with their archives and what came back for them, its place on the whitelist. What is queued for it is
 * not sent any more.
 */
export async function eraseAddress(db: Db, instanceId: number, address: EmailAddress): Promise<Erasure> {
  return db.transaction(async (transaction) => {
    await lockAddress(transaction, instanceId, address.key);
    const whose = { instance_id: instanceId, email_key: address.key };
    const contact = await transaction("contacts").where(whose).forUpdate().first("id");
    const contactId: number | null = contact?.id ?? null;
    const messages = await removeDeliveries(transaction, { instanceId, contactId, address });
    const events = await removeEvents(transaction, { instanceId, contactId, address });
    await transaction("whitelist").where(whose).delete();
    const contacts = await transaction("contacts").where(whose).delete();
    return { contacts, events, messages };
  });
}

interface Subject {
  readonly instanceId: number;
  readonly contactId: number | null;
  /** Copies have no contact, and name it with the labels that they were given, U or A. */
  readonly address: EmailAddress;
}

async function removeEvents(transaction: Transaction, subject: Subject): Promise<number> {
  const spellings = await findSpellings(transaction, subject);
  const rows = await queryRows<{ events: number }>(
    transaction,
    `with removed as (
       delete from events where instance_id = ? and (contact_id = ? or contact_id is null and email = any(?))
       returning instance_id, at, kind, machine
     ), uncounted as (
       insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
       select instance_id, minute, ${COUNT_COLUMNS.map((column) => `-${column}`).join(", ")}
       from (select instance_id, date_trunc('minute', at, 'UTC') as minute, ${COUNT_AGGREGATES}
         from removed group by 1, 2) as counts
     )
     select count(*) as events from removed`,
    [subject.instanceId, subject.contactId, spellings],
  );
  return rows[0]!.events;
}

/** How the events of copies spell an address. */
async function findSpellings(db: Db, { instanceId, address }: Subject): Promise<string[]> {
  const rows = await queryRows<{ email: string }>(
    db,
    `select distinct email from events
     where instance_id = ? and contact_id is null and split_part(email, '@', 1) = ?`,
    [instanceId, address.local],
  );
  return rows.map(({ email }) => email).filter((email) => keyOf(email) === address.key);
}

function keyOf(email: string): string | undefined {
  const address = validateAddress(email, { allowSmtputf8: true });
  return address.ok ? address.value.key : undefined;
}

async function removeDeliveries(transaction: Transaction, subject: Subject): Promise<number> {
  const removed = await queryRows<{ id: number; message_id: number }>(
    transaction,
    `delete from deliveries using partitions, batches
     where partitions.id = deliveries.partition_id and batches.eeid = partitions.eeid and batches.instance_id = ?
       and (deliveries.contact_id = ? or deliveries.contact_id is null
         and partitions.destination = ? and split_part(deliveries.recipient, '@', 1) = ?)
     returning deliveries.id, partitions.message_id`,
    [subject.instanceId, subject.contactId, subject.address.asciiDomain, subject.address.local],
  );
  await transaction("inbound_messages")
    .whereIn(
      "delivery_id",
      removed.map(({ id }) => id),
    )
    .delete();
  // A submitted message names its addressees in its own octets: it goes with the last of them.
  await queryRows(
    transaction,
    `delete from messages where id = any(?) and octets is not null and not exists
       (select 1 from partitions join deliveries on deliveries.partition_id = partitions.id
        where partitions.message_id = messages.id)`,
    [removed.map(({ message_id }) => message_id)],
  );
  return removed.length;
}
