/** Text parts with personal places in them, encoded as far as possible before any recipient is known. */
import type { Steps } from "../steps.ts";
import { plainField } from "./headers.ts";
import {
  encodeBase64Lines,
  encodeQuotedPrintable,
  encodeQuotedPrintableSteps,
  prefersBase64,
  SOFT_BREAK,
  toCrlf,
} from "./mime.ts";
import { type PersonalValues, renderTemplate, type TextTemplate, tagValue } from "./personalise.ts";

/** Octets that all recipients share, or what makes the octets for one of them. */
export type MessageChunk = Buffer | ((values: PersonalValues) => Buffer);

/**
 * One text part: its header, an empty line, its body.
 * @param escapeValue applied to each personal value
 */
export function* compileTextPartSteps(
  subtype: "plain" | "html",
  template: TextTemplate,
  escapeValue: (value: string) => string = (value) => value,
): Steps<MessageChunk[]> {
  const shared = template.filter((part) => typeof part === "string").join("");
  // The line breaks that are made anew are ASCII: with them it is never more of the text that lies beyond.
  const isBase64 = prefersBase64(shared) && prefersBase64(toCrlf(shared));
  const header =
    plainField("Content-Type", `text/${subtype}; charset=utf-8`) +
    plainField("Content-Transfer-Encoding", isBase64 ? "base64" : "quoted-printable");
  return [
    Buffer.from(`${header}\r\n`, "latin1"),
    ...(isBase64 ? base64Chunks(template, escapeValue) : yield* quotedPrintableChunks(template, escapeValue)),
  ];
}

/**
 * A soft break after each personal value lets the text that follows start in the first column,
 * whatever the value's length: so it is encoded here, once.
 */
function* quotedPrintableChunks(template: TextTemplate, escapeValue: (value: string) => string): Steps<MessageChunk[]> {
  let column = 0;
  const encoders = new Map<string, MessageChunk>();
  const chunks: MessageChunk[] = [];
  for (const part of template) {
    if (typeof part === "string") {
      const { octets, endColumn } = yield* encodeQuotedPrintableSteps(part);
      column = endColumn;
      chunks.push(octets);
    } else {
      const startColumn = column;
      column = 0;
      const { tag } = part;
      const encoder =
        encoders.get(`${startColumn} ${tag}`) ??
        encodeOnce((values) => encodeQuotedPrintable(escapeValue(tagValue(tag, values)), startColumn).octets);
      encoders.set(`${startColumn} ${tag}`, encoder);
      chunks.push(encoder, SOFT_BREAK);
    }
    yield;
  }
  return chunks;
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
  const normalised = template.map((part) => (typeof part === "string" ? toCrlf(part) : part));
  const render = (values: PersonalValues) =>
    encodeBase64Lines(Buffer.from(toCrlf(renderTemplate(normalised, values, escapeValue)), "utf8"));
  const isConstant = normalised.every((part) => typeof part === "string");
  return isConstant ? [encodeBase64Lines(Buffer.from(normalised.join(""), "utf8"))] : [render];
}
