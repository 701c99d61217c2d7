/** Reports to who sent a message: what became of it, for people and for programs (RFC 3464, RFC 6522, RFC 6533). */
import { isAscii } from "node:buffer";
import { type EmailAddress, validateAddress } from "./address.ts";
import type { DsnAction } from "./bounce/dsn.ts";
import {
  decodeXtext,
  encodeUtf8Address,
  type MessageDsn,
  type Notification,
  type RecipientDsn,
  readOriginalRecipient,
} from "./dsn-parameters.ts";
import type { EnhancedStatus } from "./enhanced-status.ts";
import { headerDate, mailboxField, plainField, textField } from "./headers.ts";
import { fieldValue, splitMessage } from "./message.ts";
import { encodeBase64Lines, encodeQuotedPrintable } from "./mime.ts";
import { REPORT_WORDS, type ReportLanguage } from "./report-words.ts";
import { parseSmtpReply } from "./smtp-reply.ts";

/** The local part that reports to senders come from, at the domain of the sender itself, whose key signs them. */
const REPORTER = "mailer-daemon";

/** What the report of a mail system further on gives beside its words. */
export interface RemoteReport {
  readonly status: EnhancedStatus | null;
  /** That of its Diagnostic-Code (`smtp`, `X-Postfix`); null where the words are those of its notice for people. */
  readonly diagnosticType: string | null;
}

/** What became of one recipient. */
export interface ReportedRecipient {
  readonly action: DsnAction;
  /** Address as it was given. */
  readonly recipient: string;
  readonly dsn: RecipientDsn | null;
  /** The last reply, or what stands for it, on one line; empty where there was none. */
  readonly words: string;
  /** Null where the words are of a session of ours. */
  readonly reported: RemoteReport | null;
  readonly at: Date;
}

/** All that a report is made of. */
export interface ReportContent {
  readonly kind: Notification;
  readonly language: ReportLanguage;
  /** The host that reports. */
  readonly hostname: string;
  /** Whom it is told: the message's MAIL FROM. */
  readonly to: EmailAddress;
  /** It speaks SMTPUTF8, and may be told in it. */
  readonly international: boolean;
  readonly request: MessageDsn;
  readonly acceptedAt: Date;
  /** Of delays: when it is given up. */
  readonly retryUntil: Date;
  /** At least one. */
  readonly recipients: readonly ReportedRecipient[];
  /** The message that it is about, from its beginning, as far as it may be brought back. */
  readonly returned: { readonly octets: Buffer; readonly isWhole: boolean };
  readonly date: Date;
  /** Of this report: letters and digits that nobody guesses. */
  readonly id: string;
}

/** A reply is told as far as this: no line may have more than 998 octets, and no answer needs more words. */
const MOST_WORDS = 500;

/**
 * @returns a whole message with CRLF lines, in 7 bits unless the sender's own address is beyond ASCII
 * @throws where the sender's domain is too long for an address that reports come from
 */
