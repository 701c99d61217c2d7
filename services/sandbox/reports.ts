import { randomBytes } from "node:crypto";
import { headerDate, plainField } from "../core/mail/headers.ts";
import type { OwedReport } from "../store/mail/inbound/sandbox-messages.ts";

/** A message that a report is owed for, exactly as received. */
export interface ReportedMessage extends OwedReport {
  readonly octets: Buffer;
}

export interface ReportSurroundings {
  /** The name of the reporting system. */
  readonly hostname: string;
  /** Where complaints go. */
  readonly feedbackAddress: string;
  readonly now: Date;
}

/** A notification ready for the wire; its own return path is the null one. */
export interface Report {
  readonly rcptTo: string;
  readonly octets: Buffer;
}

/** What a delivery report says of each failure. */
const FAILURES = {
  bounced: { status: "5.1.1", diagnostic: "550 5.1.1 no such mailbox" },
  full: { status: "5.2.2", diagnostic: "552 5.2.2 the mailbox is full" },
} as const;

/** The report that a message calls for. @throws for a message that calls for none */
export function makeReport(message: ReportedMessage, surroundings: ReportSurroundings): Report {
  switch (message.outcome) {
    case "bounced":
    case "full":
      return makeDeliveryReport(message, FAILURES[message.outcome], surroundings);
    case "complained":
      return makeComplaint(message, surroundings);
    case "accepted":
      throw new Error(`message ${message.id} calls for no report`);
  }
}

/** A delivery status notification (RFC 3464), with the headers of the original. */
function makeDeliveryReport(
  message: ReportedMessage,
  failure: (typeof FAILURES)[keyof typeof FAILURES],
  surroundings: ReportSurroundings,
): Report {
  const { hostname, now } = surroundings;
  const status = [
    `Reporting-MTA: dns; ${hostname}`,
    `Arrival-Date: ${headerDate(message.receivedAt)}`,
    "",
    `Final-Recipient: rfc822; ${message.rcptTo}`,
    "Action: failed",
    `Status: ${failure.status}`,
    `Diagnostic-Code: smtp; ${failure.diagnostic}`,
    `Last-Attempt-Date: ${headerDate(now)}`,
    "",
  ].join("\r\n");
  const text = `Your message could not be delivered to ${message.rcptTo}:\r\n${failure.diagnostic}\r\n`;
  const octets = assemble(surroundings, {
    from: `Mail Delivery System <mailer-daemon@${hostname}>`,
    to: message.mailFrom,
    subject: "Undelivered Mail Returned to Sender",
    reportType: "delivery-status",
    parts: [
      part("text/plain; charset=utf-8", Buffer.from(text)),
      part("message/delivery-status", Buffer.from(status)),
      part("text/rfc822-headers", headerOf(message.octets)),
    ],
  });
  return { rcptTo: message.mailFrom, octets };
}

/** Feedback addresses take reports of 1 MiB: of a large original only the header comes back (RFC 5965 §2). */
const MOST_ENCLOSED_OCTETS = 512 * 1024;

/** A feedback report (RFC 5965), with the original as it was delivered. */
function makeComplaint(message: ReportedMessage, surroundings: ReportSurroundings): Report {
  const { hostname, feedbackAddress } = surroundings;
  const feedback = [
    "Feedback-Type: abuse",
    `User-Agent: Palomar-Sandbox/1.0`,
    "Version: 1",
    `Original-Mail-From: <${message.mailFrom}>`,
    `Original-Rcpt-To: <${message.rcptTo}>`,
    `Arrival-Date: ${headerDate(message.receivedAt)}`,
    `Reporting-MTA: dns; ${hostname}`,
    "",
  ].join("\r\n");
  // RFC 5321 §4.4: final delivery puts the return path into the message.
  const delivered = Buffer.concat([Buffer.from(`Return-Path: <${message.mailFrom}>\r\n`), message.octets]);
  const octets = assemble(surroundings, {
    from: `Feedback Loop <feedback@${hostname}>`,
    to: feedbackAddress,
    subject: "Abuse report",
    reportType: "feedback-report",
    parts: [
      part("text/plain; charset=utf-8", Buffer.from(`${message.rcptTo} marked this message as spam.\r\n`)),
      part("message/feedback-report", Buffer.from(feedback)),
      delivered.length > MOST_ENCLOSED_OCTETS
        ? part("text/rfc822-headers", headerOf(delivered))
        : part("message/rfc822", delivered),
    ],
  });
  return { rcptTo: feedbackAddress, octets };
}

interface Composition {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly reportType: string;
  readonly parts: readonly Buffer[];
}

/** RFC 6522: a multipart/report, marked as automatic (RFC 3834) so that nothing answers it. */
function assemble(
  { hostname, now }: ReportSurroundings,
  { from, to, subject, reportType, parts }: Composition,
): Buffer {
  const boundary = `=_${randomBytes(12).toString("hex")}`;
  const header = [
    plainField("From", from),
    plainField("To", `<${to}>`),
    plainField("Subject", subject),
    plainField("Date", headerDate(now)),
    plainField("Message-ID", `<${randomBytes(12).toString("hex")}@${hostname}>`),
    plainField("Auto-Submitted", "auto-replied"),
    plainField("MIME-Version", "1.0"),
    plainField("Content-Type", `multipart/report; report-type=${reportType}; boundary="${boundary}"`),
  ].join("");
  const delimited = parts.flatMap((octets) => [Buffer.from(`--${boundary}\r\n`), octets, Buffer.from("\r\n")]);
  return Buffer.concat([Buffer.from(`${header}\r\n`), ...delimited, Buffer.from(`--${boundary}--\r\n`)]);
}

function part(contentType: string, content: Buffer): Buffer {
  const encoding = content.every((octet) => octet < 0x80) ? "7bit" : "8bit";
  return Buffer.concat([
    Buffer.from(`Content-Type: ${contentType}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`),
    content,
  ]);
}

function headerOf(message: Buffer): Buffer {
  const end = message.indexOf("\r\n\r\n");
  return end < 0 ? message : message.subarray(0, end + 2);
}
