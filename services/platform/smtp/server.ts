import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { SMTPServer, SMTPServerAuthentication, SMTPServerDataStream, SMTPServerSession } from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { MODERN_CIPHERS, type ServerCertificate } from "../certificate.ts";
import type { HostPort } from "../config/config-values.ts";
import { ConnectionCounts } from "../connection-counts.ts";
import { isLoopback } from "../http/limits.ts";
import { bindWithPatience, formatBound } from "../http/listen.ts";
import type { Observe } from "../observability/observation.ts";
import { inSpan } from "../observability/tracing.ts";
import { SMTP_LIMITS, type SmtpLimits } from "./limits.ts";
import { MessageCollector, type MessageSize } from "./message-collector.ts";
import { RecipientLists, withPlainDomain } from "./recipient-lists.ts";
import { ENCRYPTION_REQUIRED, StrictSmtpServer } from "./strict-server.ts";

/** What tells one client's dialogue from another's; `user` is what `authenticate` gave. */
export interface SmtpSession<User> {
  readonly id: string;
  readonly clientAddress: string;
  /** The name in HELO or EHLO. */
  readonly helloName: string;
  readonly secure: boolean;
  /** `ESMTPSA` and the like, for the Received field (RFC 3848). */
  readonly protocol: string;
  readonly user: User | undefined;
  /** Empty for <>. */
  readonly mailFrom: string;
  readonly rcptTo: readonly string[];
  /** SIZE of MAIL FROM (RFC 1870), where the client gave it. */
  readonly declaredOctets?: number | undefined;
  readonly smtpUtf8: boolean;
}

export interface SmtpCredentials {
  readonly username: string;
  readonly password: string;
  /** Whom the client wants to act for: itself, unless AUTH PLAIN names another (RFC 4616 §2: authzid). */
  readonly actAs: string;
}

/** What a service decides, a method for each verb: a reply refuses, undefined lets the usual one pass. */
export interface SmtpHandlers<User> {
  authenticate?(
    credentials: SmtpCredentials,
    session: SmtpSession<User>,
  ): Promise<{ readonly user: User } | { readonly refusal: SmtpReply }>;
  mailFrom(address: string, session: SmtpSession<User>): Promise<SmtpReply | undefined>;
  rcptTo(address: string, session: SmtpSession<User>): Promise<SmtpReply | undefined>;
  /** How much the message to these recipients may have; `maxMessageOctets` of the listener unless given. */
  messageSize?(session: SmtpSession<User>): MessageSize;
  /** A message was not taken because of what it is; the reply is on its way. */
  messageRefused?(reply: SmtpReply, session: SmtpSession<User>): void;
  /** Takes the message durably; its reply is the last word. */
  message(octets: Buffer, session: SmtpSession<User>): Promise<SmtpReply>;
  /** The `traceparent` of what the message follows from, where that is known; asked only where traces are made. */
  traceParent?(session: SmtpSession<User>): Promise<string | undefined>;
  /** The dialogue is over, however it ended. */
  closed?(session: SmtpSession<User>): void;
}

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
  const opened = new WeakSet<SMTPServerSession>();
  const recipients = new RecipientLists();
  const sessionOf = (session: SMTPServerSession): SmtpSession<User> => ({
    ...describeSession<User>(session),
    rcptTo: [...recipients.of(session)],
  });

  const server = new StrictSmtpServer({
    ...options.certificate.current(),
    minVersion: "TLSv1.2",
    ...(handlers.authenticate ? { ciphers: MODERN_CIPHERS } : {}),
    secure: options.tls === "implicit",
    name: options.hostname,
    banner: options.name,
    authMethods: ["PLAIN", "LOGIN"],
    disabledCommands: handlers.authenticate ? NOT_SERVED : [...NOT_SERVED, "AUTH"],
    authOptional: handlers.authenticate === undefined,
    allowInsecureAuth: options.plaintextAuthOnLoopback,
    plaintextAuthOnLoopback: options.plaintextAuthOnLoopback,
    limits,
    sources,
    observe,
    authRequiredMessage: "authentication required",
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    logger: false,
    size: options.maxMessageOctets,
    maxClients: limits.connections,
    maxRecipients: options.maxRecipients,
    maxCommandLength: limits.commandOctets,
    maxAllowedUnauthenticatedCommands: limits.commandsBeforeLogin,
    socketTimeout: limits.nextCommandMs,
    closeTimeout: limits.drainMs,

    onConnect(session, done) {
      opened.add(session);
      if (!sources.isInExcess(session)) return done();
      const client = session.remoteAddress;
      observe({ kind: "smtp-connections-limited", level: "warn", listener: options.name, client });
      done(asError({ code: 421, lines: [`${options.hostname} too many connections from your address`] }));
    },
    onClose(session) {
      sources.leave(session);
      // A client that left before the greeting has no session to close.
      if (opened.delete(session)) handlers.closed?.(sessionOf(session));
    },
    onAuth(credentials, session, done) {
      answer(authenticate(credentials, session), session, (error, user) => done(error, user && { user }));
    },
    onMailFrom({ address, args }, session, done) {
      if (!onlyKnown(args, MAIL_PARAMETERS)) return done(asError(UNKNOWN_PARAMETER));
      answer(handlers.mailFrom(address, sessionOf(session)).then(throwRefusal), session, (error) => done(error));
    },
    onRcptTo({ address, args }, session, done) {
      if (!onlyKnown(args, RCPT_PARAMETERS)) return done(asError(UNKNOWN_PARAMETER));
      const known = recipients.of(session);
      const recipient = withPlainDomain(address);
      if (known.size >= options.maxRecipients && !known.has(recipient)) return done(asError(TOO_MANY_RECIPIENTS));
      const accepted = handlers.rcptTo(recipient, sessionOf(session)).then((refusal) => {
        throwRefusal(refusal);
        known.add(recipient);
      });
      answer(accepted, session, (error) => done(error));
    },
    onData(stream, session, done) {
      const parent = async () => ({ traceparent: await handlers.traceParent?.(sessionOf(session)) });
      const attributes = { "network.protocol.name": "smtp", "palomar.smtp.protocol": session.transmissionType };
      const taken = inSpan(`${options.name} message`, { kind: "server", parent, attributes }, () =>
        takeMessage(stream, session),
      );
      answer(taken, session, (error, text) => {
        done(error, text ?? undefined);
        if (error instanceof SmtpRefusal && error.hangUp) server.hangUp(session);
      });
    },
  });
  server.on("error", (error: Error) => observe({ kind: "smtp-session-failed", listener: options.name, err: error }));
  options.certificate.onChange((pair) => server.updateSecureContext(pair));
  return server;

  async function authenticate(credentials: SMTPServerAuthentication, session: SMTPServerSession): Promise<User> {
    if (!session.secure && !isLoopback(session.remoteAddress)) throw asError(ENCRYPTION_REQUIRED);
    const { password, authzid } = credentials;
    const username = credentials.username ?? "";
    const outcome = await handlers.authenticate!(
      { username, password: password ?? "", actAs: authzid || username },
      sessionOf(session),
    );
    if ("refusal" in outcome) throw asError(outcome.refusal);
    return outcome.user;
  }

  /** @returns the text of the 250 reply */
  async function takeMessage(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const { maxMessageOctets } = options;
    const whole = { mostOctets: maxMessageOctets, keptOctets: maxMessageOctets };
    const collected = await collector.collect(stream, handlers.messageSize?.(sessionOf(session)) ?? whole);
    try {
      if (!collected.ok) {
        handlers.messageRefused?.(collected.error.reply, sessionOf(session));
        throw asError(collected.error.reply, collected.error.hangUp);
      }
      const reply = await handlers.message(collected.value.octets, sessionOf(session));
      if (reply.code !== 250) throw asError(reply);
      return reply.lines.join(" ");
    } finally {
      if (collected.ok) collected.value.release();
    }
  }

  /** Hands a decision to the server; what fails on our side is logged, and the client is asked to come again. */
  function answer<T>(
    decision: Promise<T>,
    { id }: SMTPServerSession,
    done: (error: Error | null, value?: T) => void,
  ): void {
    decision.then(
      (value) => done(null, value),
      (error: unknown) => {
        if (error instanceof SmtpRefusal) return done(error);
        const clientLeft = (error as { code?: unknown }).code === "ECONNECTION";
        observe({
          kind: "smtp-handler-failed",
          level: clientLeft ? "info" : "error",
          listener: options.name,
          session: id,
          err: error,
        });
        done(asError(LOCAL_ERROR));
      },
    );
  }
}