export function composeReport(content: ReportContent): Buffer {
  const isGlobal = content.international && hasInternational(content);
  const boundary = `=_report_${content.id}`;
  const returned = returnedPart(content, isGlobal);
  const parts = [
    noticePart(content, returned?.form),
    statusPart(content, isGlobal),
    ...(returned ? [returned.part] : []),
  ];
  const delimited = parts.flatMap((part) => [Buffer.from(`\r\n--${boundary}\r\n`), part]);
  return Buffer.concat([
    Buffer.from(`${headerOf(content, boundary)}\r\n`),
    ...delimited,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
}

function headerOf({ kind, language, to, date, id, returned }: ReportContent, boundary: string): string {
  const from = validateAddress(`${REPORTER}@${to.asciiDomain}`, { allowSmtputf8: false });
  if (!from.ok) throw new Error(`no address for reports at ${to.asciiDomain}`);
  const about = messageIdOf(returned.octets);
  return [
    mailboxField("From", [{ name: "Mail Delivery System", address: from.value }]),
    mailboxField("To", [{ name: "", address: to }]),
    textField("Subject", REPORT_WORDS[language].subject[kind]),
    plainField("Date", headerDate(date)),
    plainField("Message-ID", `<${id}@${to.asciiDomain}>`),
    ...(about === undefined ? [] : [plainField("In-Reply-To", about), plainField("References", about)]),
    // RFC 3834 §5
    plainField("Auto-Submitted", "auto-replied"),
    plainField("MIME-Version", "1.0"),
    plainField("Content-Type", `multipart/report; report-type=delivery-status; boundary="${boundary}"`),
  ].join("");
}

function messageIdOf(octets: Buffer): string | undefined {
  const field = splitMessage(octets).fields.find(({ name }) => name === "message-id");
  const value = field && fieldValue(field);
  return value !== undefined && /^<[\x21-\x3b\x3d\x3f-\x7e]{1,250}>$/.test(value) ? value : undefined;
}

function noticePart(content: ReportContent, form: "headers" | "full" | undefined): Buffer {
  const { kind, language, hostname, recipients, retryUntil } = content;
  const words = REPORT_WORDS[language];
  const lines = [
    words.introduction(hostname),
    "",
    words.explanation[kind],
    ...(kind === "delay" ? [words.retries(retryUntil)] : []),
    "",
    ...recipients.flatMap((one) => [
      `<${one.recipient}>: ${words.action[one.action]}`,
      ...(one.words === "" ? [] : [`    ${isReply(one) ? words.answer : words.details}: ${wordsOf(one)}`]),
      "",
    ]),
    ...(form === undefined ? [] : [words.returned[form], ""]),
  ];
  const header = partHeader("text/plain; charset=utf-8", "quoted-printable", "Notification");
  return Buffer.concat([header, encodeQuotedPrintable(lines.join("\r\n")).octets]);
}

/** RFC 3464 §2.1: a group of fields of the message, and one of each recipient. */
function statusPart(content: ReportContent, isGlobal: boolean): Buffer {
  const { hostname, request, acceptedAt, recipients } = content;
  const envelopeId = request.envelopeId === undefined ? undefined : decodeXtext(request.envelopeId);
  const ofMessage = [
    plainField("Reporting-MTA", `dns; ${hostname}`),
    ...(envelopeId === undefined ? [] : [plainField("Original-Envelope-Id", envelopeId.replace(/ +/g, " ").trim())]),
    plainField("Arrival-Date", headerDate(acceptedAt)),
  ];
  const groups = [ofMessage, ...recipients.map((recipient) => recipientFields(recipient, content, isGlobal))];
  const text = groups.map((fields) => fields.join("")).join("\r\n");
  // RFC 6533 §4: UTF-8 may be encoded for a way of 7 bits; the classic type may not be, and needs no encoding.
  if (!isGlobal)
    return Buffer.concat([partHeader("message/delivery-status", "7bit", "Delivery report"), Buffer.from(text)]);
  const header = partHeader("message/global-delivery-status", "quoted-printable", "Delivery report");
  return Buffer.concat([header, encodeQuotedPrintable(text).octets]);
}

function recipientFields(
  one: ReportedRecipient,
  { kind, retryUntil }: ReportContent,
  isGlobal: boolean,
): readonly string[] {
  const { originalRecipient } = one.dsn ?? {};
  const original = originalRecipient === undefined ? undefined : readOriginalRecipient(originalRecipient);
  const words = isGlobal ? wordsOf(one) : wordsOf(one).replace(/[^\x20-\x7e]/g, "?");
  const type = diagnosticTypeOf(one);
  return [
    ...(original === undefined
      ? []
      : [plainField("Original-Recipient", typed(original.type, original.address, isGlobal))]),
    plainField("Final-Recipient", typed("rfc822", finalAddress(one.recipient), isGlobal)),
    plainField("Action", one.action),
    plainField("Status", statusOf(one)),
    ...(words === "" || type === null ? [] : [plainField("Diagnostic-Code", `${type}; ${words}`)]),
    plainField("Last-Attempt-Date", headerDate(one.at)),
    ...(kind === "delay" ? [plainField("Will-Retry-Until", headerDate(retryUntil))] : []),
  ];
}

/** An address beyond ASCII is of the type `utf-8`, and spelt in ASCII where the part is (RFC 6533 §3). */
function typed(type: string, address: string, isGlobal: boolean): string {
  const spelt = address.replace(/ +/g, " ");
  if (isAscii(Buffer.from(spelt))) return `${type}; ${spelt}`;
  return `utf-8; ${isGlobal ? spelt : encodeUtf8Address(spelt)}`;
}

/** As it went over the wire. */
function finalAddress(recipient: string): string {
  const address = validateAddress(recipient, { allowSmtputf8: true });
  return address.ok ? address.value.key : recipient;
}

function wordsOf({ words }: ReportedRecipient): string {
  return words.replace(/\s+/g, " ").trim().slice(0, MOST_WORDS);
}

/** RFC 3464 §2.3.6: the type says where the words are from; where nobody named one, there is no field. */
function diagnosticTypeOf({ words, reported }: ReportedRecipient): string | null {
  if (reported !== null) return reported.diagnosticType;
  return parseSmtpReply(words) === undefined ? "x-palomar" : "smtp";
}

function isReply(one: ReportedRecipient): boolean {
  return diagnosticTypeOf(one)?.toLowerCase() === "smtp" || parseSmtpReply(one.words) !== undefined;
}

/** The status of a recipient: what the far side said, else what is known of the end. */
export function statusOf({
  action,
  words,
  reported,
}: Pick<ReportedRecipient, "action" | "words" | "reported">): EnhancedStatus {
  if (reported !== null) return remoteStatus(action, reported);
  const reply = parseSmtpReply(words);
  const told = (least: number) => (reply && reply.code >= least && reply.code < least + 100 ? reply : undefined);
  // RFC 3463 §3.5: given up for age, whatever the last answer was.
  if (action === "failed") return told(500) ? (reply?.enhancedStatus ?? "5.0.0") : "4.4.7";
  if (action === "delayed") return told(400)?.enhancedStatus ?? (reply || words === "" ? "4.0.0" : "4.4.1");
  return told(200)?.enhancedStatus ?? "2.0.0";
}

/** As it was reported, unless it says another thing than the action (RFC 3464 §2.3.4). */
function remoteStatus(action: DsnAction, { status }: RemoteReport): EnhancedStatus {
  const fitting = { failed: ["5", "4"], delayed: ["4"], delivered: ["2"], relayed: ["2"], expanded: ["2"] }[action];
  return status !== null && fitting.includes(status.charAt(0)) ? status : (`${fitting[0]}.0.0` as EnhancedStatus);
}

/** RFC 3461 §4.3: RET is about failures; other reports bring back the header. */
function returnedPart(
  { kind, request, returned }: ReportContent,
  isGlobal: boolean,
): { readonly part: Buffer; readonly form: "headers" | "full" } | undefined {
  const { octets, isWhole } = returned;
  if (octets.length === 0) return undefined;
  const fits = isAscii(octets) || isGlobal;
  if (kind === "failure" && request.returns === "full" && isWhole && fits) {
    return { part: wholeMessage(octets), form: "full" };
  }
  const fields = splitMessage(octets).fields.map(({ raw }) => raw);
  // What was cut off in its midst is no field any more.
  if (!isWhole && !octets.includes("\r\n\r\n")) fields.pop();
  const header = Buffer.from(fields.join(""), "latin1");
  const type = isGlobal ? "message/global-headers" : "text/rfc822-headers";
  if (isAscii(header)) return { part: Buffer.concat([partHeader(type, "7bit", "Header"), header]), form: "headers" };
  const encoded = encodeQuotedPrintable(header.toString("utf8")).octets;
  return { part: Buffer.concat([partHeader(type, "quoted-printable", "Header"), encoded]), form: "headers" };
}

/** RFC 6532 §3.7: unlike message/rfc822, message/global may be encoded. */
function wholeMessage(octets: Buffer): Buffer {
  if (isAscii(octets)) return Buffer.concat([partHeader("message/rfc822", "7bit", "Message"), octets]);
  return Buffer.concat([partHeader("message/global", "base64", "Message"), encodeBase64Lines(octets)]);
}

function partHeader(type: string, encoding: string, description: string): Buffer {
  const fields = [
    plainField("Content-Description", description),
    plainField("Content-Type", type),
    plainField("Content-Transfer-Encoding", encoding),
  ];
  return Buffer.from(`${fields.join("")}\r\n`);
}

function hasInternational({ to, recipients, returned }: ReportContent): boolean {
  const original = ({ dsn }: ReportedRecipient) => readOriginalRecipient(dsn?.originalRecipient ?? "")?.address ?? "";
  const texts = [to.key, ...recipients.flatMap((one) => [finalAddress(one.recipient), original(one)])];
  return !texts.every((text) => isAscii(Buffer.from(text))) || !isAscii(returned.octets);
}
