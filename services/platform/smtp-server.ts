import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  SMTPServer,
  type SMTPServerAddress,
  type SMTPServerAuthentication,
  type SMTPServerDataStream,
  type SMTPServerOptions,
  type SMTPServerSession,
} from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../core/mail/smtp-reply.ts";
import type { ServerCertificate } from "./certificate.ts";
import type { HostPort } from "./config-values.ts";
import { isLoopback } from "./http/limits.ts";
import { bindWithPatience, formatBound } from "./http/listen.ts";
import type { Observe } from "./observation.ts";
import { MessageCollector } from "./smtp-message-collector.ts";

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
  readonly smtpUtf8: boolean;
}

export interface SmtpCredentials {
  readonly username: string;
  readonly password: string;
}

/** What a service decides, a method for each verb: a reply refuses, undefined lets the usual one pass. */
export interface SmtpHandlers<User> {
  authenticate?(
    credentials: SmtpCredentials,
    session: SmtpSession<User>,
  ): Promise<{ readonly user: User } | { readonly refusal: SmtpReply }>;
  mailFrom(address: string, session: SmtpSession<User>): Promise<SmtpReply | undefined>;
  rcptTo(address: string, session: SmtpSession<User>): Promise<SmtpReply | undefined>;
  /** Takes the message durably; its reply is the last word. */
  message(octets: Buffer, session: SmtpSession<User>): Promise<SmtpReply>;
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
  readonly observe: Observe;
}

export interface SmtpListener {
  /** host:port of the first address. */
  readonly address: string;
  close(): Promise<void>;
}

const IDLE_TIMEOUT_MS = 60_000;
/** RFC 5321 §4.5.3.1.4 asks for 512; extensions add to it, and AUTH carries a key. */
const MAX_COMMAND_OCTETS = 2_048;
const MAX_CONNECTIONS = 1_000;
const MAX_CONNECTIONS_PER_ADDRESS = 50;
const MAX_UNAUTHENTICATED_COMMANDS = 20;
/** A dialogue that is under way when the service stops may finish its message. */
const DRAIN_MS = 5_000;

/** Serves SMTP on every address of a listen value; undefined when it is `off`. */
export async function listenSmtp<User>(
  addresses: readonly HostPort[],
  handlers: SmtpHandlers<User>,
  options: SmtpListenerOptions,
): Promise<SmtpListener | undefined> {
  if (addresses.length === 0) return undefined;
  const collector = new MessageCollector(options.maxMessageOctets, options.lines);
  const servers: SMTPServer[] = [];
  const close = async () => {
    await Promise.all(servers.map(closeServer));
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
  const { observe } = options;
  const perAddress = new Map<string, number>();
  const counted = new WeakSet<SMTPServerSession>();
  const sessionOf = (session: SMTPServerSession) => describeSession<User>(session);

  const server = new StrictSmtpServer(options.plaintextAuthOnLoopback, {
    ...options.certificate.current(),
    minVersion: "TLSv1.2",
    secure: options.tls === "implicit",
    name: options.hostname,
    banner: options.name,
    authMethods: ["PLAIN", "LOGIN"],
    ...(handlers.authenticate ? {} : { disabledCommands: ["AUTH"], authOptional: true }),
    allowInsecureAuth: options.plaintextAuthOnLoopback,
    authRequiredMessage: "authentication required",
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    logger: false,
    size: options.maxMessageOctets,
    maxClients: MAX_CONNECTIONS,
    maxRecipients: options.maxRecipients,
    maxCommandLength: MAX_COMMAND_OCTETS,
    maxAllowedUnauthenticatedCommands: MAX_UNAUTHENTICATED_COMMANDS,
    socketTimeout: IDLE_TIMEOUT_MS,
    closeTimeout: DRAIN_MS,

    onConnect(session, done) {
      const { remoteAddress } = session;
      const open = (perAddress.get(remoteAddress) ?? 0) + 1;
      perAddress.set(remoteAddress, open);
      counted.add(session);
      const exempt = !options.limitLoopback && isLoopback(remoteAddress);
      if (exempt || open <= MAX_CONNECTIONS_PER_ADDRESS) return done();
      observe({ kind: "smtp-connections-limited", level: "warn", listener: options.name, client: remoteAddress });
      done(asError({ code: 421, lines: [`${options.hostname} too many connections from your address`] }));
    },
    onClose(session) {
      // A client that left before the greeting was never counted.
      if (!counted.delete(session)) return;
      handlers.closed?.(sessionOf(session));
      const { remoteAddress } = session;
      const open = (perAddress.get(remoteAddress) ?? 1) - 1;
      if (open > 0) perAddress.set(remoteAddress, open);
      else perAddress.delete(remoteAddress);
    },
    onAuth(credentials, session, done) {
      answer(authenticate(credentials, session), session, (error, user) => done(error, user && { user }));
    },
    onMailFrom({ address }, session, done) {
      answer(handlers.mailFrom(address, sessionOf(session)).then(throwRefusal), session, (error) => done(error));
    },
    onRcptTo({ address }, session, done) {
      answer(handlers.rcptTo(address, sessionOf(session)).then(throwRefusal), session, (error) => done(error));
    },
    onData(stream, session, done) {
      answer(takeMessage(stream, session), session, (error, text) => done(error, text ?? undefined));
    },
  });
  server.on("error", (error: Error) => observe({ kind: "smtp-session-failed", listener: options.name, err: error }));
  options.certificate.onChange((pair) => server.updateSecureContext(pair));
  return server;

  async function authenticate(credentials: SMTPServerAuthentication, session: SMTPServerSession): Promise<User> {
    if (!session.secure && !isLoopback(session.remoteAddress)) throw asError(ENCRYPTION_REQUIRED);
    const { username, password } = credentials;
    const outcome = await handlers.authenticate!(
      { username: username ?? "", password: password ?? "" },
      sessionOf(session),
    );
    if ("refusal" in outcome) throw asError(outcome.refusal);
    return outcome.user;
  }

  /** @returns the text of the 250 reply */
  async function takeMessage(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const collected = await collector.collect(stream);
    try {
      if (!collected.ok) throw asError(collected.error);
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
        observe({ kind: "smtp-handler-failed", level: "error", listener: options.name, session: id, err: error });
        done(asError(LOCAL_ERROR));
      },
    );
  }
}

