import { isAutomaticReply } from "../core/mail/bounce/automatic.ts";
import { classifyBounce, findReplyCode, mostSpecificStatus } from "../core/mail/bounce/class.ts";
import {
  type DsnAction,
  type DsnRecipient,
  findDeliveryReport,
  findRelabelledReport,
  findReturnedHeaders,
} from "../core/mail/bounce/dsn.ts";
import { findFeedbackReport } from "../core/mail/bounce/feedback-report.ts";
import { type HeaderField, headerValue, type MimePart } from "../core/mail/bounce/mime.ts";
import {
  type BounceNotice,
  isBounceNotice,
  isDelayNotice,
  isFromMailSystem,
  passagesOf,
  readNotice,
  remoteWords,
} from "../core/mail/bounce/notice.ts";
import { findJsonNotification, type JsonNotification } from "../core/mail/bounce/notification.ts";
import type { BounceReason } from "../core/mail/bounce/reason.ts";
import { findReturnedTokens, type ReturnedTokens } from "../core/mail/bounce/returned-tokens.ts";
import { bounceRules } from "../core/mail/bounce/rules.ts";
import { type EnhancedStatus, statusClass } from "../core/mail/enhanced-status.ts";
import { readMimeMessage } from "../platform/read-mime.ts";

/** What an inbound message is: a delivery report, a complaint, an automatic reply, or ordinary mail. */
export type FindingKind = "dsn" | "arf" | "vacation" | "not-bounce";

/** One recipient of the reported message. `hard` only where `action` is `failed`. */
export interface BounceResult {
  /** As the report has it; "" when the report names none (the return path's token tells who it was). */
  readonly recipient: string;
  readonly action: DsnAction;
  readonly status: EnhancedStatus | null;
  readonly replycode: string | null;
  readonly hard: boolean;
  readonly reason: BounceReason;
}

/** The message that was returned, as far as the report holds it. */
export interface ReturnedOriginal {
  readonly messageId: string | undefined;
  /** Header names in lower case; of a repeated field the first. */
  readonly headers: ReadonlyMap<string, string>;
}

/** What a message that came back means. Vacations and ordinary mail have no results. */
export interface Finding {
  readonly kind: FindingKind;
  readonly results: readonly BounceResult[];
  /** Of complaints only: `abuse`, `fraud`, `virus`, `not-spam`, `auth-failure`, `opt-out`, `other` (RFC 5965 §7.3). */
  readonly feedbackType?: string;
  /** Of complaints only: what in them may name a delivery. */
  readonly tokens?: ReturnedTokens;
  readonly original?: ReturnedOriginal;
}

/**
 * Says what a message that came in on a return path or feedback address means, in bounded time and memory whatever
 * its octets are; it never rejects.
 *
 * The order matters. A complaint may enclose a bounce, a bounce may look like an automatic reply (most carry
 * Auto-Submitted), and a person may quote both.
 */
export async function interpret(message: Uint8Array): Promise<Finding> {
  const root = await readMimeMessage(message);
  return complaint(root) ?? deliveryReport(root) ?? textNotice(root) ?? ordinary(root);
}

/** The complaint that a message is; undefined where it is none, whatever else it may be. As bounded as `interpret`. */
export async function readComplaint(message: Uint8Array): Promise<Finding | undefined> {
  return complaint(await readMimeMessage(message));
}

function complaint(root: MimePart): Finding | undefined {
  const report = findFeedbackReport(root);
  if (!report) return undefined;
  const tokens = findReturnedTokens(report.container);
  return { ...complaintOf(report.recipients, report.feedbackType), tokens, ...withOriginal(report.container) };
}

function complaintOf(recipients: readonly string[], feedbackType: string): Finding {
  const results = recipients.map(
    (recipient): BounceResult => ({
      recipient,
      action: "delivered",
      status: null,
      replycode: null,
      hard: false,
      reason: "feedback",
    }),
  );
  return { kind: "arf", results, feedbackType };
}

function deliveryReport(root: MimePart): Finding | undefined {
  const notification = findJsonNotification(root);
  if (notification) return jsonReport(notification);
  const report = findDeliveryReport(root) ?? (isFromMailSystem(root) ? findRelabelledReport(root) : undefined);
  if (!report) return undefined;
  const notice = readNotice(report.container);
  const isDelay = isDelayNotice(headerValue(root, "subject"), notice.text);
  const names = report.recipients.map((recipient) => nameInNotice(recipient, notice));
  const passages = passagesOf(notice.text, names).map(({ passage }) => passage);
  const results = report.recipients.map((recipient, index) =>
    judgeDsn(recipient, { passage: passages[index] ?? "", isOnly: passages.length === 1, isDelay, notice }),
  );
  return asFinding(results, report.container);
}

