import { addressOfField } from "./dsn.ts";
import { headerValue, type MimePart, partsByDepth, readHeaderBlock } from "./mime.ts";

/** A complaint as a feedback loop sends it. */
interface FeedbackReport {
  /** See {@link feedbackTypeOf}. */
  readonly feedbackType: string;
  /** Original-Rcpt-To of the report, else what the returned message says of its recipient; often redacted or absent. */
  readonly recipients: readonly string[];
  /** The part that holds the report beside the returned message. */
  readonly container: MimePart;
}

/**
 * Reads a complaint: a feedback-report part anywhere in the message, or one of the known forms that are not ARF.
 * @returns undefined when the message is none
 * @see RFC 5965 §3, RFC 6650
 */
export function findFeedbackReport(message: MimePart): FeedbackReport | undefined {
  for (const container of [{ ...message, type: "", children: [message] }, ...partsByDepth(message)]) {
    const report = container.children.find((part) => isFeedbackReport(part, container));
    if (report) return parseFeedbackReport(report.text, container);
  }
  return findJunkMailReport(message);
}

/** Gateways relabel the part as text; outside of a multipart/report that is a person who quotes one. */
function isFeedbackReport(part: MimePart, container: MimePart): boolean {
  if (part.type === "message/feedback-report") return true;
  const isText = container.type === "multipart/report" && part.type.startsWith("text/");
  return isText && /^Feedback-Type\s*:/im.test(part.text) && /^User-Agent\s*:/im.test(part.text);
}

function parseFeedbackReport(text: string, container: MimePart): FeedbackReport {
  const headers = readHeaderBlock(text);
  const addressesIn = (name: string) =>
    headers.filter((field) => field.name === name).map((field) => addressOfField(field.value));
  const named = ["original-rcpt-to", "removal-recipient"]
    .map((name) => addressesIn(name).filter(isAddress))
    .find((addresses) => addresses.length > 0);
  const feedbackType = feedbackTypeOf(headerValue({ headers }, "feedback-type"));
  return { feedbackType, recipients: [...new Set(named ?? returnedRecipients(container))], container };
}

/**
 * The type of a complaint in lower case: `abuse`, `fraud`, `virus`, `not-spam`, `auth-failure`, `opt-out`, `other`, or one that
 * is not registered; `abuse` where there is none.
 * @param field the value of Feedback-Type, "" without one
 */
export function feedbackTypeOf(field: string): string {
  return /^[\w-]{1,64}/.exec(field.toLowerCase())?.[0] ?? "abuse";
}

/**
 * Microsoft's Junk Mail Reporting Program sends the complaint as the bare message in `message/rfc822`,
 * from a fixed address, with the recipient in a field of its own.
 */
function findJunkMailReport(message: MimePart): FeedbackReport | undefined {
  const origin = `${headerValue(message, "from")} ${headerValue(message, "subject")}`;
  const isJunkMailReport = /staff@hotmail\.com|complaint report from (?:outlook|hotmail)/i.test(origin);
  const encloses = message.children.some((part) => part.type === "message/rfc822");
  const isMarked = [...partsByDepth(message)].some((part) => headerValue(part, JUNK_MAIL_RECIPIENT) !== "");
  if (!isMarked && !(isJunkMailReport && encloses)) return undefined;
  return { feedbackType: "abuse", recipients: returnedRecipients(message), container: message };
}

const JUNK_MAIL_RECIPIENT = "x-hmxmroriginalrecipient";

/** What the returned message itself says; only a hint, since a token and not an address decides whose complaint it is. */
function returnedRecipients(message: MimePart): string[] {
  for (const part of partsByDepth(message)) {
    const isHeaderText = part.type === "text/rfc822-headers";
    const returned =
      part.type === "message/rfc822" ? part.children[0]?.headers : isHeaderText && readHeaderBlock(part.text);
    if (!returned) continue;
    for (const name of [JUNK_MAIL_RECIPIENT, "to", "x-original-to", "delivered-to"]) {
      const address = addressOfField(headerValue({ headers: returned }, name));
      if (isAddress(address)) return [address];
    }
  }
  return [];
}

function isAddress(text: string): boolean {
  return /^[^\s@<>]+@[^\s@<>]+$/.test(text);
}
