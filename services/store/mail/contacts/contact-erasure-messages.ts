import type { EmailAddress } from "../../../core/mail/address.ts";
import { type MessageDescription, messageTerms } from "../../../core/mail/message-terms.ts";
import { namePattern } from "../../../core/mail/redaction.ts";
import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { removeAttempts } from "../attempts/attempts.ts";
import { findCopySpellings, OF_COPIES } from "../events/event-copies.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import { allowedDomains } from "../instances/instances.ts";
import type { StoredTemplate } from "../sends/messages.ts";
import { forgetDeliveries, tellCancelled } from "../tracking/event-feed.ts";

/** Whose traces are removed. */
export interface ErasureSubject {
  readonly instanceId: number;
  readonly contactId: number | null;
  readonly address: EmailAddress;
  /** The address as texts may spell it: the labels of its domain as A-labels, U-labels, or as they were given. */
  readonly spellings: readonly string[];
}

/** Of `deliveries` with their `partitions`: those to the subject of $1 to $4, see `ofSubject`. */
const IS_SENT_TO = `deliveries.instance_id = $1 and partitions.instance_id = deliveries.instance_id
  and partitions.id = deliveries.partition_id and (deliveries.contact_id = $2 or deliveries.contact_id is null
    and partitions.destination = $3 and split_part(deliveries.recipient, '@', 1) = $4)`;

const ofSubject = ({ instanceId, contactId, address }: ErasureSubject) =>
  [instanceId, contactId, address.asciiDomain, address.local] as const;

/** A message that may name somebody to others. */
interface UnsentMessage {
  readonly id: number;
  /** It was for them, and others got copies. */
  readonly addressed: boolean;
}

/**
 * Messages that were for it as well and may name it, though nothing of them was sent to it. Before its events go, and what its
 * senders are to be told, which they are known by.
 */
export async function findUnsent(transaction: Transaction, subject: ErasureSubject): Promise<UnsentMessage[]> {
  const { instanceId, contactId, address, spellings } = subject;
  const told = await queryRows<UnsentMessage>(
    transaction,
    `with barred as (
       select eeid from events where instance_id = $1 and contact_id = $3 and kind = ${EVENT_KINDS["not-sent"]}
       union
       select eeid from events where instance_id = $1 and ${OF_COPIES} and email = any($5::text[])
         and kind = ${EVENT_KINDS["not-sent"]}
     )
     select id, coalesce(template -> 'to' ->> 'address' = any($4::text[]), false) as addressed from messages
     where instance_id = $1 and eeid in (select eeid from barred)
       and (octets is not null or exists (select 1 from unnest($4::text[]) as name where strpos(template::text, name) > 0))
     union
     select message_id, false from delivery_reports
     where instance_id = $1 and delivery_id is null and recipient = any($4::text[])
     order by id`,
    [instanceId, address.local, contactId, spellings, await findCopySpellings(transaction, instanceId, address)],
  );
  const known = new Set(told.map(({ id }) => id));
  return [...told, ...(await findPassedOver(transaction, subject)).filter(({ id }) => !known.has(id))];
}

/**
 * Messages for it as well, made since it unsubscribed from their campaign, or from everything: nothing tells whom they passed over.
 * One that came finished is for those whom its header names; a mailbox of a sender domain may stand there as its author.
 */
