import { isAscii } from "node:buffer";
import { headerLength, splitMessage } from "../core/mail/message.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import type { SmtpHandlers } from "../platform/smtp/handlers.ts";
import { delimiterStarts, mediaTypeOf, partsOf } from "./mime-tree.ts";

/** Without the CRLF (RFC 5322 §2.1.1). */
const MOST_LINE_OCTETS = 998;
const LF = 0x0a;

/**
 * What a message may have in its header and those of its parts together. Each field and part is read, and held, by itself, for
 * every recipient's copy once more. Real mail stays far below; large receivers refuse a header above 256 to 500 KiB.
 */
const MOST_HEADER_OCTETS = 1024 * 1024;
const MOST_FIELDS = 20_000;
const MOST_PARTS = 2_000;

/** The same handlers for a message whose form is sound; any other is refused before its content is looked at. */
export function refuseMalformed<User>(handlers: SmtpHandlers<User>): SmtpHandlers<User> {
  return {
    ...handlers,
    message: async (octets, session) => findFormFault(octets) ?? handlers.message(octets, session),
  };
}

/**
 * What makes a message unfit for any further hop: a line too long, more fields or parts than anybody reads, or a header
 * line that is no field, on which readers disagree where the header ends.
 * @param octets CRLF only
 * @see RFC 5322 §2.1.1, §2.2
 */
export function findFormFault(octets: Buffer): SmtpReply | undefined {
  if (hasLongLine(octets)) return refusal(`a line of the message has more than ${MOST_LINE_OCTETS} octets`);
  const excess = new StructureCount().add(octets, 0);
  if (excess !== undefined) return refusal(excess);
  const { fields } = splitMessage(octets);
  return fields.some(({ name }) => name === "") ? refusal("the header has a line that is no field") : undefined;
}

function hasLongLine(octets: Buffer): boolean {
  let start = 0;
  for (let end = octets.indexOf(LF); end >= 0; end = octets.indexOf(LF, start)) {
    if (end - 1 - start > MOST_LINE_OCTETS) return true;
    start = end + 1;
  }
  return octets.length - start > MOST_LINE_OCTETS;
}

/** Counts what a message consists of, as deep as it is read. */
class StructureCount {
  #headerOctets = 0;
  #fields = 0;
  #parts = 0;

  /** @returns of what there is too much, as soon as that is known */
  add(octets: Buffer, level: number): string | undefined {
    this.#headerOctets += headerLength(octets);
    if (this.#headerOctets > MOST_HEADER_OCTETS) {
      return `the header and those of the parts have more than ${MOST_HEADER_OCTETS} octets`;
    }
    const entity = splitMessage(octets);
    this.#fields += entity.fields.length;
    if (this.#fields > MOST_FIELDS) return `the header and those of the parts have more than ${MOST_FIELDS} fields`;
    // Of an enclosed message nothing is read unless it has to be encoded; many are in base64.
    if (mediaTypeOf(entity) === "message/rfc822" && isAscii(entity.body)) return undefined;
    for (const _ of delimiterStarts(entity)) {
      this.#parts += 1;
      if (this.#parts > MOST_PARTS) return `the message has more than ${MOST_PARTS} parts`;
    }
    for (const { start, end } of partsOf(entity, level)) {
      const excess = this.add(entity.body.subarray(start, end), level + 1);
      if (excess !== undefined) return excess;
    }
    return undefined;
  }
}

function refusal(text: string): SmtpReply {
  return { code: 550, enhancedStatus: "5.6.0", lines: [text] };
}
