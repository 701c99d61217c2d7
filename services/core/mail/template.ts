/**
 * A message for many recipients: everything that they share is encoded once per batch,
 * only the personal parts are rendered per recipient.
 */
import { ok, type Result, refuse } from "../result.ts";
import { runAtOnce, type Steps } from "../steps.ts";
import {
  headerDate,
  isHeaderSafe,
  type Mailbox,
  mailboxField,
  plainField,
  textField,
  toHeaderText,
} from "./headers.ts";
import { textFromHtmlSteps } from "./message-text.ts";
import { ALTERNATIVE_BOUNDARY, type Attachment, attachmentPart, isAttachmentSafe, MIXED_BOUNDARY } from "./mime.ts";
import { compileTextPartSteps, type MessageChunk } from "./mime-template.ts";
import {
  escapeHtml,
  type MessagePlaces,
  type PersonalValues,
  parseTemplate,
  placesInMessage,
  renderTemplate,
  type TextTemplate,
  UNSUBSCRIBE_TAG,
  wrappedTagName,
} from "./personalise.ts";

/** What all recipients of a batch share. Subject, HTML and text may hold tags (see personalise.ts). */
export interface MessageTemplate {
  readonly from: Mailbox;
  readonly replyTo?: Mailbox;
  readonly subject: string;
  /** What the To and Cc fields of every copy show; without `to` each shows its recipient. */
  readonly to?: readonly Mailbox[];
  readonly cc?: readonly Mailbox[];
  readonly html: string;
  /** Plain-text alternative; made from the HTML when absent. */
  readonly text?: string;
  readonly attachments?: readonly Attachment[];
  /** Adds List-Unsubscribe headers, and a link to the body where it has no XYZDESUSCXYZ. */
  readonly unsubscribe?: boolean;
}

/** What belongs to one copy of the message. */
export interface MessageRecipient {
  /** Shown unless the template has a To field of its own. */
  readonly to: readonly Mailbox[];
  /** With angle brackets, the same on every attempt: see `makeMessageId`. */
  readonly messageId: string;
  readonly date: Date;
  readonly values: PersonalValues;
}

/** The part of a template that may not stand in a message: it holds a line break, or is no header at all. */
export type TemplateRefusal = "from" | "replyTo" | "subject" | "attachments";

/** A template ready for rendering. Opaque: made by `compileTemplate`, used by `renderMessage`. */
export interface CompiledMessage {
  readonly sharedHeader: string;
  /** Fields, empty where they are not the same for all. */
  readonly to: string;
  readonly cc: string;
  readonly subject: TextTemplate;
  readonly unsubscribe: boolean;
  readonly body: readonly MessageChunk[];
  readonly places: MessagePlaces;
}

/**
 * Prepare a message for any number of recipients.
 * @returns refused with the part that cannot stand in a message; nothing is repaired
 */
export function compileTemplate(template: MessageTemplate): Result<CompiledMessage, TemplateRefusal> {
  return runAtOnce(compileTemplateSteps(template));
}

/** `compileTemplate` in steps, for messages of megabytes. */
export function* compileTemplateSteps(template: MessageTemplate): Steps<Result<CompiledMessage, TemplateRefusal>> {
  const fault = findFault(template);
  if (fault !== null) return refuse(fault);

  const html = template.unsubscribe === true ? withUnsubscribeLink(template.html) : template.html;
  const text = parseTemplate(template.text ?? (yield* textFromHtmlSteps(html)));
  const subject = parseTemplate(template.subject);
  const parts = { text, html: parseTemplate(html) };
  const attachments = template.attachments ?? [];
  return ok({
    to: addresseeField("To", template.to),
    cc: addresseeField("Cc", template.cc),
    sharedHeader: sharedHeader(template, attachments.length > 0 ? "mixed" : "alternative"),
    subject,
    unsubscribe: template.unsubscribe === true,
    body: attachments.length > 0 ? yield* mixedBody(parts, attachments) : yield* alternativeBody(parts),
    places: placesInMessage({ subject, ...parts }),
  });
}

interface BodyParts {
  readonly text: TextTemplate;
  readonly html: TextTemplate;
}

/**
 * The octets for one recipient, unsigned: CRLF lines, all of them 7-bit (headers are UTF-8 where an address needs
 * SMTPUTF8). There is no Bcc field: a blind copy is another recipient of the same message.
 */
export function renderMessage(compiled: CompiledMessage, recipient: MessageRecipient): Buffer {
  const chunks: Buffer[] = [Buffer.from(`${personalHeader(compiled, recipient)}${compiled.sharedHeader}\r\n`, "utf8")];
  for (const chunk of compiled.body) chunks.push(typeof chunk === "function" ? chunk(recipient.values) : chunk);
  return Buffer.concat(chunks);
}