const ENCRYPTION_REQUIRED: SmtpReply = {
  code: 538,
  enhancedStatus: "5.7.11",
  lines: ["encryption required for the requested authentication mechanism"],
};
const LOCAL_ERROR: SmtpReply = { code: 451, enhancedStatus: "4.3.0", lines: ["local error, try again later"] };

/** A reply that refuses, on its way through the library's callbacks. */
class SmtpRefusal extends Error {
  readonly responseCode: number;

  constructor(reply: SmtpReply) {
    const { code, ...text } = reply;
    super(describeSmtpReply({ code, ...text }).slice(4));
    this.responseCode = code;
  }
}

function asError(reply: SmtpReply): SmtpRefusal {
  return new SmtpRefusal(reply);
}

function throwRefusal(reply: SmtpReply | undefined): void {
  if (reply) throw asError(reply);
}

type Connection = SMTPServer["connections"] extends Set<infer C> ? C : never;

const STARTS_WITH_STATUS = /^[245]\.\d{1,3}\.\d{1,3}(?: |$)/;

/**
 * smtp-server says what it wants to say in `send`; here it is made to say it right: a reply that brings its own
 * enhanced status gets no second one, AUTH is offered only where it may be used, and 538 has its own status.
 */
class StrictSmtpServer extends SMTPServer {
  readonly #plaintextAuthOnLoopback: boolean;

  constructor(plaintextAuthOnLoopback: boolean, options: SMTPServerOptions) {
    super(options);
    this.#plaintextAuthOnLoopback = plaintextAuthOnLoopback;
  }

  override connect(...parameters: Parameters<SMTPServer["connect"]>): void {
    const known = new Set(this.connections);
    super.connect(...parameters);
    for (const connection of this.connections) if (!known.has(connection)) this.#refine(connection);
  }

  #refine(connection: Connection): void {
    const send = connection.send.bind(connection);
    connection.send = (code, data, context) => {
      if (Array.isArray(data))
        return send(
          code,
          data.filter((line) => this.#mayOffer(connection, line)),
          context,
        );
      if (code === 538) return send(code, describeSmtpReply(ENCRYPTION_REQUIRED).slice(4), false);
      if (typeof data === "string" && STARTS_WITH_STATUS.test(data)) return send(code, data, false);
      return send(code, data, context);
    };
  }

  #mayOffer({ session, remoteAddress }: Connection, line: string): boolean {
    if (!line.startsWith("AUTH ")) return true;
    return session.secure || (this.#plaintextAuthOnLoopback && isLoopback(remoteAddress));
  }
}

function describeSession<User>(session: SMTPServerSession): SmtpSession<User> {
  const { mailFrom, rcptTo, smtpUtf8 } = session.envelope;
  return {
    id: session.id,
    clientAddress: session.remoteAddress,
    helloName: session.hostNameAppearsAs || "unknown",
    secure: session.secure,
    protocol: session.transmissionType,
    user: (session.user as User | undefined) || undefined,
    mailFrom: mailFrom === false ? "" : mailFrom.address,
    rcptTo: rcptTo.map(({ address }: SMTPServerAddress) => address),
    smtpUtf8: smtpUtf8 === true,
  };
}

/** Stops listening, lets running dialogues end for a while, then says 421 to the rest. */
async function closeServer(server: SMTPServer): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A client that is between two messages need not be waited for.
  for (const connection of server.connections) {
    if (!connection.session.envelope?.mailFrom) {
      connection.send(421, `${connection.name} closing`);
    }
  }
  await Promise.race([closed, sleep(DRAIN_MS + 1_000, undefined, { ref: false })]);
}
