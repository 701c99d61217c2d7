import { isAutomaticReply } from "../../core/mail/bounce/automatic.ts";
import { explainBounce, findReplyCode, knownPhrases, mostSpecificStatus } from "../../core/mail/bounce/class.ts";
import {
  type DeliveryReport,
  type DsnAction,
  type DsnRecipient,
  findDeliveryReport,
  findDispositionReport,
  findRelabelledReport,
  findReturnedHeaders,
  isMailbox,
} from "../../core/mail/bounce/dsn.ts";
import { findFeedbackReport } from "../../core/mail/bounce/feedback-report.ts";
import { type HeaderField, headerValue, type MimePart } from "../../core/mail/bounce/mime.ts";
import {
  type BounceNotice,
  isBounceNotice,
  isDelayNotice,
  isFromMailSystem,
  passagesOf,
  readNotice,
  remoteWords,
} from "../../core/mail/bounce/notice.ts";
import { findJsonNotification, type JsonNotification } from "../../core/mail/bounce/notification.ts";
import type { Phrases } from "../../core/mail/bounce/phrases.ts";
import type { BounceReason } from "../../core/mail/bounce/reason.ts";
import { findReturnedTokens, type ReturnedTokens } from "../../core/mail/bounce/returned-tokens.ts";
import { bounceRules, comparable } from "../../core/mail/bounce/rules.ts";
import { type EnhancedStatus, parseEnhancedStatus, statusClass } from "../../core/mail/enhanced-status.ts";
import { readMimeMessage } from "../../platform/read-mime.ts";

/** What an inbound message is: a delivery report, a complaint, an automatic reply, or ordinary mail. */
type FindingKind = "dsn" | "arf" | "vacation" | "not-bounce";

/** One recipient of the reported message. `hard` only where `action` is `failed`. */
export interface BounceResult {
  /** As the report has it; "" when the report names none (the return path's token tells who it was). */
  readonly recipient: string;
  /** As the report has it. */
  readonly action: DsnAction;
  /** The report calls it a delay, and says beside it that the message was given up. */
  readonly isGivenUp?: true;
  readonly status: EnhancedStatus | null;
  readonly replycode: string | null;
  readonly hard: boolean;
  readonly reason: BounceReason;
}

