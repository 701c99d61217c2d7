/** The parameters of MAIL and RCPT by which a client says what it wants to be told of its message (RFC 3461 §4, RFC 6533 §3). */
import { ok, type Result, refuse } from "../result.ts";

/** What a sender may ask to be told. */
const NOTIFICATIONS = ["success", "failure", "delay"] as const;

export type Notification = (typeof NOTIFICATIONS)[number];

/** What MAIL says of a message. JSON holds it as it is. */
export interface MessageDsn {
  /** RET: how much of the message a report of failure is to bring back. */
  readonly returns?: "full" | "headers";
  /** ENVID as the command has it, in xtext. */
  readonly envelopeId?: string;
}

/** What RCPT says of a recipient. JSON holds it as it is. */
export interface RecipientDsn {
  /** NOTIFY; empty for NEVER. */
  readonly notify?: readonly Notification[];
  /** ORCPT as the command has it: its type, a semicolon, and the address as the type encodes it. */
  readonly originalRecipient?: string;
}

/** What one command says: MAIL of the message, RCPT of a recipient. */
export type DsnParameters = MessageDsn & RecipientDsn;

/** The address that a sender used in the first place. */
interface OriginalRecipient {
  /** `rfc822`, `utf-8`, or another registered type, in lower case. */
  readonly type: string;
  /** Decoded. */
  readonly address: string;
}

/** Why a parameter is refused; nothing in it is fit to be repeated. */
export type DsnRefusal = "repeated" | "malformed";

/** A command without the parameters that were taken off it. */
interface CommandWithDsn {
  readonly line: string;
  /** Undefined where the command has none of them. */
  readonly dsn: DsnParameters | undefined;
}

/** RFC 3461 §4.1 to §4.4 */
const MOST_CHARACTERS: Readonly<Record<string, number>> = { RET: 8, ENVID: 100, NOTIFY: 28, ORCPT: 500 };
const PARAMETERS_OF: Readonly<Record<string, readonly string[]>> = {
  MAIL: ["RET", "ENVID"],
  RCPT: ["NOTIFY", "ORCPT"],
};
const COMMAND = /^((?:MAIL FROM|RCPT TO)\s*:\s*<[^<>]*>)(\s.*)$/i;

/**
 * Takes the parameters off a MAIL or RCPT command and reads them to the letter.
 * @param line octets as latin1 characters, without the end of line
 */
export function takeDsnParameters(verb: string, line: string): Result<CommandWithDsn, DsnRefusal> {
  const known = PARAMETERS_OF[verb] ?? [];
  const [, command, tail] = COMMAND.exec(line) ?? [];
  if (command === undefined || tail === undefined) return ok({ line, dsn: undefined });
  const others: string[] = [];
  const given = new Map<string, string>();
  for (const parameter of tail.trim().split(/\s+/)) {
    const [keyword = "", ...value] = parameter.split("=");
    const name = keyword.toUpperCase();
    if (!known.includes(name)) others.push(parameter);
    else if (given.has(name)) return refuse("repeated");
    else given.set(name, value.join("="));
  }
  if (given.size === 0) return ok({ line, dsn: undefined });
  const dsn: Record<string, unknown> = {};
  for (const [name, value] of given) {
    const [key, read] = value.length > MOST_CHARACTERS[name]! ? [] : READERS[name]!(value);
    if (key === undefined || read === undefined) return refuse("malformed");
    dsn[key] = read;
  }
  return ok({ line: [command, ...others].join(" "), dsn });
}

type Reader = (value: string) => readonly [key: string, read: unknown];

const READERS: Readonly<Record<string, Reader>> = {
  RET: (value) => ["returns", RETURNS[value.toUpperCase()]],
  ENVID: (value) => ["envelopeId", decodeXtext(value) === undefined ? undefined : value],
  NOTIFY: (value) => ["notify", readNotify(value)],
  ORCPT: (value) => ["originalRecipient", readOriginalRecipientText(value)],
};

const RETURNS: Readonly<Record<string, MessageDsn["returns"]>> = { FULL: "full", HDRS: "headers" };

