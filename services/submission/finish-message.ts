import { randomBytes } from "node:crypto";
import addressparser from "nodemailer/lib/addressparser";
import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { senderKey } from "../core/mail/guard/sending-limits.ts";
import { headerDate } from "../core/mail/headers.ts";
import { fieldValue, joinMessage, type RawField, splitMessage } from "../core/mail/message.ts";
import { isUnambiguous } from "../core/mail/unambiguous-mailboxes.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { newField } from "./mime-tree.ts";
import { toSevenBit } from "./to-seven-bit.ts";

/** How the message came, for its Received field. */
interface Arrival {
  readonly helloName: string;
  readonly clientAddress: string;
  readonly hostname: string;
  /** `ESMTPSA` and the like (RFC 3848, RFC 6531 §4.3). */
  readonly protocol: string;
  readonly login: string;
  readonly at: Date;
}

export interface FinishedMessage {
  readonly octets: Buffer;
  /** The author's domain as A-labels: whose DKIM key signs. */
  readonly senderDomain: string;
  /** The first author as limits are counted by. */
  readonly sender: string;
  /** The other authors, the Sender, and who sent it again, likewise. */
  readonly otherSenders: readonly string[];
}

export type MessageRefusal =
  | "no-single-author"
  | "malformed-author"
  | "foreign-author"
  | "too-many-authors"
  | "too-many-hops"
  /** The name of a field that stands more than once, as it is spelt. */
  | { readonly doubled: string };

/** Blind recipients are nobody's business, a return path is the last hop's to write (RFC 5321 §4.4), and the token is ours. */
const STRIPPED = new Set(["bcc", "resent-bcc", "return-path", "x-delivery-token"]);
/** At most one each (RFC 2045 §3); Tcl's mail library says the same twice. */
const MIME_FIELDS = ["mime-version", "content-type", "content-transfer-encoding"];
/** At most one each (RFC 5322 §3.6): of two a reader may show the one that was not looked at. */
const SINGLE = new Set([
  ...["date", "reply-to", "to", "cc", "message-id", "in-reply-to", "references", "subject"],
  ...MIME_FIELDS,
  // RFC 2369 §3, RFC 8058 §3.1.
  ...["list-unsubscribe", "list-unsubscribe-post"],
]);
/** Ours take their place, for each recipient at delivery, where the campaign wants to know who unsubscribes. */
const UNSUBSCRIPTION = new Set(["list-unsubscribe", "list-unsubscribe-post"]);
/** Readers show who sent a message again beside its author, or in the author's place (RFC 5322 §3.6.6). */
const RESENT = new Set(["resent-from", "resent-sender"]);
/** More hops than this are a loop (RFC 5321 §6.3 asks for at least 100 less margin; real ways have under 20). */
const MOST_HOPS = 50;
/** Each has limits of its own that are looked up and counted. */
export const MOST_AUTHORS = 20;

/** What the instance and its campaign say of a message. */
export interface MessageRules {
  /** Sender domains as A-labels. */
  readonly allowedDomains: ReadonlySet<string>;
  /** Each copy gets List-Unsubscribe fields. */
  readonly unsubscribe: boolean;
}

/**
 * Makes a submitted message fit to be sent: checks its authors, strips what must not leave, and adds what a submission
 * server owes it (RFC 6409 §8: Date, Message-ID; RFC 5321 §4.4: Received). What is 8-bit leaves encoded, so that
 * delivery need not ask who takes it.
 * @param octets an RFC 5322 message, CRLF only
 */
