import type { EmailAddress } from "../../core/mail/address.ts";
import { senderKey } from "../../core/mail/guard/sending-limits.ts";
import { isHeaderSafe } from "../../core/mail/headers.ts";
import { type Attachment, isAttachmentSafe } from "../../core/mail/mime.ts";
import { DYNAMIC_SUBJECT, judgePlaces } from "../../core/mail/personalise.ts";
import { forbidden, invalidField, missingField, notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isHttpUrl } from "../../core/url.ts";
import type { Send } from "../../operations/mail/accept-sends.ts";
import type { SendCopy } from "../../operations/mail/audience.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { keepGlobals } from "../../operations/mail/template-globals.ts";
import type { Aside } from "../../platform/fair-turns.ts";
import { fetchSubject } from "../../platform/lookups/campaign-text.ts";
import { fetchText } from "../../platform/lookups/fetch-html.ts";
import { type Campaign, findCampaign } from "../../store/mail/campaigns/campaigns.ts";
import type { RecipientAddress } from "../../store/mail/contacts/recipients.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { findBatch } from "../../store/mail/sends/batches.ts";
import type { StoredMailbox } from "../../store/mail/sends/messages.ts";
import { readEmail } from "../addresses.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";
import type { ContactFields, SendingFields } from "./sending-fields.ts";

/** Contacts of one call, at most. */
const MOST_CONTACTS = 50_000;

/** Names and addresses of the Cc field: every copy has it, and many servers take no more of all fields. */
const MOST_CC_KIBIBYTES = 128;

/** What a send is made of. */
export interface SendParts {
  readonly caller: MailCaller;
  readonly fields: SendingFields;
  /** Attachments that did not come in a field. */
  readonly files?: readonly Attachment[];
  readonly aside: Aside;
}

/** Makes a send of a call: judges what the schema cannot, cheapest first, and fetches what is named by URL, once. */
export async function readSend(
  services: MailServices,
  { caller: { instance, login }, fields, files = [], aside }: SendParts,
): Promise<Result<Send, Refusal>> {
  if ((fields.contactos?.length ?? 0) > MOST_CONTACTS) return refuse({ kind: "too-large" });
  if (fields.archive && !instance.archive) return refuse(forbidden("archive-licence-needed"));
  const audience = readAudience(fields);
  if (!audience.ok) return audience;
  const attachments = readAttachments(fields, files);
  if (!attachments.ok) return attachments;
  const reused = await readReuse(services, instance, fields);
  if (!reused.ok) return reused;
  const campaign = await findCampaign(services.db, instance.id, fields.campana_id);
  if (campaign === undefined) return refuse(notFound("object-unknown"));
  const envelope = await readSenders(services, instance, { fields, campaign });
  if (!envelope.ok) return envelope;
  const text = fields.email ? await readText(services, { fields, campaign, aside }) : ok({ subject: "", html: "" });
  if (!text.ok) return text;

  const { recipients, copies, to, cc } = audience.value;
  const { sender, senderName, replyTo } = envelope.value;
  const template = await keepGlobals(services.db, instance.id, {
    from: { name: senderName, address: sender.asGiven },
    ...(replyTo === undefined ? {} : { replyTo: { name: "", address: replyTo.asGiven } }),
    ...text.value,
    unsubscribe: campaign.unsubscribe === true,
    ...(copies.length > 0 && to !== undefined ? { to, cc } : {}),
  });
  if (!template.ok) return refuse(unacceptable(template.error));
  return ok({
    instanceId: instance.id,
    campaignNumid: campaign.numid,
    creator: login ?? "api",
    senderDomain: sender.asciiDomain,
    sender: senderKey(sender),
    content: { kind: "template", template: template.value, attachments: attachments.value },
    // Without the flag nobody gets anything.
    recipients: fields.email ? recipients : [],
    copies: fields.email ? copies : [],
    archive: fields.archive ?? false,
    reuseEeid: reused.value,
  });
}

interface Audience {
  readonly recipients: readonly RecipientAddress[];
  readonly copies: readonly SendCopy[];
  /** What the To and Cc fields of every copy show. */
  readonly to?: StoredMailbox;
  readonly cc: readonly StoredMailbox[];
}

function readAudience(fields: SendingFields): Result<Audience, Refusal> {
  if (fields.contactos !== undefined) {
    // A malformed address among many is left out.
    const recipients = fields.contactos.flatMap((contact) => {
      const recipient = readRecipient(contact);
      return recipient.ok ? [recipient.value] : [];
    });
    return ok({ recipients, copies: [], cc: [] });
  }
  const contact = fields.contacto!;
  const recipient = readRecipient(contact);
  if (!recipient.ok) return recipient;
  const copies: SendCopy[] = [];
  const cc: StoredMailbox[] = [];
  for (const { cc_email, cc_nombre, cc_apellido } of fields.copia ?? []) {
    const address = readEmail(cc_email);
    if (!address.ok) return address;
    copies.push({ address: address.value, role: "cc" });
    cc.push({ name: fullName(cc_nombre, cc_apellido), address: address.value.asGiven });
  }
  for (const { bcc_email } of fields.copia_oculta ?? []) {
    const address = readEmail(bcc_email);
    if (!address.ok) return address;
    copies.push({ address: address.value, role: "bcc" });
  }
  const to = { name: fullName(contact.nombre, contact.apellido), address: recipient.value.address.asGiven };
  const visible = cc.reduce((sum, { name, address }) => sum + Buffer.byteLength(name) + Buffer.byteLength(address), 0);
  if (visible > MOST_CC_KIBIBYTES * 2 ** 10) {
    return refuse(invalidField("copia", "larger-than", { most: `${MOST_CC_KIBIBYTES} KiB` }));
  }
  return ok({ recipients: [recipient.value], copies, to, cc });
}