async function findPassedOver(
  transaction: Transaction,
  { instanceId, contactId, address, spellings }: ErasureSubject,
): Promise<UnsentMessage[]> {
  const isSenders = (await allowedDomains(transaction, instanceId)).includes(address.asciiDomain);
  return queryRows(
    transaction,
    `with objection as (
       select at, campaign_numid from campaign_unsubscriptions where instance_id = $3 and contact_id = $4
       union all
       select unsubscribed_at, null from contacts where instance_id = $3 and id = $4 and unsubscribed_at is not null
     )
     select kept.id, coalesce(kept.template -> 'to' ->> 'address' = any($2::text[]), false) as addressed
     from messages as kept
     where kept.instance_id = $3 and kept.created_at >= (select min(at) from objection)
       and exists (select 1 from objection
         where objection.at <= kept.created_at and coalesce(objection.campaign_numid, kept.campaign_numid) = kept.campaign_numid)
       and (kept.template -> 'to' ->> 'address' = any($2::text[])
         or exists (select 1 from jsonb_array_elements(coalesce(kept.template -> 'cc', '[]')) as copied
           where copied ->> 'address' = any($2::text[]))
         or exists (select 1 from unnest($1::bytea[]) as spelt (name)
           where position(spelt.name in substring(kept.octets from 1 for position('\\x0d0a0d0a'::bytea in kept.octets))) > 0))
     order by kept.id`,
    [isSenders ? [] : octetNames(spellings)[0], spellings, instanceId, contactId],
  );
}

/**
 * The reports to senders about a message that was for it, whomever they are about: they bring the message back. Before what was sent
 * to it goes, which they are known by. One that is being made is waited for, and none is begun until the transaction ends.
 */
export async function findReportsNaming(
  transaction: Transaction,
  subject: ErasureSubject,
  unsent: readonly UnsentMessage[],
): Promise<number[]> {
  const sent = await queryRows<{ id: number }>(
    transaction,
    `select distinct partitions.message_id as id from deliveries, partitions where ${IS_SENT_TO}`,
    ofSubject(subject),
  );
  const reportedOn = await queryRows<{ id: number }>(
    transaction,
    `select id from messages where instance_id = $1 and id = any($2::bigint[]) and dsn is not null
     order by id for no key update`,
    [subject.instanceId, [...sent, ...unsent].map(({ id }) => id)],
  );
  const rows = await queryRows<{ id: number }>(
    transaction,
    `select distinct report_message_id as id from delivery_reports
     where instance_id = $1 and message_id = any($2::bigint[]) and report_message_id is not null order by id`,
    [subject.instanceId, reportedOn.map(({ id }) => id)],
  );
  return rows.map(({ id }) => id);
}

/** What was sent to it, with the reports and orders that came of it. @returns the deliveries removed */
export async function removeDeliveries(transaction: Transaction, subject: ErasureSubject) {
  const { instanceId, spellings } = subject;
  const removed = await queryRows<{ id: number; messageId: number; role: string; state: string; partitionId: number }>(
    transaction,
    `delete from deliveries using partitions where ${IS_SENT_TO}
     returning deliveries.id, partitions.message_id as "messageId", deliveries.role, deliveries.state,
       deliveries.partition_id as "partitionId"`,
    ofSubject(subject),
  );
  const ids = removed.map(({ id }) => id);
  await removeAttempts(transaction, instanceId, ids);
  await forgetDeliveries(transaction, instanceId, ids);
  await transaction("inbound_messages").whereIn("delivery_id", ids).orWhereIn("about_delivery_id", ids).delete();
  await transaction("conversions").where({ instance_id: instanceId }).whereIn("delivery_id", ids).delete();
  const toldOfNone = { instance_id: instanceId, delivery_id: null };
  await transaction("delivery_reports").where(toldOfNone).whereIn("recipient", spellings).delete();
  return removed;
}

/**
 * A message goes with the last of its recipients, unless its recipients are still being gathered.
 * @returns those that others got, or will get, as well
 */
export async function removeAbandonedMessages(
  transaction: Transaction,
  instanceId: number,
  messageIds: readonly number[],
): Promise<number[]> {
  const gone = await queryRows<{ id: number }>(
    transaction,
    `delete from messages using batches
     where messages.instance_id = $2 and messages.id = any($1::bigint[]) and batches.instance_id = $2
       and batches.eeid = messages.eeid and not batches.gathering and not exists
       (select 1 from partitions
        join deliveries on deliveries.instance_id = partitions.instance_id and deliveries.partition_id = partitions.id
        where partitions.instance_id = $2 and partitions.message_id = messages.id)
     returning messages.id`,
    [messageIds, instanceId],
  );
  const goneIds = new Set(gone.map(({ id }) => id));
  return messageIds.filter((id) => !goneIds.has(id));
}

