import { type EnhancedStatus, parseEnhancedStatus } from "../enhanced-status.ts";
import { type MimePart, partsByDepth, readHeaderBlock } from "./mime.ts";

/** What a report says happened to a recipient (RFC 3464 §2.3.3). */
export const DSN_ACTIONS = ["failed", "delayed", "delivered", "relayed", "expanded"] as const;

export type DsnAction = (typeof DSN_ACTIONS)[number];

/** One per-recipient group of a delivery report, as far as it could be read. */
export interface DsnRecipient {
  /**
   * Final-Recipient, else Original-Recipient, without type, brackets and quotes; "" when neither holds one. An address
   * within the reporting system, such as that of a queue (`jane@message-store`), gives way to the other.
   */
  readonly address: string;
  /** Original-Recipient, when it names another address. */
  readonly originalAddress?: string | undefined;
  /** The Action field as it stands, in lower case; the many odd ones are mapped by the rules. */
  readonly action: string;
  readonly status?: EnhancedStatus | undefined;
  /** Whether it has a Will-Retry-Until field, which only delays have (RFC 3464 §2.3.9). */
  readonly willRetry: boolean;
  /** Diagnostic-Code and the extension fields that carry the words of the failing system. */
  readonly diagnostic: string;
}

/** The parts of these types hold delivery-status fields (RFC 3464 §2.1, RFC 6533 §6). */
const REPORT_TYPES = new Set([
  "message/delivery-status",
  "message/global-delivery-status",
  "message/delivery_status",
  "text/delivery-status",
]);

/** A report holds a few recipients, one of a list explosion a few hundred; what is beyond that is an attack. */
const MAX_RECIPIENTS = 1000;

/** A delivery report: its recipients, and the part that holds it beside the notice for human readers. */
export interface DeliveryReport {
  readonly recipients: readonly DsnRecipient[];
  readonly container: MimePart;
}

/** The delivery-status part of a message: anywhere in the tree, forwarded reports included, the outermost first. */
export function findDeliveryReport(message: MimePart): DeliveryReport | undefined {
  return findReport(message, (part) => REPORT_TYPES.has(part.type));
}

/**
 * A report whose fields stand in a text part, as gateways relabel them. Only for messages of mail systems: people
 * quote reports in the same way.
 */
export function findRelabelledReport(message: MimePart): DeliveryReport | undefined {
  return findReport(
    message,
    (part) => part.type.startsWith("text/") && /^[>\s]{0,8}Final-Recipient\s*:/im.test(part.text),
  );
}

/** The report of a disposition notification of a deleted message, as Sieve's `reject` sends one. @see RFC 5429 §2.1.1 */
export function findDispositionReport(message: MimePart): DeliveryReport | undefined {
  return findReport(
    message,
    (part) =>
      part.type === "message/disposition-notification" && /^Disposition\s*:[^;]{0,200};\s*deleted\b/im.test(part.text),
  );
}

function findReport(message: MimePart, isReport: (part: MimePart) => boolean): DeliveryReport | undefined {
  const parts = [...partsByDepth(message)];
  for (const part of parts.filter(isReport)) {
    const recipients = parseDeliveryStatus(part.text);
    const container = parts.find((candidate) => candidate.children.includes(part)) ?? message;
    if (recipients.length > 0) return { recipients, container };
  }
  return undefined;
}

/**
 * Reads the fields of a delivery report. Tolerated: missing or superfluous blank lines between the groups,
 * continuation lines without indentation, fields in any order, a missing per-message group.
 * @see RFC 3464 §2.1 to §2.3
 */
export function parseDeliveryStatus(text: string): DsnRecipient[] {
  const groups: FieldGroup[] = [];
  for (const group of readGroups(text)) {
    const isRecipient = group.has("final-recipient") || group.has("original-recipient");
    if (isRecipient) groups.push(group);
    else if (group.has("action") || group.has("status")) completeLast(groups, group);
    if (groups.length >= MAX_RECIPIENTS) break;
  }
  return groups.map(toRecipient);
}

