import { splitMessage } from "../core/mail/message.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import type { SmtpHandlers } from "../platform/smtp/handlers.ts";

/** Without the CRLF (RFC 5322 §2.1.1). */
const MOST_LINE_OCTETS = 998;
const LF = 0x0a;

/** The same handlers for a message whose form is sound; any other is refused before its content is looked at. */
export function refuseMalformed<User>(handlers: SmtpHandlers<User>): SmtpHandlers<User> {
  return {
    ...handlers,
    message: async (octets, session) => findFormFault(octets) ?? handlers.message(octets, session),
  };
}

/**
 * What makes a message unfit for any further hop: a line too long, or a header line that is no field, on which readers
 * disagree where the header ends.
 * @param octets CRLF only
 * @see RFC 5322 §2.1.1, §2.2
 */
export function findFormFault(octets: Buffer): SmtpReply | undefined {
  if (hasLongLine(octets)) return refusal(`a line of the message has more than ${MOST_LINE_OCTETS} octets`);
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

function refusal(text: string): SmtpReply {
  return { code: 550, enhancedStatus: "5.6.0", lines: [text] };
}