/**
 * A copy shows what its addressee got, in the addressee's own words: without the one there is not the other.
 * @returns the partitions of those that were queued, each as often as it had some
 */
export async function cancelCopies(
  transaction: Transaction,
  instanceId: number,
  messageIds: readonly number[],
): Promise<number[]> {
  const cancelled = await queryRows<{ partitionId: number }>(
    transaction,
    `with cancelled as (
     update deliveries set state = 'cancelled', personal = null, finished_at = now() from partitions, messages
     where deliveries.instance_id = $2 and partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       and messages.instance_id = partitions.instance_id and messages.id = partitions.message_id
       and messages.id = any($1::bigint[]) and messages.template -> 'to' is not null
       and deliveries.role <> 'to' and deliveries.state = 'queued'
     returning deliveries.instance_id, deliveries.id, deliveries.partition_id), told as (${tellCancelled("cancelled")})
     select partition_id as "partitionId" from cancelled`,
    [messageIds, instanceId],
  );
  return cancelled.map(({ partitionId }) => partitionId);
}

/** The messages that name the address to others: a mailing to a million people does not, and is not looked through. */
export async function findNaming(
  transaction: Transaction,
  messageIds: readonly number[],
  { instanceId, spellings }: ErasureSubject,
): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    transaction,
    `select id from messages
     where instance_id = $3 and id = any($1::bigint[])
       and (octets is not null or template -> 'to' is not null or template -> 'cc' is not null
       or exists (select 1 from unnest($2::text[]) as name where strpos(template::text, name) > 0))
     order by id`,
    [messageIds, spellings, instanceId],
  );
  return rows.map(({ id }) => id);
}

/** Octets are a record of what left, or came back: they cannot be changed, so those that name the address go. */
export async function removeMentions(
  transaction: Transaction,
  messageIds: readonly number[],
  { instanceId, spellings }: ErasureSubject,
): Promise<void> {
  await queryRows(
    transaction,
    `delete from archived_messages as kept using deliveries, partitions
     where kept.instance_id = $3 and deliveries.instance_id = kept.instance_id and deliveries.id = kept.delivery_id
       and partitions.instance_id = deliveries.instance_id and partitions.id = deliveries.partition_id
       and partitions.message_id = any($4::bigint[]) and ${IS_NAMED}`,
    [...octetNames(spellings), instanceId, messageIds],
  );
  // What came back lies elsewhere than what was sent, and may be about a million deliveries.
  const partitions = await transaction("partitions")
    .where({ instance_id: instanceId })
    .whereIn("message_id", messageIds)
    .orderBy("id")
    .pluck("id");
  for (let start = 0; start < partitions.length; start += PARTITIONS_AT_ONCE) {
    const some = partitions.slice(start, start + PARTITIONS_AT_ONCE);
    const ids = await transaction("deliveries")
      .where({ instance_id: instanceId })
      .whereIn("partition_id", some)
      .pluck("id");
    await queryRows(
      transaction,
      `delete from inbound_messages as kept
       where (delivery_id = any($3::bigint[]) or about_delivery_id = any($3::bigint[])) and ${IS_NAMED}`,
      [...octetNames(spellings), ids],
    );
  }
  await queryRows(
    transaction,
    `delete from tracked_links where instance_id = $2 and message_id = any($1::bigint[])
       and exists (select 1 from unnest($3::text[]) as given (pattern) where target ~ given.pattern)`,
    [messageIds, instanceId, spellings.map(namePattern)],
  );
}

const PARTITIONS_AT_ONCE = 50;

/**
 * Whether the octets of a row that is called `kept` name one of those of $1 and $2, see `octetNames`. Few have the name in them at
 * all: only those are read for where.
 */
