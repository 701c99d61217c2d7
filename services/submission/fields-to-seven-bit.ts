import { isUtf8 } from "node:buffer";
import { validateAddress } from "../core/mail/address.ts";
import { charsetDecoder, WINDOWS_1252 } from "../core/mail/charset.ts";
import { headerAddress } from "../core/mail/headers.ts";
import { fieldValue, type RawField } from "../core/mail/message.ts";
import { parameter } from "../core/mail/mime.ts";
import { charsetOf, newField } from "./mime-tree.ts";

const BEYOND_ASCII = /[^\x00-\x7f]/;
/** Phrases with something in angle brackets behind them; that of List-Id is no address (RFC 2919 §3). */
const MAILBOXES = /^(?:(?:resent-)?(?:from|sender|reply-to|to|cc)|list-id)$/;
const PARAMETERS = /^content-(?:type|disposition)$/;
/** Identifiers, dates and URLs: encoded words may not stand in them (RFC 2047 §5). */
const WORDLESS =
  /^(?:|(?:resent-)?(?:message-id|date)|in-reply-to|references|received|mime-version|content-(?!description$).*|list-.*|arc-.*)$/;
/** A longer one might not fit into a line that the field's name begins (RFC 5322 §2.1.1). */
const LONGEST_WORD = 900;
/** Of text in an encoded word: short enough for the line of a long field name (RFC 2047 §2). */
const WORD_OCTETS = 30;

/**
 * Header fields beyond ASCII in encoded words (RFC 2047) and parameters (RFC 2231), so that no server on the way need
 * offer SMTPUTF8 for them. Text that is not UTF-8 is read by the charset of the Content-Type beside it, else as Windows-1252.
 * Fields with addresses that only SMTPUTF8 carries stay as they are.
 * @returns the same fields when nothing had to change
 * @see RFC 6409 §8
 */
export function encodeFields(fields: readonly RawField[]): readonly RawField[] {
  const charset = charsetOf({ fields });
  const encoded = fields.map((field) => (BEYOND_ASCII.test(field.raw) ? encodeField(field, charset) : field));
  return encoded.some((field, index) => field !== fields[index]) ? encoded : fields;
}

function encodeField(field: RawField, charset: string | undefined): RawField {
  const encode = encoderOf(field.name);
  if (encode === undefined) return field;
  // Of mailboxes and parameters each octet has to stay the character that they were judged by.
  const text = textOf(Buffer.from(fieldValue(field), "latin1"), encode === encodeText ? charset : undefined);
  const encoded = encode(text.replaceAll(/[ \t]+/g, " "));
  if (BEYOND_ASCII.test(encoded) || encoded.split(" ").some((word) => word.length > LONGEST_WORD)) return field;
  return newField(field.raw.slice(0, field.raw.indexOf(":")).trimEnd(), encoded);
}

function textOf(octets: Buffer, label: string | undefined): string {
  if (isUtf8(octets)) return octets.toString("utf8");
  const charset = label ? charsetDecoder(label, { fatal: true }) : undefined;
  try {
    // Of UTF-16 and its like no header can be.
    if (charset?.decode(Buffer.from("a=")) === "a=") return charset.decode(octets);
  } catch {
    // Octets that are none of the charset's.
  }
  return WINDOWS_1252.decode(octets);
}

function encoderOf(name: string): ((text: string) => string) | undefined {
  if (MAILBOXES.test(name)) return encodeMailboxes;
  if (PARAMETERS.test(name)) return encodeParameters;
  return WORDLESS.test(name) ? undefined : encodeText;
}

/** A piece of a field as it stands, or a word that is to be encoded. */
type Piece = string | { readonly word: string };

function encodeText(text: string): string {
  return joinPieces(text.split(/( )/).map((word) => (BEYOND_ASCII.test(word) ? { word } : word)));
}

/** A quoted string that does not end is one piece, so that none is looked for an end twice. */
const MAILBOX_PIECES = /"(?:[^"\\]|\\.)*(?:"|$)|<[^<>]*>|[^ "<>(),;:]+|./gsu;
const QUOTED = /^"((?:[^"\\]|\\.)*)"$/su;

function encodeMailboxes(text: string): string {
  if (text.includes('"@')) return text; // a quoted local part is no name
  return joinPieces((text.match(MAILBOX_PIECES) ?? []).map(readMailboxPiece));
}

function readMailboxPiece(piece: string): Piece {
  if (!BEYOND_ASCII.test(piece)) return piece;
  if (piece.startsWith('"')) {
    const quoted = QUOTED.exec(piece)?.[1];
    return quoted === undefined ? piece : { word: quoted.replaceAll(/\\(.)/gsu, "$1") };
  }
  if (piece.startsWith("<")) return `<${asciiAddress(piece.slice(1, -1).trim())}>`;
  return piece.includes("@") ? asciiAddress(piece) : { word: piece };
}

function asciiAddress(text: string): string {
  const address = validateAddress(text, { allowSmtputf8: true });
  return address.ok ? headerAddress(address.value) : text;
}

/** Words that a space parts are encoded together: between encoded words readers drop it (RFC 2047 §6.2). */
function joinPieces(pieces: readonly Piece[]): string {
  const texts: string[] = [];
  let end = ""; // of all texts together
  const add = (text: string) => {
    texts.push(text);
    end = `${end}${text}`.slice(-3);
  };
  for (let at = 0; at < pieces.length; at++) {
    const piece = pieces[at]!;
    if (typeof piece === "string") {
      add(piece);
      continue;
    }
    let words = piece.word;
    for (let next = pieces[at + 2]; pieces[at + 1] === " " && typeof next === "object"; next = pieces[at + 2]) {
      words += ` ${next.word}`;
      at += 2;
    }
    const follows = pieces[at + 1];
    if (/\?= ?$/.test(end)) words = ` ${words}`;
    if (follows === " " && /^=\?.*\?=$/.test(String(pieces[at + 2]))) words += " ";
    if (/[^ (]$/.test(end)) add(" ");
    add(encodeWords(words));
    if (typeof follows === "string" && /^[^ ,;)]/.test(follows)) add(" ");
  }
  return texts.join("");
}

/** Cut between characters (RFC 2047 §5). */
function encodeWords(text: string): string {
  const octets = Buffer.from(text, "utf8");
  const words: string[] = [];
  for (let start = 0, end = 0; start < octets.length; start = end) {
    end = Math.min(start + WORD_OCTETS, octets.length);
    while (end < octets.length && (octets[end]! & 0xc0) === 0x80) end--;
    words.push(`=?UTF-8?B?${octets.toString("base64", start, end)}?=`);
  }
  return words.join(" ");
}

function encodeParameters(text: string): string {
  return text.replaceAll(
    /; ?([^\s=;"*]+) ?= ?(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/gu,
    (whole, name: string, quoted: string | undefined, plain: string | undefined) => {
      const value = quoted?.replaceAll(/\\(.)/gu, "$1") ?? plain!.trim();
      return BEYOND_ASCII.test(value) ? `; ${parameter(name, value)}` : whole;
    },
  );
}
