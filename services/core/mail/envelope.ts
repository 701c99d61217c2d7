/** The SMTP envelope: addresses that cannot carry a second command with them. */
import { ok, type Result, refuse } from "../result.ts";
import { type EmailAddress, validateAddress } from "./address.ts";
import type { MessageDsn, RecipientDsn } from "./dsn-parameters.ts";

/** What MAIL FROM and RCPT TO say (RFC 5321 §2.3.1), spelled as they go over the wire. */
export interface Envelope {
  /** Return path without angle brackets; empty for the null reverse-path of notifications (RFC 5321 §4.5.5). */
  readonly mailFrom: string;
  readonly rcptTo: readonly string[];
  /** Some address, the header's included, is beyond ASCII: the SMTPUTF8 parameter is needed, or 5.6.7 (RFC 6531 §3.4). */
  readonly needsSmtputf8: boolean;
  /** What its sender wants to be told, passed on to servers that offer DSN; of all recipients alike (RFC 3461). */
  readonly dsn?: { readonly message: MessageDsn; readonly recipient: RecipientDsn };
}

/** Why no envelope can be made. */
type EnvelopeRefusal = "no-recipients" | "malformed-return-path";

/**
 * Build an envelope.
 * @param returnPath an address as text, or empty for the null reverse-path; checked here, never repaired
 * @param recipients validated addresses, at least one; equal ones are merged
 */
export function makeEnvelope(
  returnPath: string,
  recipients: readonly EmailAddress[],
): Result<Envelope, EnvelopeRefusal> {
  if (recipients.length === 0) return refuse("no-recipients");
  const sender = returnPath === "" ? null : validateReturnPath(returnPath);
  if (sender !== null && !sender.ok) return sender;
  const addresses = sender === null ? recipients : [sender.value, ...recipients];
  return ok({
    mailFrom: sender === null ? "" : wireAddress(sender.value),
    rcptTo: [...new Set(recipients.map(wireAddress))],
    needsSmtputf8: addresses.some((address) => address.needsSmtputf8),
  });
}

/** An address as SMTP carries it: A-labels, so that a plain local part needs no SMTPUTF8. */
function wireAddress(address: EmailAddress): string {
  return address.key;
}

function validateReturnPath(returnPath: string): Result<EmailAddress, EnvelopeRefusal> {
  const address = validateAddress(returnPath, { allowSmtputf8: true });
  return address.ok ? address : refuse("malformed-return-path");
}