const IS_NAMED = `exists (select 1 from unnest($1::bytea[], $2::text[]) as given (name, pattern)
    where case when position(given.name in kept.octets) > 0 then encode(kept.octets, 'escape') ~ given.pattern end)`;

/** Names as octets, and the patterns of them in octets that PostgreSQL has escaped. */
function octetNames(spellings: readonly string[]): readonly [names: Buffer[], patterns: string[]] {
  const names = spellings.map((name) => Buffer.from(name, "utf8"));
  const escaped = (octet: string) => `\\${octet.charCodeAt(0).toString(8)}`;
  return [names, names.map((name) => namePattern(name.toString("latin1").replaceAll(/[\x80-\xff]/g, escaped)))];
}

/** The content of a message that names somebody. */
interface NamingContent {
  readonly description: MessageDescription;
  readonly template: StoredTemplate | null;
  readonly octets: Buffer | null;
  /** JSON */
  readonly tracking: string | null;
  /** Nothing of it is to be sent any more. */
  readonly isSettled: boolean;
}

/** Locks a message and gives its content; undefined when it is gone. */
export async function lockContent(
  transaction: Transaction,
  { id, instanceId }: { readonly id: number; readonly instanceId: number },
): Promise<NamingContent | undefined> {
  const [row] = await queryRows<Omit<NamingContent, "description"> & MessageDescription>(
    transaction,
    `select subject, sender, message_id as "messageId", template, octets, tracking::text, not exists
       (select 1 from partitions
        join deliveries on deliveries.instance_id = partitions.instance_id and deliveries.partition_id = partitions.id
        where partitions.instance_id = $2 and partitions.message_id = messages.id and deliveries.state = 'queued') as "isSettled"
     from messages where instance_id = $2 and id = $1 for update`,
    [id, instanceId],
  );
  if (row === undefined) return undefined;
  const { subject, sender, messageId: name, ...content } = row;
  return { ...content, description: { subject, sender, messageId: name } };
}

/** What a message is found by follows from its description. */
export async function replaceContent(
  transaction: Transaction,
  { id, instanceId }: { readonly id: number; readonly instanceId: number },
  content: Partial<Pick<NamingContent, "template" | "octets" | "tracking">> & Pick<NamingContent, "description">,
): Promise<void> {
  const { template, description, ...others } = content;
  const { subject, sender, messageId } = description;
  await transaction("messages")
    .where({ instance_id: instanceId, id })
    .update({
      ...others,
      ...(template === undefined ? {} : { template: JSON.stringify(template) }),
      subject,
      sender,
      message_id: messageId,
      terms: messageTerms(instanceId, description),
    });
}

/**
 * What came to a feedback address, names it, and turned out to be about nobody's delivery. What waits may be about another's,
 * and a report about a sender domain is its instance's.
 */
export async function removeFeedback(transaction: Transaction, { spellings }: ErasureSubject): Promise<void> {
  await queryRows(
    transaction,
    `delete from inbound_messages as kept
     where unexplained is not null and feedback_address is not null and not is_report and (${IS_NAMED}
       or exists (select 1 from unnest($3::text[], $4::text[]) as given (name, pattern)
         where case when strpos(finding::text, given.name) > 0 then finding::text ~ given.pattern end))`,
    [...octetNames(spellings), spellings, spellings.map(namePattern)],
  );
}

/**
 * What the sandbox took from this instance for the address, or with its name in it; and that it put the address off, whoever
 * wrote to it.
 */
export async function removeFromSandbox(
  transaction: Transaction,
  { instanceId, spellings }: Pick<ErasureSubject, "instanceId" | "spellings">,
): Promise<void> {
  await queryRows(
    transaction,
    `delete from sandbox_messages as kept
     where split_part(sender, '@', 2) = any($3::text[]) and (rcpt_to = any($4::text[]) or ${IS_NAMED})`,
    [...octetNames(spellings), await allowedDomains(transaction, instanceId), spellings],
  );
  await transaction("sandbox_deferrals").whereIn("rcpt_to", spellings).delete();
}
