import libmime from "libmime";
import addressparser from "nodemailer/lib/addressparser";
import { addressKeyOf } from "./address.ts";
import { fieldValue, type RawField, splitMessage } from "./message.ts";
import type { MessageDescription } from "./message-terms.ts";

const MOST_HEADER_OCTETS = 65_536;
const MOST_CHARACTERS = 500;

/** Reads what a finished message says of itself in its header. */
export function describeMessage(octets: Buffer): MessageDescription {
  const { fields } = splitMessage(octets.subarray(0, MOST_HEADER_OCTETS));
  const readField = (name: string) => {
    const field = fields.find((one) => one.name === name);
    return field && readable(field);
  };
  const [author] = addressparser(readField("from") ?? "", { flatten: true });
  return {
    subject: cut(libmime.decodeWords(readField("subject") ?? "")),
    sender: addressKeyOf(author?.address ?? "") ?? null,
    messageId: /<[^<>\s]{1,250}>/.exec(readField("message-id") ?? "")?.[0] ?? null,
  };
}

/** A subject as it is kept: one line, not too long; PostgreSQL takes no NUL. */
export function cut(subject: string): string {
  return [...subject.replace(/[\x00-\x1f\x7f]+/g, " ")].slice(0, MOST_CHARACTERS).join("");
}

/** Octets of a header are UTF-8 where they are 8-bit (RFC 6532 §3.1). */
function readable(field: RawField): string {
  return Buffer.from(fieldValue(field), "latin1").toString("utf8");
}
