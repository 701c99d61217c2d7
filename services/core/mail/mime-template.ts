/** Text parts with personal places in them, encoded as far as possible before any recipient is known. */
import { plainField } from "./headers.ts";
import { encodeBase64Lines, encodeQuotedPrintable, prefersBase64, toCrlf } from "./mime.ts";
import { type PersonalValues, renderTemplate, type TextTemplate, tagValue } from "./personalise.ts";

/** Octets that all recipients share, or what makes the octets for one of them. */
export type MessageChunk = Buffer | ((values: PersonalValues) => Buffer);

const SOFT_BREAK = "=\r\n";

/**
 * One text part: its header, an empty line, its body.
 * @param escapeValue applied to each personal value
 */
export function compileTextPart(
  subtype: "plain" | "html",
  template: TextTemplate,
  escapeValue: (value: string) => string = (value) => value,
): MessageChunk[] {
  const normalised = template.map((part) => (typeof part === "string" ? toCrlf(part) : part));
  const isBase64 = prefersBase64(normalised.filter((part) => typeof part === "string").join(""));
  const header =
    plainField("Content-Type", `text/${subtype}; charset=utf-8`) +
    plainField("Content-Transfer-Encoding", isBase64 ? "base64" : "quoted-printable");
  return [
    Buffer.from(`${header}\r\n`, "latin1"),
    ...(isBase64 ? base64Chunks(normalised, escapeValue) : quotedPrintableChunks(normalised, escapeValue)),
  ];
}

/**
 * A soft break after each personal value lets the text that follows start in the first column,
 * whatever the value's length: so it is encoded here, once.
 */
function quotedPrintableChunks(template: TextTemplate, escapeValue: (value: string) => string): MessageChunk[] {
  let column = 0;
  const encoders = new Map<string, MessageChunk>();
  return template.flatMap((part): MessageChunk[] => {
    if (typeof part === "string") {
      const { octets, endColumn } = encodeQuotedPrintable(part);
      column = endColumn;
      return [octets];
    }
    const startColumn = column;
    column = 0;
    const { tag } = part;
    const encoder =
      encoders.get(`${startColumn} ${tag}`) ??
      encodeOnce((values) => encodeQuotedPrintable(toCrlf(escapeValue(tagValue(tag, values))), startColumn).octets);
    encoders.set(`${startColumn} ${tag}`, encoder);
    return [encoder, Buffer.from(SOFT_BREAK, "latin1")];
  });
}

/** A link that stands in many lines is encoded once for each recipient. */
function encodeOnce(encode: (values: PersonalValues) => Buffer): MessageChunk {
  let last: { readonly values: PersonalValues; readonly octets: Buffer } | undefined;
  return (values) => {
    if (last?.values !== values) last = { values, octets: encode(values) };
    return last.octets;
  };
}

/** Base64 runs across the whole body, so that only a body without personal values can be encoded beforehand. */
function base64Chunks(template: TextTemplate, escapeValue: (value: string) => string): MessageChunk[] {
  const render = (values: PersonalValues) =>
    encodeBase64Lines(Buffer.from(toCrlf(renderTemplate(template, values, escapeValue)), "utf8"));
  const isConstant = template.every((part) => typeof part === "string");
  return isConstant ? [encodeBase64Lines(Buffer.from(template.join(""), "utf8"))] : [render];
}