function jsonReport({ type, recipients }: JsonNotification): Finding {
  const addresses = recipients.map(({ address }) => address);
  if (type === "complaint") return complaintOf(addresses, "abuse");
  const results = recipients.map(({ address, action, status, diagnostic }) => {
    const implied = type === "delivery" ? "delivered" : "failed";
    return judge({ recipient: address, action: namedAction(action) ?? implied, status, diagnostic });
  });
  return { kind: "dsn", results };
}

function textNotice(root: MimePart): Finding | undefined {
  const notice = readNotice(root);
  if (!isBounceNotice(root, notice)) return undefined;
  const action = isDelayNotice(headerValue(root, "subject"), notice.text) ? "delayed" : "failed";
  const recipients = notice.recipients.length > 0 ? notice.recipients : [{ address: "", passage: notice.text }];
  const results = recipients.map(({ address, passage }) => {
    const context = recipients.length === 1 ? notice.text : `${notice.introduction}\n${passage}`;
    return judge({ recipient: address, action, diagnostic: remoteWords(passage) || context, context });
  });
  return asFinding(results, root);
}

function ordinary(root: MimePart): Finding {
  return { kind: isAutomaticReply(root, readNotice(root)) ? "vacation" : "not-bounce", results: [] };
}

/** A refusal that only asks the sender to confirm is a challenge, which no recipient's state can be read from. */
function asFinding(results: readonly BounceResult[], container: MimePart): Finding {
  const isChallenge = results.every((result) => result.reason === "vacation");
  return isChallenge ? { kind: "vacation", results: [] } : { kind: "dsn", results, ...withOriginal(container) };
}

/** Notices name some recipients by the address that the message was sent to, not by the final one. */
function nameInNotice({ address, originalAddress }: DsnRecipient, notice: BounceNotice): string {
  const text = notice.text.toLowerCase();
  return originalAddress && !text.includes(address.toLowerCase()) ? originalAddress : address;
}

interface ReportContext {
  /** What the notice beside the report says of this recipient. */
  readonly passage: string;
  readonly isOnly: boolean;
  readonly isDelay: boolean;
  readonly notice: BounceNotice;
}

function judgeDsn(recipient: DsnRecipient, { passage, isOnly, isDelay, notice }: ReportContext): BounceResult {
  // Fields may name a local account or an X.400 address where the notice has the mailbox.
  const mailbox = isOnly && !recipient.address.includes("@") ? notice.recipients[0]?.address : undefined;
  return judge({
    recipient: mailbox ?? recipient.address,
    action: namedAction(recipient.action) ?? impliedAction(recipient.status, isDelay || recipient.willRetry),
    status: recipient.status,
    diagnostic: remoteWords(recipient.diagnostic || passage),
    context: isOnly ? `${passage}\n${notice.text}` : passage,
  });
}

interface Judged {
  readonly recipient: string;
  readonly action: DsnAction;
  readonly status?: string | undefined;
  readonly diagnostic: string;
  readonly context?: string;
}

function judge({ recipient, action, status, diagnostic, context = "" }: Judged): BounceResult {
  const replycode = findReplyCode(diagnostic) ?? findReplyCode(context) ?? null;
  const specific = mostSpecificStatus(status, diagnostic) ?? mostSpecificStatus(undefined, context) ?? null;
  const base = { recipient, action, status: specific, replycode };
  if (action !== "failed" && action !== "delayed") return { ...base, hard: false, reason: "delivered" };
  const { reason, hard } = classifyBounce({ status: specific, replycode, text: diagnostic, context });
  // A delay without a stated reason is the beginning of an expiry.
  const settled = action === "delayed" && reason === "undefined" ? "expired" : reason;
  return { ...base, hard: hard && action === "failed", reason: settled };
}

function namedAction(action: string): DsnAction | undefined {
  return bounceRules.actions.find((rule) => rule.pattern.test(action.toLowerCase()))?.action;
}

/** RFC 3464 §2.3.3 requires the Action field; for reports without it the class of the status stands in. */
function impliedAction(status: EnhancedStatus | undefined, isDelay: boolean): DsnAction {
  if (status && statusClass(status) === 2) return "delivered";
  return isDelay ? "delayed" : "failed";
}

function withOriginal(container: MimePart): { original?: ReturnedOriginal } {
  const fields = findReturnedHeaders(container);
  if (fields.length === 0) return {};
  return {
    original: { messageId: headerValue({ headers: fields }, "message-id") || undefined, headers: firstValues(fields) },
  };
}

function firstValues(fields: readonly HeaderField[]): Map<string, string> {
  return new Map(fields.toReversed().map(({ name, value }) => [name, value]));
}
