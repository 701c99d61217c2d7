import type { DsnRefusal } from "../../core/mail/dsn-parameters.ts";
import type { SmtpReply } from "../../core/mail/smtp-reply.ts";

/** What the judgement of a command depends on. */
export interface CommandContext {
  /** AUTH is served. */
  readonly servesAuth: boolean;
  /** Reports are offered (RFC 3461). */
  readonly servesDsn: boolean;
  /** Credentials may be sent over the connection as it is. */
  readonly mayAuthenticate: boolean;
  readonly isSecure: boolean;
  /** HELO or EHLO was answered, since TLS began where it has. */
  readonly isIntroduced: boolean;
}

/** The word that a command begins with, in capitals. */
export function verbOf(line: string): string {
  return line.split(" ", 1)[0]!.toUpperCase();
}

/**
 * Judges a command (`line`, which begins with `verb`) by what is not left to the library: which commands there are and
 * when, parameters of commands that have none, one of an extension that is not offered, AUTH without a mechanism.
 * @returns the refusal, if any
 */
export function judgeCommand(verb: string, line: string, context: CommandContext): SmtpReply | undefined {
  if (!SERVED.has(verb) || (verb === "AUTH" && !context.servesAuth)) {
    return HTTP_REQUEST.test(line) ? NO_HTTP : NOT_RECOGNIZED;
  }
  if (INTRODUCED_ONLY.has(verb) && !context.isIntroduced) return INTRODUCTION_REQUIRED;
  // RFC 5321 §4.1.1; blanks at the end are forgiven.
  if (WITHOUT_PARAMETERS.has(verb) && line.trimEnd().length > verb.length) return NO_PARAMETERS;
  if (verb === "STARTTLS" && context.isSecure) return ALREADY_SECURE;
  // The library knows it (RFC 8689), and refuses it as in clear: of TLS it knows nothing.
  if (verb === "MAIL" && line.split(/\s+/).some((word) => REQUIRETLS.test(word))) return UNKNOWN_PARAMETER;
  return verb === "AUTH" ? judgeAuth(line, context) : undefined;
}

function judgeAuth(line: string, { mayAuthenticate }: CommandContext): SmtpReply | undefined {
  const [, mechanism, initial] = line.trim().split(/\s+/);
  if (mechanism === undefined) return NO_MECHANISM;
  // Whether anybody may log in here and now is said first.
  if (!mayAuthenticate) return ENCRYPTION_REQUIRED;
  return initial === undefined || BASE64.test(initial) ? undefined : NO_BASE64;
}

/** Judges the answer to a challenge of AUTH (RFC 4954 §4); `*` gives the exchange up. @returns the refusal, if any */
export function judgeAuthAnswer(line: string): SmtpReply | undefined {
  const answer = line.trim();
  return answer === "*" || BASE64.test(answer) ? undefined : NO_BASE64;
}

const SERVED = new Set([
  "EHLO",
  "HELO",
  "MAIL",
  "RCPT",
  "DATA",
  "RSET",
  "VRFY",
  "HELP",
  "NOOP",
  "QUIT",
  "STARTTLS",
  "AUTH",
]);
const INTRODUCED_ONLY = new Set(["MAIL", "RCPT", "DATA", "AUTH"]);
const WITHOUT_PARAMETERS = new Set(["DATA", "RSET", "QUIT", "STARTTLS"]);

const REQUIRETLS = /^REQUIRETLS(?:=|$)/i;

/** What a web page has a browser send; whoever sends it is not listened to. */
const HTTP_REQUEST = /^(?:OPTIONS|GET|HEAD|POST|PUT|DELETE|TRACE|CONNECT) \/.* HTTP\/\d\.\d$/i;

/** Programs that leave out the padding are understood; an initial response of nothing is a lone `=`. */
const BASE64 = /^[a-z\d+/]*={0,2}$/i;

const NO_HTTP: SmtpReply = { code: 421, enhancedStatus: "4.7.0", lines: ["HTTP requests not allowed"] };
const NOT_RECOGNIZED: SmtpReply = { code: 500, enhancedStatus: "5.5.2", lines: ["Error: command not recognized"] };
const INTRODUCTION_REQUIRED: SmtpReply = { code: 503, enhancedStatus: "5.5.1", lines: ["Error: send HELO/EHLO first"] };
const NO_PARAMETERS: SmtpReply = { code: 501, enhancedStatus: "5.5.4", lines: ["the command has no parameters"] };
const ALREADY_SECURE: SmtpReply = { code: 503, enhancedStatus: "5.5.1", lines: ["Error: TLS already active"] };
/** RFC 5321 §4.1.1.11 */
export const UNKNOWN_PARAMETER: SmtpReply = { code: 555, enhancedStatus: "5.5.4", lines: ["parameter not recognized"] };
const NO_MECHANISM: SmtpReply = { code: 501, enhancedStatus: "5.5.4", lines: ["syntax: AUTH mechanism"] };
/** To parameters of RFC 3461 that are none. */
export const DSN_REFUSALS: Readonly<Record<DsnRefusal, SmtpReply>> = {
  repeated: { code: 501, enhancedStatus: "5.5.4", lines: ["a parameter is given twice"] },
  malformed: { code: 501, enhancedStatus: "5.5.4", lines: ["malformed RET, ENVID, NOTIFY or ORCPT"] },
};
const NO_BASE64: SmtpReply = { code: 501, enhancedStatus: "5.5.2", lines: ["not base64"] };
/** To AUTH in clear (RFC 4954 §6). */
const ENCRYPTION_REQUIRED: SmtpReply = {
  code: 538,
  enhancedStatus: "5.7.11",
  lines: ["encryption required for the requested authentication mechanism"],
};
