import type { EmailAddress } from "../../../core/mail/address.ts";
import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { addressKeyOf } from "../events/event-copies.ts";
import type { StoredMailbox, StoredTemplate } from "../sends/messages.ts";

/** Whose traces are removed. */
export interface ErasureSubject {
  readonly instanceId: number;
  readonly contactId: number | null;
  readonly address: EmailAddress;
  /** The address as texts may spell it: the labels of its domain as A-labels, U-labels, or as they were given. */
  readonly spellings: readonly string[];
}

/**
 * Removes an address from everything that was sent to it: its deliveries with their archives and reports, and its
 * name in messages that went to others as well.
 * @returns how many deliveries were removed
 */
export async function eraseFromMessages(transaction: Transaction, subject: ErasureSubject): Promise<number> {
  const removed = await removeDeliveries(transaction, subject);
  const messageIds = [...new Set(removed.map(({ messageId }) => messageId))].sort((a, b) => a - b);
  const shared = await removeAbandonedMessages(transaction, messageIds);
  const addressed = new Set(removed.filter(({ role }) => role === "to").map(({ messageId }) => messageId));
  await cancelCopies(
    transaction,
    shared.filter((id) => addressed.has(id)),
  );
  const naming = await findNaming(transaction, shared, subject);
  await removeMentions(transaction, naming, subject);
  for (const id of naming) await redactMessage(transaction, id, subject);
  await removeFeedback(transaction, subject);
  await removeFromSandbox(transaction, subject);
  return removed.length;
}

async function removeDeliveries(transaction: Transaction, { instanceId, contactId, address }: ErasureSubject) {
  const removed = await queryRows<{ id: number; messageId: number; role: string }>(
    transaction,
    `delete from deliveries using partitions
     where deliveries.instance_id = $1
       and partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       and (deliveries.contact_id = $2 or deliveries.contact_id is null
         and partitions.destination = $3 and split_part(deliveries.recipient, '@', 1) = $4)
     returning deliveries.id, partitions.message_id as "messageId", deliveries.role`,
    [instanceId, contactId, address.asciiDomain, address.local],
  );
  const ids = removed.map(({ id }) => id);
  await transaction("inbound_messages").whereIn("delivery_id", ids).orWhereIn("about_delivery_id", ids).delete();
  await transaction("conversions").whereIn("delivery_id", ids).delete();
  return removed;
}

/**
 * A message goes with the last of its recipients, unless its recipients are still being gathered.
 * @returns those that others got, or will get, as well
 */
async function removeAbandonedMessages(transaction: Transaction, messageIds: readonly number[]): Promise<number[]> {
  const gone = await queryRows<{ id: number }>(
    transaction,
    `delete from messages using batches
     where messages.id = any($1::bigint[]) and batches.instance_id = messages.instance_id
       and batches.eeid = messages.eeid and not batches.gathering and not exists
       (select from partitions
        join deliveries on deliveries.instance_id = partitions.instance_id and deliveries.partition_id = partitions.id
        where partitions.message_id = messages.id)
     returning messages.id`,
    [messageIds],
  );
  const goneIds = new Set(gone.map(({ id }) => id));
  return messageIds.filter((id) => !goneIds.has(id));
}

/** A copy shows what its addressee got, in the addressee's own words: without the one there is not the other. */
async function cancelCopies(transaction: Transaction, messageIds: readonly number[]): Promise<void> {
  await queryRows(
    transaction,
    `update deliveries set state = 'cancelled', personal = null, finished_at = now() from partitions, messages
     where partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       and messages.instance_id = partitions.instance_id and messages.id = partitions.message_id
       and messages.id = any($1::bigint[]) and messages.template -> 'to' is not null
       and deliveries.role <> 'to' and deliveries.state = 'queued'`,
    [messageIds],
  );
}

/** The messages that name the address to others: a mailing to a million people does not, and is not looked through. */
async function findNaming(
  transaction: Transaction,
  messageIds: readonly number[],
  { spellings }: ErasureSubject,
): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    transaction,
    `select id from messages
     where id = any($1::bigint[]) and (octets is not null or template -> 'to' is not null or template -> 'cc' is not null
       or exists (select from unnest($2::text[]) as name where strpos(template::text, name) > 0))
     order by id`,
    [messageIds, spellings],
  );
  return rows.map(({ id }) => id);
}

