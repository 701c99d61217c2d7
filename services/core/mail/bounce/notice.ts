import { htmlToPlainText } from "../decode.ts";
import { headerValue, MIME_LIMITS, type MimePart } from "./mime.ts";
import { bounceRules, comparable, withAsciiQuotes } from "./rules.ts";

/** What a mail system wrote for human readers about a message that it could not deliver. */
export interface BounceNotice {
  /** The notice alone, with ASCII quotation marks: the returned message is cut off. */
  readonly text: string;
  /** What stands right before the first recipient, and so may be said of all of them. */
  readonly introduction: string;
  readonly recipients: readonly NoticeRecipient[];
  /** The subject and what other text parts say, for what the notice leaves open. */
  readonly elsewhere: string;
}

/** `passage` is what the notice says from each place that names the recipient up to the next one; "" if none does. */
interface NoticeRecipient {
  readonly address: string;
  readonly passage: string;
  /** Where the notice first names it; its length when it never does. */
  readonly start: number;
}

/** A notice is a page or two. What is longer is a returned message behind a separator that no rule knows. */
const MAX_NOTICE_CHARACTERS = 16 * 1024;

/** It is read anew for each recipient. */
const MAX_INTRODUCTION_CHARACTERS = 1000;

/** A notice to the owner of a list may name hundreds; an attack would name more. */
const MAX_NOTICE_RECIPIENTS = 1000;

/**
 * Reads the notice in a message: its first text part, outside of any enclosed message, up to where the returned
 * message begins. Recipients come from X-Failed-Recipients (Exim, Google), else from the first layout of the
 * rules that finds any; never from the returned message.
 */
export function readNotice(message: MimePart): BounceNotice {
  const [first = "", ...others] = textParts(message);
  const text = cutReturnedMessage(first);
  const elsewhere = [headerValue(message, "subject"), ...others.map(cutReturnedMessage)].join("\n");
  const recipients = passagesOf(text, failedRecipients(message) ?? findAddresses(text, message));
  const beginning = Math.min(...recipients.map(({ start }) => start), text.length);
  const introduction = text.slice(Math.max(0, beginning - MAX_INTRODUCTION_CHARACTERS), beginning);
  return { text, introduction, recipients, elsewhere };
}

/**
 * Whether a message that is no standard report is a notice of failure or delay. People write about undelivered mail
 * too, so no sign alone is enough: what it says, and how it was sent, count together.
 */
export function isBounceNotice(message: MimePart, notice: BounceNotice): boolean {
  if (headerValue(message, "x-failed-recipients") !== "") return true;
  const title = comparable(headerValue(message, "subject")).trim();
  if (bounceRules().automaticSubjects.test(title)) return false;
  if (message.children.some((part) => part.type === "message/disposition-notification")) return false;
  const opening = bounceRules().openings.test(comparable(notice.text.slice(0, 2000)));
  const subject = bounceRules().subjects.test(title) || bounceRules().delays.test(title);
  if (!opening && !subject) return false;
  const fromMailSystem = isFromMailSystem(message);
  const signs: readonly (readonly [boolean, number])[] = [
    [opening, 1],
    [subject, 1],
    [notice.recipients.length > 0, 1],
    [fromMailSystem, 2],
    [/^\s*<\s*>/.test(headerValue(message, "return-path")), 1],
    [!fromMailSystem && /^auto-(?:generated|replied)/i.test(headerValue(message, "auto-submitted")), 1],
    [message.type === "multipart/report", 1],
    [message.children.some((part) => part.type === "message/rfc822"), 2],
    [isReply(title) && !fromMailSystem, -2],
  ];
  return signs.reduce((sum, [holds, weight]) => sum + (holds ? weight : 0), 0) >= ENOUGH_SIGNS;
}

const ENOUGH_SIGNS = 4;

/** A person who answers or forwards says so in the subject. */
function isReply(subject: string): boolean {
  return /^(?:re|aw|sv|antw|rif|odp|fwd?|wg|tr|rv|enc)\s?:/.test(subject);
}

/** Whether a message claims to come from a mail system and not from a person. */
export function isFromMailSystem(message: MimePart): boolean {
  const isMailSystem = (name: string) => bounceRules().senders.test(comparable(headerValue(message, name)).trim());
  return isMailSystem("from") || /mailer-daemon/i.test(headerValue(message, "return-path"));
}

/** Whether a notice announces further attempts instead of giving up. */
export function isDelayNotice(subject: string, text: string): boolean {
  const words = comparable(`${subject}\n${text}`);
  return bounceRules().delays.test(words) && !bounceRules().finalities.test(words);
}

/** Mailboxes in a header field, in lower case for comparison. */
function addressesOfHeader(value: string): string[] {
  return [...value.matchAll(/[^\s<>"(),;:]{1,128}@[^\s<>"(),;:]{1,255}/g)].map((match) => match[0].toLowerCase());
}

function failedRecipients(message: MimePart): string[] | undefined {
  const addresses = message.headers
    .filter((field) => field.name === "x-failed-recipients")
    .flatMap((field) => field.value.split(","))
    .map((address) => address.trim().replace(/^<|>$/g, ""))
    .filter((address) => /^[^\s@]+@[^\s@]+$/.test(address));
  return addresses.length > 0 ? addresses.slice(0, MAX_NOTICE_RECIPIENTS) : undefined;
}

