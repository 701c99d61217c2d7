import { formatSmtpReply, parseSmtpReply } from "../../core/mail/smtp-reply.ts";
import type { CommandContext } from "./command-syntax.ts";

/** Whether what the library has written is a reply with its last line (RFC 5321 §4.2.1). */
export function isWholeReply(text: string): boolean {
  return WHOLE_REPLY.test(text);
}

/** The library puts an enhanced status of its own before each text, also before one that brings its own. */
export function withOneStatus(reply: string): string {
  return reply.replace(STATUS_BEFORE_STATUS, "$1");
}

/**
 * Completes the reply to EHLO: STARTTLS, which the library knows nothing of, is offered until TLS is active, AUTH only
 * where it may be used, and DSN where it is served.
 */
export function completeOffers(text: string, { isSecure, mayAuthenticate, servesDsn }: CommandContext): string {
  const reply = parseSmtpReply(text);
  if (reply?.code !== 250) return text;
  const [name = "", ...offers] = reply.lines;
  const offered = offers.filter((offer) => mayAuthenticate || !offer.startsWith("AUTH "));
  return formatSmtpReply({
    ...reply,
    lines: [name, ...(isSecure ? [] : ["STARTTLS"]), ...offered, ...(servesDsn ? ["DSN"] : [])],
  });
}

/** A text may hold any character but the end of a line, those that end one in Unicode included. */
const WHOLE_REPLY = /(?:^|\n)\d{3}(?: [^\n]*)?\r\n$/;
const STATUS_BEFORE_STATUS = /^(\d{3} )[245]\.\d{1,3}\.\d{1,3} (?=[245]\.\d{1,3}\.\d{1,3}[ \r])/;
