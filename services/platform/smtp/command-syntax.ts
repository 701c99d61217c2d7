import type { SMTPServer } from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";

/** One client's dialogue, as the library has it. */
export type SmtpConnection = SMTPServer["connections"] extends Set<infer C> ? C : never;

/**
 * Has a connection refuse what the library overlooks: parameters of commands that have none, AUTH without a mechanism,
 * and answers to its challenges that are no base64.
 */
export function requireSyntax(connection: SmtpConnection): void {
  // RFC 5321 §4.1.1; blanks at the end are forgiven.
  for (const verb of ["DATA", "RSET", "QUIT"] as const) {
    const handle = connection[`handler_${verb}`].bind(connection);
    connection[`handler_${verb}`] = (command, done) => {
      if (wordsOf(command).length === 1) return handle(command, done);
      refuse(connection, NO_PARAMETERS, done);
    };
  }
  const authenticate = connection.handler_AUTH.bind(connection);
  connection.handler_AUTH = (command, done) => {
    const [, mechanism, initial] = wordsOf(command);
    if (mechanism === undefined) return refuse(connection, NO_MECHANISM, done);
    // Whether anybody may log in here and now is said first.
    const isHeard = connection.secure || connection._server.options.allowInsecureAuth;
    if (isHeard && initial !== undefined && !BASE64.test(initial)) return refuse(connection, NO_BASE64, done);
    authenticate(command, done);
    requireBase64(connection);
  };
}

/** RFC 4954 §4: of what is to come in this exchange; `*` gives it up. */
function requireBase64(connection: SmtpConnection): void {
  const next = connection._nextHandler;
  if (!next) return;
  connection._nextHandler = (line, done) => {
    const response = line.toString("latin1").trim();
    if (response !== "*" && !BASE64.test(response)) return refuse(connection, NO_BASE64, done);
    next.call(connection, line, done);
    requireBase64(connection);
  };
}

function refuse(connection: SmtpConnection, reply: SmtpReply, done: () => void): void {
  connection.send(reply.code, describeSmtpReply(reply).slice(4), false);
  done();
}

function wordsOf(command: Buffer): string[] {
  return command.toString("latin1").trim().split(/\s+/);
}

/** Programs that leave out the padding are understood; an initial response of nothing is a lone `=`. */
const BASE64 = /^[a-z\d+/]*={0,2}$/i;

const NO_PARAMETERS: SmtpReply = { code: 501, enhancedStatus: "5.5.4", lines: ["the command has no parameters"] };
const NO_MECHANISM: SmtpReply = { code: 501, enhancedStatus: "5.5.4", lines: ["syntax: AUTH mechanism"] };
const NO_BASE64: SmtpReply = { code: 501, enhancedStatus: "5.5.2", lines: ["not base64"] };