/** Commands for proxies, which nobody is trusted to be, and the jokes of the library. */
const NOT_SERVED = ["XCLIENT", "XFORWARD", "WIZ", "SHELL", "KILL"];

/** Parameters of the extensions that are offered (RFC 1870, 6152, 6531), and AUTH (RFC 4954 §5). */
const MAIL_PARAMETERS = new Set(["SIZE", "BODY", "SMTPUTF8", "AUTH"]);
const RCPT_PARAMETERS = new Set<string>();
/** RFC 5321 §4.1.1.11 */
const UNKNOWN_PARAMETER: SmtpReply = { code: 555, enhancedStatus: "5.5.4", lines: ["parameter not recognized"] };

function onlyKnown(given: object | false, known: ReadonlySet<string>): boolean {
  return Object.keys(given || {}).every((parameter) => known.has(parameter));
}

const TOO_MANY_RECIPIENTS: SmtpReply = { code: 452, enhancedStatus: "4.5.3", lines: ["too many recipients"] };
const LOCAL_ERROR: SmtpReply = { code: 451, enhancedStatus: "4.3.0", lines: ["local error, try again later"] };

/** A reply that refuses, on its way through the library's callbacks. */
class SmtpRefusal extends Error {
  readonly responseCode: number;
  /** The dialogue ends with it. */
  readonly hangUp: boolean;

  constructor(reply: SmtpReply, hangUp: boolean) {
    const { code, ...text } = reply;
    super(describeSmtpReply({ code, ...text }).slice(4));
    this.responseCode = code;
    this.hangUp = hangUp;
  }
}

function asError(reply: SmtpReply, hangUp = false): SmtpRefusal {
  return new SmtpRefusal(reply, hangUp);
}

function throwRefusal(reply: SmtpReply | undefined): void {
  if (reply) throw asError(reply);
}

function describeSession<User>(session: SMTPServerSession): Omit<SmtpSession<User>, "rcptTo"> {
  const { mailFrom, smtpUtf8 } = session.envelope;
  return {
    id: session.id,
    clientAddress: session.remoteAddress,
    helloName: session.hostNameAppearsAs || "unknown",
    secure: session.secure,
    protocol: session.transmissionType,
    user: (session.user as User | undefined) || undefined,
    mailFrom: mailFrom === false ? "" : mailFrom.address,
    declaredOctets: mailFrom === false ? undefined : declaredOctetsOf(mailFrom.args),
    smtpUtf8: smtpUtf8 === true,
  };
}

function declaredOctetsOf(parameters: object | false): number | undefined {
  const { SIZE: size } = (parameters || {}) as { readonly SIZE?: unknown };
  return typeof size === "string" ? Number(size) : undefined;
}

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