/** RFC 3461 §4.1: NEVER stands alone. */
function readNotify(value: string): readonly Notification[] | undefined {
  const words = value.toLowerCase().split(",");
  if (words.length === 1 && words[0] === "never") return [];
  const asked = NOTIFICATIONS.filter((kind) => words.includes(kind));
  return words.every((word) => (NOTIFICATIONS as readonly string[]).includes(word)) ? asked : undefined;
}

function readOriginalRecipientText(latin1: string): string | undefined {
  const octets = Buffer.from(latin1, "latin1");
  const text = octets.toString("utf8");
  return Buffer.from(text, "utf8").equals(octets) && readOriginalRecipient(text) !== undefined ? text : undefined;
}

/**
 * Decodes the value of ORCPT.
 * @returns undefined where it is not to the letter, or decodes to what no field may hold
 */
export function readOriginalRecipient(text: string): OriginalRecipient | undefined {
  const [, type, encoded] = /^([A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+);(.+)$/.exec(text) ?? [];
  if (type === undefined || encoded === undefined) return undefined;
  const address = type.toLowerCase() === "utf-8" ? decodeUtf8Address(encoded) : decodeXtext(encoded);
  return address === undefined ? undefined : { type: type.toLowerCase(), address };
}

/** The value of ORCPT as it goes to a server that takes ASCII only (RFC 6533 §3: utf-8-addr-xtext). */
export function toAsciiOriginalRecipient(text: string): string {
  const read = /^[\x21-\x7e]*$/.test(text) ? undefined : readOriginalRecipient(text);
  return read === undefined ? text : `utf-8;${encodeUtf8Address(read.address)}`;
}

/** RFC 3461 §4: what stands for itself, and `+` with two hexadecimal digits in capitals. */
const XTEXT = /^(?:[\x21-\x2a\x2c-\x3c\x3e-\x7e]|\+[0-9A-F]{2})+$/;

/** @returns undefined where the text is no xtext, or decodes to something else than printable ASCII */
export function decodeXtext(text: string): string | undefined {
  if (!XTEXT.test(text)) return undefined;
  const decoded = text.replace(/\+([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return /^[\x20-\x7e]+$/.test(decoded) && decoded.trim() !== "" ? decoded : undefined;
}

/** RFC 6533 §3: QUCHAR and EmbeddedUnicodeChar; a code point has no leading zeros. */
const UTF8_ADDRESS =
  /^(?:[\x21-\x2a\x2c-\x3c\x3e-\x5b\x5d-\x7e\u{80}-\u{10ffff}]|\\x\{(?:[0-9A-F]{2}|[1-9A-F][0-9A-F]{2,4}|10[0-9A-F]{4})\})+$/iu;
const EMBEDDED = /\\x\{([0-9A-F]+)\}/gi;
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

function decodeUtf8Address(text: string): string | undefined {
  if (!UTF8_ADDRESS.test(text)) return undefined;
  const decoded = text.replace(EMBEDDED, (_, hex) => String.fromCodePoint(Number.parseInt(hex, 16)));
  return UNPRINTABLE.test(decoded) || decoded.trim() === "" ? undefined : decoded;
}

/** An address in ASCII, whatever characters it has (utf-8-addr-xtext). */
export function encodeUtf8Address(address: string): string {
  return [...address]
    .map((character) =>
      /^[\x21-\x2a\x2c-\x3c\x3e-\x5b\x5d-\x7e]$/.test(character)
        ? character
        : `\\x{${character.codePointAt(0)!.toString(16).toUpperCase().padStart(2, "0")}}`,
    )
    .join("");
}

/**
 * What a next hop is asked to tell of a recipient. The return path that leaves is ours: of failures it is told always, or
 * addresses that bounce would be mailed for ever. RFC 3461 §5.2.1 has a relay pass NOTIFY on as it came, which is for one
 * that keeps the sender's return path; whether the sender hears of anything is decided here, by {@link isNotified}.
 */
export function askedOfNextHop({ notify, ...others }: RecipientDsn): RecipientDsn {
  if (notify === undefined) return others;
  return { ...others, notify: NOTIFICATIONS.filter((kind) => kind === "failure" || notify.includes(kind)) };
}

/**
 * Whether a sender is to be told of something. Who does not say what it wants hears of failures and delays
 * (RFC 3461 §4.1 leaves the delays to the server).
 */
export function isNotified({ notify = ["failure", "delay"] }: RecipientDsn, of: Notification): boolean {
  return notify.includes(of);
}
