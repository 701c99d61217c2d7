import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { SMTPServer } from "smtp-server";
import { MODERN_CIPHERS, type ServerCertificate } from "../certificate.ts";
import type { HostPort } from "../config/config-values.ts";
import { ConnectionCounts } from "../connection-counts.ts";
import { bindWithPatience, formatBound } from "../http/listen.ts";
import type { Observe } from "../observability/observation.ts";
import type { SmtpHandlers } from "./handlers.ts";
import { SMTP_LIMITS, type SmtpLimits } from "./limits.ts";
import { MessageCollector } from "./message-collector.ts";
import { ServerDialogues, SmtpRefusal } from "./server-dialogues.ts";
import { StrictSmtpServer } from "./strict-server.ts";

export interface SmtpListenerOptions {
  readonly name: string;
  readonly hostname: string;
  readonly certificate: ServerCertificate;
  readonly tls: "starttls" | "implicit";
  /** Loopback clients may authenticate without TLS. */
  readonly plaintextAuthOnLoopback: boolean;
  readonly maxMessageOctets: number;
  readonly maxRecipients: number;
  /** `strict`: messages have CRLF only and no NUL, others are refused. */
  readonly lines: "strict" | "as-they-are";
  /** Connection caps hold for loopback clients as well. */
  readonly limitLoopback: boolean;
  /** `SMTP_LIMITS` unless given. */
  readonly limits?: SmtpLimits;
  readonly observe: Observe;
}

export interface SmtpListener {
  /** host:port of the first address. */
  readonly address: string;
  close(): Promise<void>;
}

/** Serves SMTP on every address of a listen value; undefined when it is `off`. */
export async function listenSmtp<User>(
  addresses: readonly HostPort[],
  handlers: SmtpHandlers<User>,
  options: SmtpListenerOptions,
): Promise<SmtpListener | undefined> {
  if (addresses.length === 0) return undefined;
  const collector = new MessageCollector(options.lines);
  const servers: SMTPServer[] = [];
  const close = async () => {
    await Promise.all(servers.map((server) => closeServer(server, (options.limits ?? SMTP_LIMITS).drainMs)));
  };
  try {
    for (const address of addresses) {
      const server = makeServer(handlers, options, collector);
      await bindWithPatience(server.server, address);
      servers.push(server);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { address: formatBound(servers[0]!.server.address() as AddressInfo), close };
}

function makeServer<User>(
  handlers: SmtpHandlers<User>,
  options: SmtpListenerOptions,
  collector: MessageCollector,
): SMTPServer {
  const { observe, limits = SMTP_LIMITS } = options;
  const sources = new ConnectionCounts(limits.connectionsPerSource, options.limitLoopback);
  const dialogues = new ServerDialogues(handlers, options, { sources, collector });
  const server = new StrictSmtpServer({
    ...settingsOf(options, limits),
    disabledCommands: handlers.authenticate ? NOT_SERVED : [...NOT_SERVED, "AUTH"],
    authOptional: handlers.authenticate === undefined,
    ...(handlers.authenticate ? { ciphers: MODERN_CIPHERS } : {}),
    sources,
    onConnect: (session, done) => done(dialogues.connect(session)),
    onClose: (session) => dialogues.close(session),
    onAuth: (credentials, session, done) => {
      const user = dialogues.authenticate(credentials, session);
      dialogues.answer(user, session, (error, value) => done(error, value && { user: value }));
    },
    onMailFrom: (address, session, done) => dialogues.answer(dialogues.mailFrom(address, session), session, done),
    onRcptTo: (address, session, done) => dialogues.answer(dialogues.rcptTo(address, session), session, done),
    onData: (stream, session, done) =>
      dialogues.answer(dialogues.message(stream, session), session, (error, text) => {
        done(error, text);
        if (error instanceof SmtpRefusal && error.hangUp) server.hangUp(session);
      }),
  });
  server.on("error", (error: Error) => observe({ kind: "smtp-session-failed", listener: options.name, err: error }));
  options.certificate.onChange((pair) => server.updateSecureContext(pair));
  return server;
}

/** What the library and the checks in front of it are told of a listener. */
function settingsOf(options: SmtpListenerOptions, limits: SmtpLimits) {
  return {
    ...options.certificate.current(),
    minVersion: "TLSv1.2" as const,
    secure: options.tls === "implicit",
    name: options.hostname,
    banner: options.name,
    authMethods: ["PLAIN", "LOGIN"],
    allowInsecureAuth: options.plaintextAuthOnLoopback,
    plaintextAuthOnLoopback: options.plaintextAuthOnLoopback,
    limits,
    observe: options.observe,
    authRequiredMessage: "authentication required",
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    logger: false as const,
    size: options.maxMessageOctets,
    maxClients: limits.connections,
    maxRecipients: options.maxRecipients,
    maxCommandLength: limits.commandOctets,
    maxAllowedUnauthenticatedCommands: limits.commandsBeforeLogin,
    socketTimeout: limits.nextCommandMs,
    closeTimeout: limits.drainMs,
  };
}

/** Commands for proxies, which nobody is trusted to be, and the jokes of the library. */
const NOT_SERVED = ["XCLIENT", "XFORWARD", "WIZ", "SHELL", "KILL"];

/** Stops listening, lets running dialogues end for a while, then says 421 to the rest. */
async function closeServer(server: SMTPServer, drainMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A client that is between two messages need not be waited for.
  for (const connection of server.connections) {
    if (!connection.session.envelope?.mailFrom) {
      connection.send(421, `4.3.2 ${connection.name} closing`);
    }
  }
  await Promise.race([closed, sleep(drainMs + 1_000, undefined, { ref: false })]);
}