/** The texts of a message in their order; of alternatives the plain one, none of an enclosed message or its header. */
function textParts(part: MimePart): string[] {
  if (part.type.startsWith("message/")) return [];
  if (part.type === "multipart/alternative") {
    const plain = part.children.find((child) => child.type === "text/plain" && child.text.trim() !== "");
    if (plain) return [plain.text];
    return part.children.flatMap(textParts).slice(0, 1);
  }
  const children = part.children.flatMap(textParts);
  if (children.length > 0 || part.text.trim() === "" || /^text\/(rfc822-headers|delivery-status)$/.test(part.type))
    return children;
  return [part.type === "text/html" ? htmlToPlainText(part.text.slice(0, MIME_LIMITS.htmlCharacters)) : part.text];
}

function cutReturnedMessage(text: string): string {
  const normalized = withAsciiQuotes(text.slice(0, MAX_NOTICE_CHARACTERS)).replace(/\r\n?/g, "\n");
  // A separator at the very beginning would leave nothing of the notice: then it is a heading.
  const beginning = normalized.search(/\S/) + 1;
  const index = normalized.slice(beginning).search(bounceRules().returned);
  return index === -1 ? normalized : normalized.slice(0, beginning + index);
}

/** The first layout that finds any address wins; mailboxes of staff are contacts, unless nothing else is named. */
function findAddresses(text: string, message: MimePart): string[] {
  const from = addressesOfHeader(headerValue(message, "from"));
  const own = new Set([...from, ...addressesOfHeader(headerValue(message, "to"))]);
  const senderDomain = from[0]?.split("@")[1];
  // Some people write to themselves: their own address counts where no other is left.
  const passes = [
    { others: own, contacts: STAFF_MAILBOX },
    { others: own, contacts: /^$/ },
    { others: new Set(from), contacts: STAFF_MAILBOX },
  ];
  for (const { others, contacts } of passes) {
    for (const { pattern, loose, domainOfSender } of bounceRules().recipients) {
      const addresses = [...text.matchAll(pattern)]
        .slice(0, MAX_NOTICE_RECIPIENTS)
        .map((match) => (domainOfSender ? `${match[1]}@${senderDomain}` : (match[1] ?? "")))
        .filter((address) => !loose || !(others.has(address.toLowerCase()) || contacts.test(address)));
      if (addresses.length > 0) return withoutRepetition(addresses);
    }
  }
  return [];
}

function withoutRepetition(addresses: readonly string[]): string[] {
  return [...new Map(addresses.toReversed().map((address) => [address.toLowerCase(), address])).values()].toReversed();
}

const STAFF_MAILBOX = /^(?:mailer-daemon|postmaster|abuse|helpdesk|support|hostmaster|noreply|no-reply)@/i;

/** What a notice says of each of these addresses: Exchange lists them for people first, and once more with the codes. */
export function passagesOf(text: string, addresses: readonly string[]): NoticeRecipient[] {
  const lowerText = text.toLowerCase();
  const wanted = addresses.map((address) => address.toLowerCase());
  // A report that repeats a recipient a thousand times must not cost a thousand times its notice.
  const found = wanted.map((address, index) => (wanted.indexOf(address) < index ? [] : mentionsOf(lowerText, address)));
  // Where one address begins with another, the longer is named; so no passage is read for several.
  const lengths = new Map<number, number>();
  for (const [index, starts] of found.entries()) {
    for (const start of starts) lengths.set(start, Math.max(lengths.get(start) ?? 0, wanted[index]!.length));
  }
  const mentions = found.map((starts, index) => starts.filter((start) => lengths.get(start) === wanted[index]!.length));
  const starts = [...new Set(mentions.flat())].sort((left, right) => left - right);
  const ends = new Map(starts.map((start, index) => [start, starts[index + 1]]));
  return addresses.map((address, index) => {
    const named = mentions[index] ?? [];
    const passage = named.map((start) => text.slice(start, ends.get(start))).join("");
    return { address, passage, start: named[0] ?? text.length };
  });
}

/** Where a text first names an address, and where it does so again at the beginning of a line. */
function mentionsOf(lowerText: string, address: string): number[] {
  const mentions: number[] = [];
  for (let at = lowerText.indexOf(address); at !== -1 && address !== ""; at = lowerText.indexOf(address, at + 1)) {
    if (mentions.length === 0 || beginsLine(lowerText, at)) mentions.push(at);
  }
  return mentions;
}

/** Looked at from the place backwards: a hostile text may mention an address at each of its characters. */
function beginsLine(text: string, at: number): boolean {
  let start = at;
  while (start > 0 && at - start < MAX_ORNAMENTS && ORNAMENTS.has(text[start - 1]!)) start--;
  return start === 0 || text[start - 1] === "\n";
}

/** What may stand between the beginning of a line and the address with which it begins. */
const ORNAMENTS = new Set(" \t>*<'\"(-");
const MAX_ORNAMENTS = 40;

/** The words of the failing system in a text, where the reporting system marks them; else the text. */
export function remoteWords(text: string): string {
  const plain = withAsciiQuotes(text);
  for (const pattern of bounceRules().diagnostics) {
    const words = pattern.exec(plain)?.[1];
    if (words) return words;
  }
  return plain;
}