/** The message that was returned, as far as the report holds it. */
interface ReturnedOriginal {
  readonly messageId: string | undefined;
  /** Header names in lower case; of a repeated field the first. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Whether the message is gone and did not arrive. */
export function isFailure({ action, isGivenUp }: BounceResult): boolean {
  return action === "failed" || isGivenUp === true;
}

/** What a message that came back means. Vacations and ordinary mail have no results. */
export interface Finding {
  readonly kind: FindingKind;
  readonly results: readonly BounceResult[];
  /** Words of failing systems that no table knows, for operators to learn from. */
  readonly unknown?: readonly string[];
  /** Of complaints only, as `feedbackTypeOf` has it. */
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
 * @param phrases what mail systems say, with an operator's own wordings where there are any
 */
export async function interpret(message: Uint8Array, phrases: Phrases = knownPhrases): Promise<Finding> {
  const root = await readMimeMessage(message);
  return complaint(root) ?? judgeReport(deliveryReport(root) ?? textNotice(root), phrases) ?? ordinary(root);
}

/** The complaint that a message is; undefined where it is none, whatever else it may be. As bounded as `interpret`. */
export async function readComplaint(message: Uint8Array): Promise<Finding | undefined> {
  return complaint(await readMimeMessage(message));
}

function complaint(root: MimePart): Finding | undefined {
  const report = findFeedbackReport(root);
  if (!report) return jsonComplaint(root);
  const tokens = findReturnedTokens(report.container);
  return { ...complaintOf(report.recipients, report.feedbackType), tokens, ...withOriginal(report.container) };
}

function jsonComplaint(root: MimePart): Finding | undefined {
  const notification = findJsonNotification(root);
  if (notification?.type !== "complaint") return undefined;
  return complaintOf(
    notification.recipients.map(({ address }) => address),
    notification.feedbackType,
  );
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

/** What a report or a notice says, before it is judged. */
interface Report {
  readonly recipients: readonly ReportedRecipient[];
  /** What is beside it: the part that also holds the returned message, and the words for people. */
  readonly around?: { readonly container: MimePart; readonly notice: BounceNotice };
  /** A person's own filter sent it and may say anything: the mailbox is there, and what gives no known reason is a refusal. */
  readonly fromOwnFilter?: boolean;
}

/** Every field as the message has it; `diagnostic` holds the failing system's words, `context` what stands around them. */
interface ReportedRecipient extends Pick<BounceResult, "recipient" | "action" | "isGivenUp"> {
  readonly status?: string | undefined;
  readonly diagnostic: string;
  /** Whether the diagnostic is what a system says under an address that it could not route itself. */
  readonly unrouted?: boolean;
  readonly context?: string;
  readonly elsewhere?: string;
}

function deliveryReport(root: MimePart): Report | undefined {
  const notification = findJsonNotification(root);
  if (notification) return jsonReport(notification);
  const fromMailSystem = isFromMailSystem(root);
  const report = findDeliveryReport(root) ?? (fromMailSystem ? findRelabelledReport(root) : undefined);
  const refusal = report ? undefined : refusalByRecipient(root, fromMailSystem);
  const found = report ?? refusal;
  return found && { ...readReport(root, found), fromOwnFilter: refusal !== undefined };
}

/**
 * Only its words, or the comment that Dovecot and Cyrus write, tell a refusal from a receipt for a message that was deleted
 * unread.
 */
function refusalByRecipient(root: MimePart, fromMailSystem: boolean): DeliveryReport | undefined {
  const isMarked = /^auto-replied\s{0,9}\(rejected\)/i.test(headerValue(root, "auto-submitted"));
  const isSaid = fromMailSystem && bounceRules().refusals.test(comparable(readNotice(root).text));
  return isMarked || isSaid ? findDispositionReport(root) : undefined;
}

function jsonReport({ type, recipients }: JsonNotification): Report {
  const implied = type === "delivery" ? "delivered" : "failed";
  return {
    recipients: recipients.map(({ address, action, status, diagnostic }) => ({
      ...{ recipient: address, action: namedAction(action) ?? implied },
      ...{ status, diagnostic },
    })),
  };
}

function readReport(root: MimePart, report: DeliveryReport): Report {
  const notice = readNotice(report.container);
  const isDelay = isDelayNotice(headerValue(root, "subject"), notice.text);
  const names = report.recipients.map((recipient) => nameInNotice(recipient, notice));
  const passages = passagesOf(notice.text, names).map(({ passage }) => passage);
  const recipients = report.recipients.map((recipient, index) =>
    readRecipient(recipient, { passage: passages[index] ?? "", isOnly: passages.length === 1, isDelay, notice }),
  );
  return { recipients, around: { container: report.container, notice } };
}

function textNotice(root: MimePart): Report | undefined {
  const notice = readNotice(root);
  if (!isBounceNotice(root, notice)) return undefined;
  const action: DsnAction = isDelayNotice(headerValue(root, "subject"), notice.text) ? "delayed" : "failed";
  const named = notice.recipients.length > 0 ? notice.recipients : [{ address: "", passage: notice.text }];
  const recipients = named.map(({ address, passage }): ReportedRecipient => {
    const context = named.length === 1 ? notice.text : `${notice.introduction}\n${passage}`;
    const diagnostic = remoteWords(passage) || context;
    const unrouted = bounceRules().unrouted.test(passage);
    const told = { recipient: address, action, ...givenUp(action, passage) };
    return { ...told, diagnostic, unrouted, context, elsewhere: notice.elsewhere };
  });
  return { recipients, around: { container: root, notice } };
}

function ordinary(root: MimePart): Finding {
  return { kind: isAutomaticReply(root, readNotice(root)) ? "vacation" : "not-bounce", results: [] };
}

/** A message that only asks its sender to confirm is a challenge, which no recipient's state can be read from. */
function judgeReport(report: Report | undefined, phrases: Phrases): Finding | undefined {
  if (!report) return undefined;
  const { recipients, around, fromOwnFilter } = report;
  const judged = recipients.map((recipient) => judge(recipient, phrases));
  const results = judged.map(({ result }) => (fromOwnFilter ? asOwnRefusal(result) : result));
  const asks = around && bounceRules().challenges.test(comparable(around.notice.text.slice(0, 4000)));
  const isChallenge =
    (asks && results.every(({ hard }) => !hard)) || results.every(({ reason }) => reason === "vacation");
  if (isChallenge && around) return { kind: "vacation", results: [] };
  const unknown = fromOwnFilter ? [] : [...new Set(judged.flatMap(({ unknownWords }) => unknownWords ?? []))];
  return {
    kind: "dsn",
    results,
    ...(unknown.length > 0 && { unknown }),
    ...(around && withOriginal(around.container)),
  };
}

function asOwnRefusal(result: BounceResult): BounceResult {
  return { ...result, hard: false, reason: result.reason === "undefined" ? "rejected" : result.reason };
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

function readRecipient(
  recipient: DsnRecipient,
  { passage, isOnly, isDelay, notice }: ReportContext,
): ReportedRecipient {
  // Fields may name a local account, a pipe, a host or an X.400 address where the notice has the mailbox.
  const mailbox = isOnly && !isMailbox(recipient.address) ? notice.recipients[0]?.address : undefined;
  const action = namedAction(recipient.action) ?? impliedAction(recipient.status, isDelay || recipient.willRetry);
  return {
    recipient: mailbox ?? recipient.address,
    action,
    ...givenUp(action, passage),
    status: recipient.status,
    diagnostic: remoteWords(recipient.diagnostic || passage),
    unrouted: recipient.diagnostic === "" && bounceRules().unrouted.test(passage),
    context: isOnly ? `${passage}\n${notice.text}` : passage,
    elsewhere: notice.elsewhere,
  };
}

interface Judged {
  readonly result: BounceResult;
  /** The failing system's words, where no table knows them and nothing but a reply code is left to go by. */
  readonly unknownWords?: string;
}

function judge(reported: ReportedRecipient, phrases: Phrases): Judged {
  const { recipient, action, isGivenUp, diagnostic, unrouted, context = "", elsewhere = "" } = reported;
  const replycode = findReplyCode(diagnostic) ?? findReplyCode(context) ?? null;
  const status = mostSpecificStatus(reported.status, diagnostic) ?? mostSpecificStatus(undefined, context) ?? null;
  if (action !== "failed" && action !== "delayed") {
    const success = /^\s*(2\d\d)[ -](2\.\d{1,3}\.\d{1,3})?/.exec(diagnostic);
    const told = parseEnhancedStatus(success?.[2] ?? "") ?? status;
    const result = { recipient, action, status: told, replycode: success?.[1] ?? replycode };
    return { result: { ...result, hard: false, reason: "delivered" } };
  }
  const evidence = { status, replycode, text: diagnostic, unrouted };
  const byNotice = explainBounce({ ...evidence, context }, phrases);
  const { reason, hard, by } =
    byNotice.reason === "undefined" ? explainBounce({ ...evidence, context: elsewhere }, phrases) : byNotice;
  // A delay without a stated reason is the beginning of an expiry.
  const settled = action === "delayed" && reason === "undefined" ? "expired" : reason;
  const whose = { recipient, action, ...(isGivenUp && { isGivenUp }) };
  const result = { ...whose, status, replycode, hard: hard && action === "failed", reason: settled };
  return by === "code" ? { result, unknownWords: diagnostic.slice(0, MOST_UNKNOWN_CHARACTERS) } : { result };
}

const MOST_UNKNOWN_CHARACTERS = 500;

function namedAction(action: string): DsnAction | undefined {
  return bounceRules().actions.find((rule) => rule.pattern.test(action.toLowerCase()))?.action;
}

/** RFC 3464 §2.3.3 requires the Action field; for reports without it the class of the status stands in. */
function impliedAction(status: EnhancedStatus | undefined, isDelay: boolean): DsnAction {
  if (status && statusClass(status) === 2) return "delivered";
  return isDelay ? "delayed" : "failed";
}

/** @param passage what the notice says of the recipient: that its time is over makes an end of a delay */
function givenUp(action: DsnAction, passage: string): Pick<BounceResult, "isGivenUp"> {
  return action === "delayed" && bounceRules().expiries.test(comparable(passage)) ? { isGivenUp: true } : {};
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
