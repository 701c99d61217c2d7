import { Buffer } from "node:buffer";
import { Parser } from "htmlparser2";
import { type CharsetDecoder, charsetDecoder, WINDOWS_1252 } from "./charset.ts";

/**
 * Octets to text by a charset label. An unknown or wrong label never loses ASCII: octets that are no UTF-8
 * are then read as Windows-1252, and ISO-2022-JP is known by its escape sequences.
 */
export function decodeCharset(octets: Uint8Array, label: string): string {
  const charset = label.trim().toLowerCase();
  if (charset !== "" && !/^(us-)?ascii$|^utf-?8$|^7bit$|^8bit$|^unknown/.test(charset)) {
    const decoder = decoderFor(charset);
    if (decoder) return decoder.decode(octets);
  }
  const buffer = Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength);
  const beginning = buffer.subarray(0, 4096);
  if (beginning.includes(ESCAPE) && /\x1b[$(][@BJ]/.test(beginning.toString("latin1")))
    return new TextDecoder("iso-2022-jp").decode(buffer);
  const text = buffer.toString("utf8");
  return text.includes("\ufffd") ? WINDOWS_1252.decode(buffer) : text;
}

/** Quoted-printable to octets; a malformed escape stands for itself. @see RFC 2045 §6.7 */
export function decodeQuotedPrintable(octets: Uint8Array): Buffer {
  const source = Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength).toString("latin1");
  const joined = Buffer.from(source.replace(/=[ \t]{0,76}\r?\n/g, ""), "latin1");
  let length = 0;
  // In place, octet by octet: a text may be nothing but escapes.
  for (let at = 0; at < joined.length; at++) {
    const octet = joined[at]!;
    const high = octet === EQUALS ? hexDigit(joined[at + 1]) : -1;
    const low = high < 0 ? -1 : hexDigit(joined[at + 2]);
    joined[length++] = low < 0 ? octet : high * 16 + low;
    if (low >= 0) at += 2;
  }
  return joined.subarray(0, length);
}

const EQUALS = 0x3d;
const ESCAPE = 0x1b;

/** @returns -1 for what is none */
function hexDigit(octet: number | undefined): number {
  if (octet === undefined) return -1;
  if (octet >= 0x30 && octet <= 0x39) return octet - 0x30;
  const letter = octet | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Replaces the encoded words of a header value; adjoining words lose the blanks between them. @see RFC 2047 §6.2 */
export function decodeEncodedWords(value: string): string {
  if (!value.includes("=?")) return value;
  return value
    .replace(/(\?=)\s{1,100}(?==\?)/g, "$1")
    .replace(
      /=\?([\w.:-]{1,40})(?:\*[\w-]{1,20})?\?([BbQq])\?([^?]{0,2000})\?=/g,
      (_, charset: string, encoding: string, text: string) => decodeCharset(decodeWord(encoding, text), charset),
    );
}

/**
 * The visible text of an HTML part, block elements on lines of their own, so that the wordings of notices that
 * come in HTML alone are found as in plain text.
 */
export function htmlToPlainText(html: string): string {
  let text = "";
  let hiddenDepth = 0;
  const parser = new Parser(
    {
      onopentagname(name) {
        if (HIDDEN_ELEMENTS.has(name)) hiddenDepth++;
        else if (LINE_ELEMENTS.has(name)) text += "\n";
      },
      ontext(data) {
        if (hiddenDepth === 0) text += data.replace(/[\s\u00a0]+/g, " ");
      },
      onclosetag(name) {
        if (HIDDEN_ELEMENTS.has(name)) hiddenDepth = Math.max(0, hiddenDepth - 1);
        else if (BLOCK_ELEMENTS.has(name)) text += "\n";
      },
    },
    { decodeEntities: true },
  );
  parser.end(html);
  return text.replace(/[ \t]{0,100}\n[ \t]{0,100}/g, "\n").replace(/\n{3,}/g, "\n\n");
}

function decodeWord(encoding: string, text: string): Buffer {
  if (encoding.toUpperCase() === "B") return Buffer.from(text, "base64");
  return decodeQuotedPrintable(Buffer.from(text.replaceAll("_", " "), "utf8"));
}

const decoders = new Map<string, CharsetDecoder>();

/** Labels come from strangers: only those that name a decoder are remembered. */
function decoderFor(charset: string): CharsetDecoder | undefined {
  const decoder = decoders.get(charset) ?? charsetDecoder(charset);
  if (decoder) decoders.set(charset, decoder);
  return decoder;
}

const HIDDEN_ELEMENTS = new Set(["script", "style", "title"]);
const BLOCK_ELEMENTS = new Set([
  "p",
  "div",
  "tr",
  "table",
  "h1",
  "h2",
  "h3",
  "h4",
  "li",
  "ul",
  "pre",
  "blockquote",
  "td",
]);
const LINE_ELEMENTS = new Set([...BLOCK_ELEMENTS, "br", "hr"]);