/** The address in a recipient field: `rfc822;<user@example.org>`, `user@example.org (comment)`, X.400 and bare forms. */
export function addressOfField(value: string): string {
  const withoutType = value
    .slice(0, MAX_RECIPIENT_CHARACTERS)
    .replace(/^\s*[\w -]{1,30};/, "")
    .trim();
  const bracketed = /<([^<>]{1,400})>/.exec(withoutType)?.[1];
  const candidate = (bracketed ?? withoutType.replace(/\([^()]*\)$/, "")).trim();
  const unquoted = candidate.replace(/^(["']+)([^"']*)["']+$/, "$2");
  return decodeUnicodeAddress(unquoted.replace(/^mailto:/i, "").slice(0, 320));
}

/** An address of 320 characters with what is written around it; what is longer is an attack. */
const MAX_RECIPIENT_CHARACTERS = 1000;

function toRecipient(fields: ReadonlyMap<string, readonly string[]>): DsnRecipient {
  const value = (name: string) => fields.get(name)?.join(" ").trim() ?? "";
  const final = addressOfField(value("final-recipient"));
  const original = addressOfField(value("original-recipient"));
  const address = [final, original].find(isRoutable) ?? [final, original].find(isMailbox) ?? (final || original);
  return {
    address,
    originalAddress: isMailbox(original) && original !== address ? original : undefined,
    action: /^[a-z-]+/.exec(value("action").toLowerCase())?.[0] ?? "",
    status: parseEnhancedStatus(value("status")),
    willRetry: value("will-retry-until") !== "",
    diagnostic: DIAGNOSTIC_FIELDS.map(value).filter(Boolean).join("\n").replace(SPACED_TYPE, "$1;"),
  };
}

/** The type of a Diagnostic-Code with what may stand before its semicolon: blanks and a comment (RFC 3464 §2.1.1). */
const SPACED_TYPE = /^([A-Za-z][A-Za-z0-9-]{0,30})(?:\s{1,9}|\s{0,9}\([^()\n]{0,100}\)\s{0,9});/;

const DIAGNOSTIC_FIELDS = [
  "diagnostic-code",
  "x-supplementary-info",
  "x-smtp-server-diagnostic",
  "x-powermta-bouncecategory",
  "x-mimecast-bounce-reason",
  "x-notes",
  "reason",
];

/** RFC 3464 §2.3; an indented line with one of these names is no continuation. */
const RECIPIENT_FIELDS = new Set([
  "original-recipient",
  "final-recipient",
  "action",
  "status",
  "remote-mta",
  "diagnostic-code",
  "last-attempt-date",
  "final-log-id",
  "will-retry-until",
]);

type FieldGroup = Map<string, string[]>;

/** Groups end at a blank line, and where a field that a recipient has once comes again. */
function* readGroups(text: string): Generator<FieldGroup> {
  let group: FieldGroup = new Map();
  let field: string[] | undefined;
  for (const line of text.split(/\r\n|\n|\r/)) {
    const match = /^[>\s]{0,8}([A-Za-z][A-Za-z0-9-]{2,60})[ \t]*:(.*)$/s.exec(line);
    const name = match?.[1]?.toLowerCase() ?? "";
    if (line.trim() === "") {
      if (group.size > 0) yield group;
      group = new Map();
    } else if (!match || (/^\s/.test(line) && !RECIPIENT_FIELDS.has(name))) {
      field?.push(line.trim());
    } else {
      if (group.has(name) && RECIPIENT_FIELDS.has(name)) {
        yield group;
        group = new Map();
      }
      field = [(match[2] ?? "").trim()];
      if (!group.has(name)) group.set(name, field);
    }
  }
  if (group.size > 0) yield group;
}

/** Fields that a superfluous blank line has parted from their recipient. */
function completeLast(groups: readonly FieldGroup[], rest: FieldGroup): void {
  const last = groups.at(-1);
  for (const [name, value] of rest) if (last && !last.has(name)) last.set(name, value);
}

/** Whether a recipient is named as a mailbox, and not as a pipe, a host, a local account or in another mail system's form. */
export function isMailbox(address: string): boolean {
  return /^[^\s@]+@[^\s@]+$/.test(address) || /^"[^"]+"@[^\s@]+$/.test(address);
}

function isRoutable(address: string): boolean {
  return isMailbox(address) && address.slice(address.lastIndexOf("@")).includes(".");
}

/** RFC 6533 §3: `utf-8-addr-xtext` writes a character as `\x{HEX}`. */
function decodeUnicodeAddress(address: string): string {
  return address.replace(/\\x\{([0-9A-Fa-f]{1,6})\}/g, (whole, hex: string) => {
    const codePoint = Number.parseInt(hex, 16);
    return codePoint <= 0x10ffff ? String.fromCodePoint(codePoint) : whole;
  });
}

/** The header fields of the returned message: of the enclosed message, or of a part that holds its header alone. */
export function findReturnedHeaders(message: MimePart): MimePart["headers"] {
  for (const part of partsByDepth(message)) {
    if (/^message\/(rfc822|global)$/.test(part.type) && part.children[0]) return part.children[0].headers;
    if (/^(text|message)\/(rfc822-headers|global-headers)$/.test(part.type)) return readHeaderBlock(part.text);
  }
  return [];
}
