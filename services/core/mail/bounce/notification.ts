import { feedbackTypeOf } from "./feedback-report.ts";
import type { MimePart } from "./mime.ts";

/** One recipient of a bounce notification in JSON. */
interface NotifiedRecipient {
  readonly address: string;
  readonly action: string;
  readonly status: string;
  readonly diagnostic: string;
}

/** What Amazon SES reports in JSON, by way of SNS, in place of a DSN or an ARF message. */
export interface JsonNotification {
  readonly type: "bounce" | "complaint" | "delivery";
  readonly recipients: readonly NotifiedRecipient[];
  /** Of a complaint: the type of the report that it is made of. */
  readonly feedbackType: string;
}

/**
 * Reads a notification of Amazon SES that came by e-mail: the bare object, or one inside of an SNS envelope. Lines that
 * were folded on the way are joined.
 * @returns undefined when the text holds none
 */
export function findJsonNotification(message: MimePart): JsonNotification | undefined {
  const text = message.text.slice(0, MAX_JSON_CHARACTERS);
  if (!text.trimStart().startsWith("{") || !/"(?:notificationType|eventType|Message)"/.test(text)) return undefined;
  const outer = parseObject(text.slice(text.indexOf("{"), text.search(/\n--[ \r]*\n|$(?![\s\S])/)));
  const inner = typeof outer?.Message === "string" ? parseObject(outer.Message) : outer;
  const named = inner?.notificationType ?? inner?.eventType;
  const type = typeof named === "string" ? named.toLowerCase() : "";
  if (!inner || (type !== "bounce" && type !== "complaint" && type !== "delivery")) return undefined;
  const detail = asObject(inner[type]);
  const listed = detail[LIST_OF_TYPE[type]];
  const reply = typeof detail.smtpResponse === "string" ? detail.smtpResponse : "";
  const recipients = (Array.isArray(listed) ? listed : [])
    .slice(0, MAX_RECIPIENTS)
    .map((one) => toRecipient(one, reply));
  const { complaintFeedbackType: told } = detail;
  const feedbackType = feedbackTypeOf(typeof told === "string" ? told : "");
  return { type, recipients: recipients.filter(({ address }) => address.includes("@")), feedbackType };
}

const MAX_JSON_CHARACTERS = 256 * 1024;
const MAX_RECIPIENTS = 1000;

const LIST_OF_TYPE = {
  bounce: "bouncedRecipients",
  complaint: "complainedRecipients",
  delivery: "recipients",
} as const;

function toRecipient(value: unknown, reply: string): NotifiedRecipient {
  if (typeof value === "string") return { address: value, action: "", status: "", diagnostic: reply };
  const fields = asObject(value);
  const text = (name: string) => (typeof fields[name] === "string" ? fields[name] : "");
  return {
    address: text("emailAddress"),
    action: text("action"),
    status: text("status"),
    diagnostic: text("diagnosticCode"),
  };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    return asObject(JSON.parse(text.replace(/\r?\n[ \t]?/g, "")));
  } catch {
    return undefined;
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