/** HTML with an unsubscribe link at its end, unless it has one already. */
export function withUnsubscribeLink(html: string): string {
  const tag = wrappedTagName(UNSUBSCRIBE_TAG);
  if (html.includes(tag)) return html;
  const link = `<p style="font-size:12px;text-align:center"><a href="${tag}">Cancelar suscripci\u00F3n</a></p>`;
  const closing = /<\/body/gi;
  let end = html.length;
  // Without a list of what is found: it would take many times the page's octets.
  while (closing.test(html)) end = closing.lastIndex - "</body".length;
  return html.slice(0, end) + link + html.slice(end);
}

function findFault(template: MessageTemplate): TemplateRefusal | null {
  if (!isHeaderSafe(template.from.name)) return "from";
  if (template.replyTo !== undefined && !isHeaderSafe(template.replyTo.name)) return "replyTo";
  if (!isHeaderSafe(template.subject)) return "subject";
  return (template.attachments ?? []).every(isAttachmentSafe) ? null : "attachments";
}

function sharedHeader(template: MessageTemplate, kind: "mixed" | "alternative"): string {
  const boundary = kind === "mixed" ? MIXED_BOUNDARY : ALTERNATIVE_BOUNDARY;
  return [
    mailboxField("From", [template.from]),
    template.replyTo === undefined ? "" : mailboxField("Reply-To", [template.replyTo]),
    plainField("MIME-Version", "1.0"),
    plainField("Content-Type", `multipart/${kind}; boundary="${boundary}"`),
  ].join("");
}

/** The subject that a recipient gets. */
export function renderSubject({ subject }: Pick<CompiledMessage, "subject">, values: PersonalValues): string {
  return toHeaderText(renderTemplate(subject, values));
}

function personalHeader(compiled: CompiledMessage, recipient: MessageRecipient): string {
  return [
    plainField("Date", headerDate(recipient.date)),
    plainField("Message-ID", recipient.messageId),
    compiled.to || addresseeField("To", recipient.to),
    compiled.cc,
    textField("Subject", renderSubject(compiled, recipient.values)),
    compiled.unsubscribe ? unsubscribeFields(recipient.values) : "",
  ].join("");
}

/** RFC 2369 §3.2 and RFC 8058 §3.1: one POST unsubscribes. */
function unsubscribeFields(values: PersonalValues): string {
  const url = values.system.get(UNSUBSCRIBE_TAG);
  if (url === undefined) throw new Error("a message with List-Unsubscribe needs the recipient's unsubscribe URL");
  return plainField("List-Unsubscribe", `<${url}>`) + plainField("List-Unsubscribe-Post", "List-Unsubscribe=One-Click");
}

function addresseeField(name: "To" | "Cc", mailboxes: readonly Mailbox[] = []): string {
  if (mailboxes.length === 0) return "";
  return mailboxField(
    name,
    mailboxes.map((mailbox) => ({ name: toHeaderText(mailbox.name), address: mailbox.address })),
  );
}

function* alternativeBody({ text, html }: BodyParts): Steps<MessageChunk[]> {
  const delimiter = `--${ALTERNATIVE_BOUNDARY}`;
  return mergeConstants([
    octets(`${delimiter}\r\n`),
    ...(yield* compileTextPartSteps("plain", text)),
    octets(`\r\n${delimiter}\r\n`),
    ...(yield* compileTextPartSteps("html", html, escapeHtml)),
    octets(`\r\n${delimiter}--\r\n`),
  ]);
}

function* mixedBody(parts: BodyParts, attachments: readonly Attachment[]): Steps<MessageChunk[]> {
  const delimiter = `--${MIXED_BOUNDARY}\r\n`;
  return mergeConstants([
    octets(`${delimiter}Content-Type: multipart/alternative; boundary="${ALTERNATIVE_BOUNDARY}"\r\n\r\n`),
    ...(yield* alternativeBody(parts)),
    ...attachments.flatMap((attachment) => [octets(delimiter), attachmentPart(attachment)]),
    octets(`--${MIXED_BOUNDARY}--\r\n`),
  ]);
}

/** Join neighbouring constant chunks, so that rendering copies few large pieces. */
function mergeConstants(chunks: readonly MessageChunk[]): MessageChunk[] {
  const merged: MessageChunk[] = [];
  let pending: Buffer[] = [];
  for (const chunk of chunks) {
    if (typeof chunk !== "function") {
      pending.push(chunk);
      continue;
    }
    if (pending.length > 0) merged.push(Buffer.concat(pending));
    pending = [];
    merged.push(chunk);
  }
  if (pending.length > 0) merged.push(Buffer.concat(pending));
  return merged;
}

function octets(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
