import { isAscii, isUtf8 } from "node:buffer";
import { joinMessage, type MessageParts, splitMessage } from "../core/mail/message.ts";
import { encodeBase64Lines, encodeQuotedPrintable, prefersBase64 } from "../core/mail/mime.ts";
import { encodeFields } from "./fields-to-seven-bit.ts";
import { mediaTypeOf, newField, partsOf, readField, withField } from "./mime-tree.ts";

const ENCODING_FIELD = "content-transfer-encoding";

/**
 * Encodes the 8-bit header fields and bodies of a message, part by part, so that every server takes it, whether it
 * offers 8BITMIME and SMTPUTF8 or not. To be done before signing (RFC 6376 §5.3). What a signature of the author's covers
 * stays as it is, as does what cannot be understood.
 * @returns the same parts when nothing had to change
 * @see RFC 2045 §6, RFC 2046 §5
 */
export function toSevenBit(message: MessageParts): MessageParts {
  if (message.fields.some(({ name }) => name === "dkim-signature")) return message;
  const encoded = encodeEntity(message, 0);
  // RFC 2045 §4: without it the fields of the encoding would mean nothing.
  const lacksVersion = encoded.body !== message.body && !message.fields.some(({ name }) => name === "mime-version");
  return lacksVersion ? { ...encoded, fields: [...encoded.fields, newField("MIME-Version", "1.0")] } : encoded;
}

function encodeEntity(given: MessageParts, level: number): MessageParts {
  const fields = encodeFields(given.fields);
  const entity = fields === given.fields ? given : { ...given, fields };
  if (isAscii(entity.body)) return entity;
  const type = mediaTypeOf(entity);
  // RFC 1847 §2.1: what is signed or encrypted was 7-bit already, or is nobody's to change.
  if (type === "multipart/signed" || type === "multipart/encrypted") return entity;
  if (type.startsWith("multipart/") || type === "message/rfc822") return encodeParts(entity, level);
  // RFC 2046 §5.2: no other message type may be encoded.
  return type.startsWith("message/") ? entity : encodeLeaf(entity, type);
}

function encodeOctets(octets: Buffer, level: number): Buffer {
  const parts = splitMessage(octets);
  const encoded = encodeEntity(parts, level);
  return encoded === parts ? octets : joinMessage(encoded);
}

function encodeParts(entity: MessageParts, level: number): MessageParts {
  const { body } = entity;
  const pieces: Buffer[] = [];
  let written = 0;
  for (const { start, end } of partsOf(entity, level)) {
    pieces.push(body.subarray(written, start), encodeOctets(body.subarray(start, end), level + 1));
    written = end;
  }
  return relabel(entity, Buffer.concat([...pieces, body.subarray(written)]));
}

function encodeLeaf(entity: MessageParts, type: string): MessageParts {
  const declared = (readField(entity, ENCODING_FIELD) ?? "7bit").toLowerCase();
  // Octets that the declared encoding cannot hold: what they mean is the reader's guess.
  if (!["7bit", "8bit", "binary"].includes(declared)) return entity;
  const text = type.startsWith("text/") && isUtf8(entity.body) ? entity.body.toString("utf8") : undefined;
  const readable = text !== undefined && !prefersBase64(text);
  const body = readable ? encodeQuotedPrintable(text).octets : encodeBase64Lines(entity.body);
  const described = withField(entity.fields, "Content-Transfer-Encoding", readable ? "quoted-printable" : "base64");
  if (readField(entity, "content-type") !== undefined) return { fields: described, body };
  // RFC 2045 §5.2 would make US-ASCII of it, which it is not.
  const charset = isUtf8(entity.body) ? "utf-8" : "unknown-8bit";
  return { fields: withField(described, "Content-Type", `text/plain; charset=${charset}`), body };
}

/** An entity that holds others says what they have become: 7-bit, unless some stayed as it was. */
function relabel(entity: MessageParts, body: Buffer): MessageParts {
  if (body.equals(entity.body)) return entity;
  if (!isAscii(body) || readField(entity, ENCODING_FIELD) === undefined) return { ...entity, body };
  return { fields: withField(entity.fields, "Content-Transfer-Encoding", "7bit"), body };
}