function readRecipient({ email, nombre, apellido }: ContactFields): Result<RecipientAddress, Refusal> {
  const address = readEmail(email);
  if (!address.ok) return address;
  return ok({
    address: address.value,
    ...(nombre === undefined ? {} : { firstName: nombre }),
    ...(apellido === undefined ? {} : { lastName: apellido }),
  });
}

function readAttachments(
  { adjuntos = [] }: SendingFields,
  files: readonly Attachment[],
): Result<readonly Attachment[], Refusal> {
  const attachments = [...files];
  for (const { filename, content } of adjuntos) {
    // The pieces of the samples are lines of base64, some with their line ends.
    const encoded = content.join("").replace(/[\r\n\t ]+/g, "");
    if (!isBase64(encoded)) return refuse(invalidField("content", "base64"));
    attachments.push({ filename, content: Buffer.from(encoded, "base64") });
  }
  return attachments.every(isAttachmentSafe) ? ok(attachments) : refuse(invalidField("filename", "one-line"));
}

function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

/** @returns the eeid of the batch that the send joins, if it is to */
export async function readReuse(
  { db }: MailServices,
  instance: Instance,
  { reuse_eeid, eeid }: SendingFields,
): Promise<Result<string | undefined, Refusal>> {
  if (!reuse_eeid) return ok(undefined);
  if (eeid === undefined) return refuse(missingField("eeid"));
  const batch = await findBatch(db, instance.id, eeid);
  if (batch === undefined) return refuse(notFound("object-unknown"));
  // Nothing leaves of a cancelled batch any more: who joined it would wait for ever.
  return batch.state === "cancelled" ? refuse(unacceptable("send-cancelled")) : ok(batch.eeid);
}

interface Call {
  readonly fields: SendingFields;
  readonly campaign: Campaign;
}

interface Senders {
  readonly sender: EmailAddress;
  readonly senderName: string;
  readonly replyTo?: EmailAddress;
}

async function readSenders(
  services: MailServices,
  instance: Instance,
  { fields, campaign }: Call,
): Promise<Result<Senders, Refusal>> {
  const given = fields.remitente || campaign.sender;
  if (given === "") return refuse(missingField("remitente"));
  const replyText = fields["reply-to"] || campaign.replyTo;
  const replyTo = replyText === "" ? undefined : readEmail(replyText);
  if (replyTo?.ok === false) return replyTo;
  const sender = await judgeSender(services, instance.id, given);
  if (!sender.ok) return sender;
  const senderName = fields.remitente_nombre || campaign.senderName;
  return ok({ sender: sender.value, senderName, ...(replyTo && { replyTo: replyTo.value }) });
}

/** What may be fetched for a call, while others have its place. */
interface TextCall extends Call {
  readonly aside: Aside;
}

async function readText(
  services: MailServices,
  call: TextCall,
): Promise<Result<{ subject: string; html: string }, Refusal>> {
  const html = await readHtml(services, call);
  if (!html.ok) return html;
  const fault = judgePlaces(html.value);
  if (fault) return refuse(unacceptable(fault));
  const subject = await readSubject(services, call);
  return subject.ok ? ok({ subject: subject.value, html: html.value }) : subject;
}

async function readHtml(
  services: MailServices,
  { fields, campaign, aside }: TextCall,
): Promise<Result<string, Refusal>> {
  if (fields.html !== undefined) return ok(fields.html);
  const url = fields.html_url ?? campaign.url;
  if (fields.html_url === undefined && url === "") return refuse(missingField("html_url"));
  if (!isHttpUrl(url)) return refuse(invalidField("html_url", "http-url"));
  const fetched = await aside(() => fetchText(url, "html", services));
  return fetched.ok ? fetched : refuse(unacceptable("url-unreachable", { field: "html_url", reason: fetched.error }));
}

async function readSubject(
  services: MailServices,
  { fields, campaign, aside }: TextCall,
): Promise<Result<string, Refusal>> {
  const subject = fields.asunto || campaign.subject;
  if (subject !== DYNAMIC_SUBJECT)
    return isHeaderSafe(subject) ? ok(subject) : refuse(invalidField("asunto", "one-line"));
  if (campaign.subjectUri === "") return refuse(missingField("asunto_uri"));
  const fetched = await aside(() => fetchSubject(campaign.subjectUri, services));
  return fetched.ok ? fetched : refuse(unacceptable(fetched.error));
}

function fullName(first = "", last = ""): string {
  return `${first} ${last}`.trim();
}
