/** Header fields: RFC 5322 folding, RFC 2047 encoded words, mailbox lists. No value can open a field of its own. */
import type { EmailAddress } from "./address.ts";

/** A display name, possibly empty, and its address. */
export interface Mailbox {
  readonly name: string;
  readonly address: EmailAddress;
}

const LINE_BREAK_OR_NUL = /[\r\n\0]/;
const LINE_LENGTH = 76; // RFC 2047 §2: shorter than RFC 5322's 78 where encoded words stand
const MAX_ENCODED_WORD_LENGTH = 75;
const MAX_PLAIN_WORD_LENGTH = 60;
const PLAIN_TEXT = /^[!-~]+(?: [!-~]+)*$/;
const ATOMS = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/;
const PRINTABLE_ASCII = /^[ -~]+$/;

/** Whether text given by a user may stand in a header: what could end the line is refused, not repaired. */
export function isHeaderSafe(text: string): boolean {
  return !LINE_BREAK_OR_NUL.test(text);
}

/** Text from a contact's data, made fit for a header: controls become spaces. */
export function toHeaderText(text: string): string {
  return text.replace(/[\x00-\x1F\x7F\u2028\u2029]+/g, " ").trim();
}

/**
 * A field of free text, such as Subject; encoded words only where the text needs them.
 * @param text safe by `isHeaderSafe`
 * @returns the folded field with its CRLF
 * @throws RangeError when the text is not safe: callers check input first
 * @see RFC 5322 §2.2.3, RFC 2047 §5 (1)
 */
export function textField(name: string, text: string): string {
  assertSafe(text);
  const isPlain = PLAIN_TEXT.test(text) && !text.includes("=?") && !hasLongWord(text);
  const room = LINE_LENGTH - name.length - 2;
  return fold(name, isPlain || text === "" ? text.split(" ") : encodeWords(text, room));
}

/**
 * A field whose value is already in its final form (identifiers, dates, URLs, parameters); spaces may be folded.
 * @returns the folded field with its CRLF
 */
export function plainField(name: string, value: string): string {
  assertSafe(value);
  return fold(name, value.split(" "));
}

/**
 * A field of addresses: From, To, Cc, Reply-To.
 * @param mailboxes at least one
 * @returns the folded field with its CRLF
 * @see RFC 5322 §3.4, RFC 2047 §5 (3)
 */
export function mailboxField(name: string, mailboxes: readonly Mailbox[]): string {
  const tokens = mailboxes.flatMap((mailbox, index) => {
    const words = mailboxTokens(mailbox, LINE_LENGTH - name.length - 2);
    return index < mailboxes.length - 1 ? [...words.slice(0, -1), `${words.at(-1)},`] : words;
  });
  return fold(name, tokens);
}

/** The address as it stands in a header: A-labels, unless the message needs SMTPUTF8 anyway (RFC 6532 §3.2). */
export function headerAddress(address: EmailAddress): string {
  return address.needsSmtputf8 ? address.text : address.key;
}

/** Date and time in UTC (RFC 5322 §3.3). */
export function headerDate(date: Date): string {
  return date.toUTCString().replace("GMT", "+0000");
}

function mailboxTokens({ name, address }: Mailbox, firstLineRoom: number): string[] {
  assertSafe(name);
  const spelled = headerAddress(address);
  return name === "" ? [spelled] : [...phraseTokens(name, firstLineRoom), `<${spelled}>`];
}

function phraseTokens(name: string, firstLineRoom: number): string[] {
  if (name.includes("=?") || hasLongWord(name)) return encodeWords(name, firstLineRoom);
  if (ATOMS.test(name)) return name.split(" ");
  const quoted = `"${name.replace(/["\\]/g, "\\$&")}"`;
  return PRINTABLE_ASCII.test(name) && quoted.length <= MAX_PLAIN_WORD_LENGTH
    ? [quoted]
    : encodeWords(name, firstLineRoom);
}

/** Lay tokens out on lines, a space between them or a line break and a space. */
function fold(name: string, tokens: readonly string[]): string {
  let folded = `${name}:`;
  let lineLength = folded.length;
  for (const [index, token] of tokens.entries()) {
    // The first token stays on the first line: some readers take an empty first line for the end of the header.
    if (index > 0 && lineLength + 1 + token.length > LINE_LENGTH) {
      folded += "\r\n";
      lineLength = 0;
    }
    folded += ` ${token}`;
    lineLength += 1 + token.length;
  }
  return `${folded}\r\n`;
}

/**
 * Text as encoded words in UTF-8, cut between characters.
 * Q where most is ASCII and so stays readable, else B.
 * @param firstLineRoom how long the first word may be
 */
function encodeWords(text: string, firstLineRoom: number): string[] {
  const characters = Array.from(text, (character) => Buffer.from(character, "utf8"));
  const isMostlyAscii = characters.filter((octets) => octets.length > 1).length * 4 <= characters.length;
  const [open, encode] = isMostlyAscii ? (["=?UTF-8?Q?", encodeQ] as const) : (["=?UTF-8?B?", encodeB] as const);
  const overhead = open.length + "?=".length;

  const words: string[] = [];
  let pending: Buffer[] = [];
  let pendingLength = 0;
  for (const octets of characters) {
    const room =
      (words.length === 0 ? Math.min(firstLineRoom, MAX_ENCODED_WORD_LENGTH) : MAX_ENCODED_WORD_LENGTH) - overhead;
    const length = isMostlyAscii ? encodeQ(octets).length : octets.length;
    if (pending.length > 0 && pendingLength + length > (isMostlyAscii ? room : Math.floor(room / 4) * 3)) {
      words.push(`${open}${encode(Buffer.concat(pending))}?=`);
      pending = [];
      pendingLength = 0;
    }
    pending.push(octets);
    pendingLength += length;
  }
  words.push(`${open}${encode(Buffer.concat(pending))}?=`);
  return words;
}

/** RFC 2047 §4.2 with the narrow alphabet of §5 (3), which is right in every place. */
function encodeQ(octets: Buffer): string {
  return octets
    .toString("latin1")
    .replace(/[^A-Za-z0-9!*+\-/ ]/g, (octet) => `=${octet.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`)
    .replaceAll(" ", "_");
}

function encodeB(octets: Buffer): string {
  return octets.toString("base64");
}

function hasLongWord(text: string): boolean {
  return text.split(" ").some((word) => word.length > MAX_PLAIN_WORD_LENGTH);
}

function assertSafe(text: string): void {
  if (!isHeaderSafe(text)) throw new RangeError("a line break or NUL in a header value");
}