/** Octets are a record of what left, or came back: they cannot be changed, so those that name the address go. */
async function removeMentions(
  transaction: Transaction,
  messageIds: readonly number[],
  { spellings }: ErasureSubject,
): Promise<void> {
  const names = spellings.map((name) => Buffer.from(name, "utf8"));
  for (const table of ["archived_messages", "inbound_messages"]) {
    await queryRows(
      transaction,
      `delete from ${table} as kept using deliveries, partitions
       where deliveries.id = kept.delivery_id and partitions.id = deliveries.partition_id
         and partitions.message_id = any($1::bigint[])
         and exists (select from unnest($2::bytea[]) as name where position(name in kept.octets) > 0)`,
      [messageIds, names],
    );
  }
  await queryRows(
    transaction,
    `delete from tracked_links where message_id = any($1::bigint[])
       and exists (select from unnest($2::text[]) as name where strpos(target, name) > 0)`,
    [messageIds, spellings],
  );
}

interface MessageRow {
  readonly template: StoredTemplate | null;
  readonly octets: Buffer | null;
  readonly tracking: string | null;
  readonly isSettled: boolean;
}

async function redactMessage(transaction: Transaction, id: number, subject: ErasureSubject): Promise<void> {
  const [row] = await queryRows<MessageRow>(
    transaction,
    `select template, octets, tracking::text, not exists
       (select from partitions join deliveries on deliveries.partition_id = partitions.id
        where partitions.message_id = messages.id and deliveries.state = 'queued') as "isSettled"
     from messages where id = $1 for update`,
    [id],
  );
  if (row === undefined) return;
  const message = transaction("messages").where({ id });
  if (row.template !== null) {
    const before = JSON.stringify(row.template);
    const template = JSON.stringify(redactTemplate(row.template, subject));
    if (template !== before) await message.update({ template });
  } else if (row.octets !== null) {
    // What was sent to everybody is not needed any more.
    if (row.isSettled) await message.update({ octets: Buffer.alloc(0), tracking: null });
    else {
      const octets = redactOctets(row.octets, subject.spellings);
      await message.update({ octets, tracking: row.tracking && redactText(row.tracking, subject.spellings) });
    }
  }
}

/**
 * A template without an addressee, and without its name in the text. The sender's own mailboxes stay: they are the
 * customer's.
 */
export function redactTemplate(template: StoredTemplate, subject: ErasureSubject): StoredTemplate {
  const { to, cc, ...rest } = template;
  const isOther = (mailbox: StoredMailbox) => addressKeyOf(mailbox.address) !== subject.address.key;
  const isSender = !isOther(template.from) || (template.replyTo !== undefined && !isOther(template.replyTo));
  const redact = (text: string) => (isSender ? text : redactText(text, subject.spellings));
  return {
    ...rest,
    subject: redact(template.subject),
    html: redact(template.html),
    ...(to === undefined || !isOther(to) ? {} : { to }),
    ...(cc === undefined ? {} : { cc: cc.filter(isOther) }),
  };
}

/** Octet for octet, so that nothing else of the message moves: what was an address keeps the form of one. */
export function redactOctets(octets: Buffer, spellings: readonly string[]): Buffer {
  const names = spellings.map((name) => Buffer.from(name, "utf8").toString("latin1"));
  return Buffer.from(redactText(octets.toString("latin1"), names), "latin1");
}

function redactText(text: string, names: readonly string[]): string {
  return names.reduce((kept, name) => kept.replaceAll(name, redacted(name)), text);
}

/** What stands for an address that was erased: something of its length and form. */
export function redacted(address: string): string {
  return address.replaceAll(/[^@.]/g, "x");
}

/** Complaints at a feedback address that name it, and are about nobody else that is known. */
async function removeFeedback(transaction: Transaction, { spellings }: ErasureSubject): Promise<void> {
  await queryRows(
    transaction,
    `delete from inbound_messages
     where feedback_address is not null and about_delivery_id is null and exists (
       select from unnest($1::text[], $2::bytea[]) as given (name, octets)
       where strpos(inbound_messages.finding::text, given.name) > 0
         or position(given.octets in inbound_messages.octets) > 0)`,
    [spellings, spellings.map((name) => Buffer.from(name, "utf8"))],
  );
}

/** What the sandbox took from this instance for the address, or with its name in it. */
async function removeFromSandbox(transaction: Transaction, { instanceId, spellings }: ErasureSubject): Promise<void> {
  await queryRows(
    transaction,
    `with gone as (
       delete from sandbox_messages
       where split_part(sender, '@', 2) in (select domain from instance_domains where instance_id = $1)
         and (rcpt_to = any($2) or exists (
           select from unnest($3::bytea[]) as name where position(name in sandbox_messages.octets) > 0))
       returning mail_from, rcpt_to
     )
     delete from sandbox_deferrals using gone
     where sandbox_deferrals.mail_from = gone.mail_from and sandbox_deferrals.rcpt_to = gone.rcpt_to`,
    [instanceId, spellings, spellings.map((name) => Buffer.from(name, "utf8"))],
  );
}
