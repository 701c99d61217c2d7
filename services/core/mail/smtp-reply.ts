import { type EnhancedStatus, parseEnhancedStatus } from "./enhanced-status.ts";

/**
 * A reply of an SMTP server.
 * `code` is 200 to 599; `lines` holds the text of each line, code and enhanced status removed, at least one.
 * @see RFC 5321 §4.2 and RFC 2034 §4 for the enhanced status that leads the text
 */
export interface SmtpReply {
  readonly code: number;
  readonly enhancedStatus?: EnhancedStatus | undefined;
  readonly lines: readonly string[];
}

/**
 * Reads a reply of one or more lines, as received or as nodemailer's `response` carries it.
 * Lines may end in CRLF or LF; a line without a code continues the text of the one before.
 * @returns undefined when the text does not start with a reply code
 */
export function parseSmtpReply(text: string): SmtpReply | undefined {
  const lines = text.trimEnd().split(/\r?\n/);
  const code = Number(/^([2-5]\d\d)(?:[ -]|$)/.exec(lines[0] ?? "")?.[1]);
  if (!code) return undefined;
  const texts = lines.map((line) => line.replace(/^[2-5]\d\d(?:[ -]|$)/, "").trim());
  const enhancedStatus = statusFor(code, texts[0] ?? "");
  if (enhancedStatus === undefined) return { code, lines: texts };
  return { code, enhancedStatus, lines: texts.map((line) => withoutStatus(line, enhancedStatus)) };
}

/**
 * The text of a reply in ASCII, as any client takes it (RFC 5321 §4.2): more is allowed with SMTPUTF8 only (RFC 6531
 * §3.7.4.2), and nowhere needed. Accents fall off, blanks and ends of lines of Unicode become blanks, the rest question
 * marks.
 */
export function inAscii(text: string): string {
  return text.normalize("NFC").replace(/[^\x00-\x7f]/gu, (character) => {
    if (/\s/.test(character)) return " ";
    const plain = character.normalize("NFKD").replace(/\p{M}/gu, "");
    return /^[\x20-\x7e]+$/.test(plain) ? plain : "?";
  });
}

/**
 * Writes a reply as it goes over the wire, in ASCII, each line ended by CRLF.
 * Control characters in the text become blanks, so that no text can add a line.
 */
export function formatSmtpReply(reply: SmtpReply): string {
  const lines = reply.lines.length > 0 ? reply.lines : [""];
  const prefix = reply.enhancedStatus ? `${reply.enhancedStatus} ` : "";
  return lines
    .map((line, index) => {
      const separator = index === lines.length - 1 ? " " : "-";
      return `${reply.code}${separator}${prefix}${inAscii(line.replace(/[\x00-\x1f\x7f]+/g, " "))}`.trimEnd();
    })
    .map((line) => `${line}\r\n`)
    .join("");
}

/** The whole reply on one line, for logs, events and the Diagnostic-Code of a report: `550 5.1.1 No such user`. */
export function describeSmtpReply(reply: SmtpReply): string {
  return [reply.code, reply.enhancedStatus, ...reply.lines]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");
}

/** A status counts only when its class agrees with the code (RFC 2034 §4); others are text such as a version number. */
function statusFor(code: number, text: string): EnhancedStatus | undefined {
  const status = parseEnhancedStatus(text);
  return status?.startsWith(String(code)[0] as string) ? status : undefined;
}

function withoutStatus(line: string, status: EnhancedStatus): string {
  return line === status || line.startsWith(`${status} `) ? line.slice(status.length).trim() : line;
}
