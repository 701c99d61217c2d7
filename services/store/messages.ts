import type { Attachment } from "../core/mail/mime.ts";
import type { Db, Transaction } from "../platform/db.ts";

/** A display name, possibly empty, and an address as it was given: a `Mailbox` in a form that JSON can hold. */
export interface StoredMailbox {
  readonly name: string;
  readonly address: string;
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
}

/** The content of one accepted call, kept once for all of its recipients. */
export type MessageContent =
  | { readonly kind: "template"; readonly template: StoredTemplate; readonly attachments: readonly Attachment[] }
  /**
   * A whole RFC 5322 message with CRLF line ends and no Bcc field, unsigned. With `unsubscribe` each recipient's copy
   * gets List-Unsubscribe fields.
   */
  | { readonly kind: "finished"; readonly octets: Buffer; readonly unsubscribe?: boolean };

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
}

/** Stores the content of a call. @returns its id */
export async function addMessage(
  transaction: Transaction,
  message: Omit<StoredMessage, "id" | "instanceId" | "acceptedAt">,
): Promise<number> {
  const { content } = message;
  const [row] = await transaction("messages").insert(
    {
      eeid: message.eeid,
      campaign_numid: message.campaignNumid,
      sender_domain: message.senderDomain,
      archive: message.archive,
      ...(content.kind === "template"
        ? { template: JSON.stringify(content.template) }
        : { octets: content.octets, unsubscribe: content.unsubscribe ?? false }),
    },
    ["id"],
  );
  if (content.kind === "template" && content.attachments.length > 0) {
    await transaction("message_attachments").insert(
      content.attachments.map(({ filename, contentType = null, content: octets }, position) => ({
        message_id: row.id,
        position,
        filename,
        content_type: contentType,
        octets,
      })),
    );
  }
  return row.id;
}

export async function loadMessage(db: Db, id: number): Promise<StoredMessage> {
  const row = await db("messages")
    .join("batches", "batches.eeid", "messages.eeid")
    .where("messages.id", id)
    .first("messages.*", "batches.instance_id");
  return {
    id: row.id,
    eeid: row.eeid,
    instanceId: row.instance_id,
    campaignNumid: row.campaign_numid,
    senderDomain: row.sender_domain,
    archive: row.archive,
    acceptedAt: row.created_at,
    content:
      row.template === null
        ? { kind: "finished", octets: row.octets, unsubscribe: row.unsubscribe }
        : { kind: "template", template: row.template, attachments: await loadAttachments(db, id) },
  };
}

async function loadAttachments(db: Db, messageId: number): Promise<Attachment[]> {
  const rows = await db("message_attachments").where({ message_id: messageId }).orderBy("position");
  return rows.map(({ filename, content_type, octets }) => ({
    filename,
    content: octets,
    ...(content_type === null ? {} : { contentType: content_type }),
  }));
}