export function finishMessage(
  octets: Buffer,
  { allowedDomains, unsubscribe }: MessageRules,
  arrival: Arrival,
): Result<FinishedMessage, MessageRefusal> {
  const { fields, body } = splitMessage(octets);
  const named = (name: string) => fields.filter((field) => field.name === name);
  if (named("received").length > MOST_HOPS) return refuse("too-many-hops");
  const from = named("from");
  const senders = named("sender");
  if (from.length !== 1 || senders.length > 1) return refuse("no-single-author");

  const authors = mailboxesOf(from[0]!);
  const speakers = senders.flatMap(mailboxesOf);
  const resent = fields.filter(({ name }) => RESENT.has(name)).map(mailboxesOf);
  if ([authors, ...resent].some(({ length }) => length === 0)) return refuse("malformed-author");
  const everybody = [...authors, ...speakers, ...resent.flat()];
  if (everybody.includes(undefined)) return refuse("malformed-author");
  // RFC 5322 §3.6.2: a Sender is one mailbox; several authors need one, who then speaks for them.
  if (speakers.length !== senders.length) return refuse("malformed-author");
  if (authors.length > 1 && speakers.length === 0) return refuse("no-single-author");
  const mailboxes = everybody.map((mailbox) => mailbox!);
  if (mailboxes.length > MOST_AUTHORS) return refuse("too-many-authors");
  const kept = fieldsToSend(fields, unsubscribe);
  const doubled = findDoubled(kept);
  if (doubled !== undefined) return refuse({ doubled });
  if (mailboxes.some(({ asciiDomain }) => !allowedDomains.has(asciiDomain))) return refuse("foreign-author");

  const senderDomain = authors[0]!.asciiDomain;
  const added = [receivedField(arrival)];
  if (named("date").length === 0) added.push(newField("Date", headerDate(arrival.at)));
  if (named("message-id").length === 0) {
    added.push(newField("Message-ID", `<${randomBytes(16).toString("hex")}@${senderDomain}>`));
  }
  // Readers take such a message for MIME all the same. A signature of the author's may cover that the field is not there.
  if (named("mime-version").length === 0 && named("content-type").length > 0 && named("dkim-signature").length === 0) {
    added.push(newField("MIME-Version", "1.0"));
  }
  const message = { fields: [...added, ...kept], body };
  const [sender, ...otherSenders] = mailboxes.map(senderKey);
  return ok({ octets: joinMessage(toSevenBit(message)), senderDomain, sender: sender!, otherSenders });
}

/** Without what is stripped or replaced, and without MIME fields that say again what they said. */
function fieldsToSend(fields: readonly RawField[], unsubscribe: boolean): RawField[] {
  const signed = signedByAuthor(fields);
  const isReplaced = ({ name }: RawField) => unsubscribe && UNSUBSCRIPTION.has(name) && !signed.has(name);
  const firsts = new Map(
    MIME_FIELDS.filter((name) => !signed.has(name)).flatMap((name) => {
      const field = fields.find((each) => each.name === name);
      return field ? [[name, { field, value: fieldValue(field) }]] : [];
    }),
  );
  const isSaidAgain = (field: RawField) => {
    const first = firsts.get(field.name);
    return first !== undefined && first.field !== field && first.value === fieldValue(field);
  };
  return fields
    .filter((field) => !STRIPPED.has(field.name) && !isReplaced(field) && !isSaidAgain(field))
    .map(withoutBlankName);
}

function findDoubled(fields: readonly RawField[]): string | undefined {
  const seen = new Set<string>();
  for (const { name, raw } of fields) {
    if (SINGLE.has(name) && seen.has(name)) return raw.slice(0, name.length);
    seen.add(name);
  }
  return undefined;
}

/** `From : a` is obsolete (RFC 5322 §4.5.2): some readers see no field in it. Relaxed signatures cover it either way. */
function withoutBlankName({ name, raw }: RawField): RawField {
  return name === "" ? { name, raw } : { name, raw: raw.slice(0, name.length) + raw.slice(raw.indexOf(":")) };
}

/** The fields that DKIM signatures cover which the message came with (RFC 6376 §3.5). */
function signedByAuthor(fields: readonly RawField[]): ReadonlySet<string> {
  const covered = fields
    .filter(({ name }) => name === "dkim-signature")
    .flatMap((field) => /(?:^|;)\s*h\s*=([^;]*)/.exec(fieldValue(field))?.[1]?.split(":") ?? []);
  return new Set(covered.map((name) => name.trim().toLowerCase()));
}

/** Undefined stands for a mailbox that is none. */
function mailboxesOf(field: RawField): (EmailAddress | undefined)[] {
  const text = Buffer.from(fieldValue(field), "latin1").toString("utf8");
  if (!isUnambiguous(text)) return [undefined];
  return addressparser(text, { flatten: true }).map(({ address }) => {
    const valid = validateAddress(address ?? "", { allowSmtputf8: true });
    return valid.ok ? valid.value : undefined;
  });
}

function receivedField({ helloName, clientAddress, hostname, protocol, login, at }: Arrival): RawField {
  const literal = clientAddress.includes(":") ? `[IPv6:${clientAddress}]` : `[${clientAddress}]`;
  const name = helloName.replaceAll(/[^A-Za-z0-9.:[\]-]/g, "?");
  const authenticated = login.replaceAll(/[^\x21-\x27\x2a-\x5b\x5d-\x7e]/g, "?");
  return newField(
    "Received",
    `from ${name} (${literal}) (authenticated as ${authenticated}) by ${hostname} with ${protocol}; ${headerDate(at)}`,
  );
}
