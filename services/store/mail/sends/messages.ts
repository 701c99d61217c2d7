import { addressKeyOf, validateAddress } from "../../../core/mail/address.ts";
import { cut, describeMessage } from "../../../core/mail/describe-message.ts";
import type { MessageDsn } from "../../../core/mail/dsn-parameters.ts";
import type { Mailbox } from "../../../core/mail/headers.ts";
import type { MessageTracking } from "../../../core/mail/message-places.ts";
import { type MessageDescription, messageTerms } from "../../../core/mail/message-terms.ts";
import type { Attachment } from "../../../core/mail/mime.ts";
import { type Binding, type Db, queryRows, StatementValues, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";

/** A display name, possibly empty, and an address as it was given: a `Mailbox` in a form that JSON can hold. */
export interface StoredMailbox {
  readonly name: string;
  readonly address: string;
}

/** @throws what is no address: those in the database were judged on their way in */
export function toMailbox({ name, address }: StoredMailbox): Mailbox {
  const valid = validateAddress(address, { allowSmtputf8: true });
  if (!valid.ok) throw new Error(`not an address: ${address}`);
  return { name, address: valid.value };
}

/** What is rendered for each recipient. Subject and HTML hold tags (see core/mail/personalise.ts). */
export interface StoredTemplate {
  readonly from: StoredMailbox;
  readonly replyTo?: StoredMailbox;
  readonly subject: string;
  readonly html: string;
  /** Adds an unsubscribe link and the List-Unsubscribe fields. */
  readonly unsubscribe: boolean;
  /** The To field of every copy, where the message has copies; without it, each recipient's own. */
  readonly to?: StoredMailbox;
  readonly cc?: readonly StoredMailbox[];
  /** Global variables that the tags name, without wrapping, as they were when it was accepted; a recipient's values outrank them. */
  readonly globals?: Readonly<Record<string, string>>;
}

/** The content of one accepted call, kept once for all of its recipients. */
export type MessageContent =
  | { readonly kind: "template"; readonly template: StoredTemplate; readonly attachments: readonly Attachment[] }
  /**
   * A whole RFC 5322 message with CRLF line ends and no Bcc field, unsigned. With `unsubscribe` each recipient's copy
   * gets List-Unsubscribe fields, with `tracking` its own URLs in the places that were left for them.
   */
  | {
      readonly kind: "finished";
      readonly octets: Buffer;
      readonly unsubscribe?: boolean;
      readonly tracking?: MessageTracking;
    };

/** Who is told what becomes of a message, and how. JSON holds it as it is. */
export interface ReportRequest extends MessageDsn {
  /** The client's MAIL FROM, of a domain that the instance may use. */
  readonly mailFrom: string;
  /** The client speaks SMTPUTF8, and may be told in it (RFC 6533). */
  readonly international: boolean;
}

/** A message as the delivery worker needs it. */
export interface StoredMessage {
  readonly id: number;
  readonly eeid: string;
  readonly instanceId: number;
  readonly campaignNumid: number;
  /** Domain of the From field as A-labels: whose DKIM key signs. */
  readonly senderDomain: string;
  readonly archive: boolean;
  readonly acceptedAt: Date;
  readonly content: MessageContent;
  /** Of the call that it was accepted by, if that was traced. */
  readonly traceParent?: string | undefined;
  /** Of submitted messages whose sender is told what becomes of them. */
  readonly dsn?: ReportRequest | undefined;
  /** It tells a sender what became of a message: it leaves from <>. */
  readonly isReport?: boolean;
}

/** Octets of a message's content, with its attachments. */
export function sizeOf(content: MessageContent): number {
  if (content.kind === "finished") return content.octets.length;
  const attachments = content.attachments.reduce((sum, { content: octets }) => sum + octets.length, 0);
  return attachments + templateOctets(content.template);
}

/** Octets of all that the copies of a template share. */
export function templateOctets({ html, subject, to, cc = [], globals = {} }: StoredTemplate): number {
  const addressees = [to ?? [], cc].flat().flatMap(({ name, address }) => [name, address]);
  return [html, subject, ...addressees, ...Object.entries(globals).flat()].reduce(
    (sum, text) => sum + Buffer.byteLength(text),
    0,
  );
}

/** The content of a call, about to be stored. */
type NewMessage = Omit<StoredMessage, "id" | "acceptedAt">;

/** Up to so many messages at once have a prepared statement for each number of them. */
const MOST_PREPARED_ROWS = 50;

/** Stores the content of calls. @returns their ids, in the given order */
export async function addMessages(transaction: Transaction, messages: readonly NewMessage[]): Promise<number[]> {
  const ids = new Map<NewMessage, number>();
  // Rows come back in their order from one machine, and in no order from several.
  await byInstance(transaction, messages, async (own) => {
    const added = await insertMessages(transaction, own);
    for (const [index, message] of own.entries()) ids.set(message, added[index]!);
    return added;
  });
  return messages.map((message) => ids.get(message)!);
}

async function insertMessages(transaction: Transaction, messages: readonly NewMessage[]): Promise<number[]> {
  const values = new StatementValues();
  const rows = await queryRows<{ id: number }>(
    transaction,
    `insert into messages (instance_id, eeid, campaign_numid, sender_domain, archive, trace_parent, content_octets,
       subject, sender, message_id, terms, dsn, is_report, template, octets, unsubscribe, tracking)
     values ${values.addRows(messages.map(toColumns))} returning id`,
    values.all,
    messages.length <= MOST_PREPARED_ROWS ? { name: `add-${messages.length}-messages` } : {},
  );
  const attachments = messages.flatMap(({ content, instanceId }, index) =>
    content.kind === "template"
      ? content.attachments.map((file, position) => ({
          ...toAttachment(rows[index]!.id, file, position),
          instance_id: instanceId,
        }))
      : [],
  );
  if (attachments.length > 0) await transaction("message_attachments").insert(attachments);
  return rows.map(({ id }) => id);
}

/** What a message is listed as, and found by. */
function descriptionOf(content: MessageContent): MessageDescription {
  if (content.kind === "finished") return describeMessage(content.octets);
  const { subject, from } = content.template;
  return { subject: cut(subject), sender: addressKeyOf(from.address) ?? null, messageId: null };
}

/** In the order of the statement: up to `is_report` every message's, then a template's, then a finished one's. */
function toColumns({ content, ...message }: NewMessage): Binding[] {
  const { instanceId, eeid, campaignNumid, senderDomain, archive, traceParent = null, dsn, isReport = false } = message;
  const description = descriptionOf(content);
  const { subject, sender, messageId } = description;
  const found = [subject, sender, messageId, messageTerms(instanceId, description)];
  const reporting = [dsn === undefined ? null : JSON.stringify(dsn), isReport];
  const shared = [
    instanceId,
    eeid,
    campaignNumid,
    senderDomain,
    archive,
    traceParent,
    sizeOf(content),
    ...found,
    ...reporting,
  ];
  if (content.kind === "template") return [...shared, JSON.stringify(content.template), null, false, null];
  const { octets, unsubscribe = false, tracking } = content;
  return [...shared, null, octets, unsubscribe, tracking === undefined ? null : JSON.stringify(tracking)];
}

function toAttachment(message_id: number, { filename, contentType, content }: Attachment, position: number) {
  return { message_id, position, filename, content_type: contentType ?? null, octets: content };
}

/** A message, and whose it is. */
export type MessageKey = Pick<StoredMessage, "id" | "instanceId">;

export async function loadMessage(db: Db, message: MessageKey): Promise<StoredMessage> {
  return (await loadMessages(db, [message])).get(message.id)!;
}

/** Several at once, by their ids. */
export async function loadMessages(
  db: Db,
  messages: readonly MessageKey[],
): Promise<ReadonlyMap<number, StoredMessage>> {
  const rows = await byInstance(db, messages, (own, instanceIds) =>
    queryRows<MessageRow>(
      db,
      // Step by step through the primary keys: its plan is kept, and serves however much the tables have grown since.
      // Every column has its name: a prepared `m.*` would fail once a migration adds one.
      `select m.id, m.eeid, m.campaign_numid, m.sender_domain, m.archive, m.created_at, m.template, m.octets,
       m.unsubscribe, m.tracking, m.trace_parent, m.instance_id, m.dsn, m.is_report
     from unnest($1::bigint[]) as given (id), lateral (
       select * from messages where id = given.id and instance_id = any($2::bigint[]) offset 0
     ) m`,
      [own.map(({ id }) => id), instanceIds],
      { name: "load-messages" },
    ),
  );
  const attachments = await loadAttachments(
    db,
    rows.filter(({ template }) => template !== null).map(({ id, instance_id: instanceId }) => ({ id, instanceId })),
  );
  return new Map(rows.map((row) => [row.id, toMessage(row, attachments.get(row.id) ?? [])]));
}

interface MessageRow {
  id: number;
  eeid: string;
  instance_id: number;
  campaign_numid: number;
  sender_domain: string;
  archive: boolean;
  created_at: Date;
  trace_parent: string | null;
  template: StoredTemplate | null;
  /** Null of a template. */
  octets: Buffer;
  unsubscribe: boolean;
  tracking: MessageTracking | null;
  dsn: ReportRequest | null;
  is_report: boolean;
}

function toMessage(row: MessageRow, attachments: readonly Attachment[]): StoredMessage {
  const { template, octets, unsubscribe, tracking } = row;
  return {
    id: row.id,
    eeid: row.eeid,
    instanceId: row.instance_id,
    campaignNumid: row.campaign_numid,
    senderDomain: row.sender_domain,
    archive: row.archive,
    acceptedAt: row.created_at,
    traceParent: row.trace_parent ?? undefined,
    dsn: row.dsn ?? undefined,
    isReport: row.is_report,
    content:
      template === null
        ? { kind: "finished", octets, unsubscribe, ...(tracking === null ? {} : { tracking }) }
        : { kind: "template", template, attachments },
  };
}

/** By message, in the order in which they were given. */
async function loadAttachments(db: Db, messages: readonly MessageKey[]): Promise<ReadonlyMap<number, Attachment[]>> {
  const attachments = new Map<number, Attachment[]>();
  const rows = await byInstance(db, messages, (own, instanceIds) =>
    queryRows<AttachmentRow>(
      db,
      `select message_id, filename, content_type, octets from message_attachments
       where message_id = any($1) and instance_id = any($2) order by message_id, position`,
      [own.map(({ id }) => id), instanceIds],
    ),
  );
  for (const { message_id, filename, content_type, octets } of rows) {
    const files = attachments.get(message_id) ?? [];
    files.push({ filename, content: octets, ...(content_type === null ? {} : { contentType: content_type }) });
    attachments.set(message_id, files);
  }
  return attachments;
}

interface AttachmentRow {
  message_id: number;
  filename: string;
  content_type: string | null;
  octets: Buffer;
}
