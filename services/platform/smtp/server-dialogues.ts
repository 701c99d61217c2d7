import type { SMTPServerAddress, SMTPServerAuthentication, SMTPServerDataStream, SMTPServerSession } from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import type { ConnectionCounts } from "../connection-counts.ts";
import { isLoopback } from "../http/limits.ts";
import type { Observe } from "../observability/observation.ts";
import { inSpan } from "../observability/tracing.ts";
import type { SmtpHandlers, SmtpSession } from "./handlers.ts";
import type { MessageCollector } from "./message-collector.ts";
import { RecipientLists, withPlainDomain } from "./recipient-lists.ts";
import { ENCRYPTION_REQUIRED } from "./strict-server.ts";

export interface DialogueOptions {
  /** The listener's name, in observations. */
  readonly name: string;
  readonly hostname: string;
  readonly maxMessageOctets: number;
  readonly maxRecipients: number;
  readonly observe: Observe;
}

/** The dialogues of one listener: a method for each verb, which asks the service and throws what it refuses. */
export class ServerDialogues<User> {
  readonly #handlers: SmtpHandlers<User>;
  readonly #options: DialogueOptions;
  readonly #sources: ConnectionCounts;
  readonly #collector: MessageCollector;
  readonly #opened = new WeakSet<SMTPServerSession>();
  readonly #recipients = new RecipientLists();

  constructor(
    handlers: SmtpHandlers<User>,
    options: DialogueOptions,
    { sources, collector }: { readonly sources: ConnectionCounts; readonly collector: MessageCollector },
  ) {
    this.#handlers = handlers;
    this.#options = options;
    this.#sources = sources;
    this.#collector = collector;
  }

  /** @returns the refusal of a client with too many connections */
  connect(session: SMTPServerSession): SmtpRefusal | undefined {
    this.#opened.add(session);
    if (!this.#sources.isInExcess(session)) return undefined;
    const { observe, name: listener, hostname } = this.#options;
    observe({ kind: "smtp-connections-limited", level: "warn", listener, client: session.remoteAddress });
    return asError({ code: 421, lines: [`${hostname} too many connections from your address`] });
  }

  close(session: SMTPServerSession): void {
    this.#sources.leave(session);
    // A client that left before the greeting has no session to close.
    if (this.#opened.delete(session)) this.#handlers.closed?.(this.#describe(session));
  }

  async authenticate(credentials: SMTPServerAuthentication, session: SMTPServerSession): Promise<User> {
    if (!session.secure && !isLoopback(session.remoteAddress)) throw asError(ENCRYPTION_REQUIRED);
    const { password, authzid } = credentials;
    const username = credentials.username ?? "";
    const outcome = await this.#handlers.authenticate!(
      { username, password: password ?? "", actAs: authzid || username },
      this.#describe(session),
    );
    if ("refusal" in outcome) throw asError(outcome.refusal);
    return outcome.user;
  }

  async mailFrom({ address, args }: SMTPServerAddress, session: SMTPServerSession): Promise<void> {
    if (!onlyKnown(args, MAIL_PARAMETERS)) throw asError(UNKNOWN_PARAMETER);
    throwRefusal(await this.#handlers.mailFrom(address, this.#describe(session)));
  }

  async rcptTo({ address, args }: SMTPServerAddress, session: SMTPServerSession): Promise<void> {
    if (!onlyKnown(args, RCPT_PARAMETERS)) throw asError(UNKNOWN_PARAMETER);
    const known = this.#recipients.of(session);
    const recipient = withPlainDomain(address);
    if (known.size >= this.#options.maxRecipients && !known.has(recipient)) throw asError(TOO_MANY_RECIPIENTS);
    throwRefusal(await this.#handlers.rcptTo(recipient, this.#describe(session)));
    known.add(recipient);
  }

  /** @returns the text of the 250 reply */
  message(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const parent = async () => ({ traceparent: await this.#handlers.traceParent?.(this.#describe(session)) });
    const attributes = { "network.protocol.name": "smtp", "palomar.smtp.protocol": session.transmissionType };
    return inSpan(`${this.#options.name} message`, { kind: "server", parent, attributes }, () =>
      this.#takeMessage(stream, session),
    );
  }

  async #takeMessage(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const { maxMessageOctets } = this.#options;
    const whole = { mostOctets: maxMessageOctets, keptOctets: maxMessageOctets };
    const size = this.#handlers.messageSize?.(this.#describe(session)) ?? whole;
    const collected = await this.#collector.collect(stream, size);
    try {
      if (!collected.ok) {
        this.#handlers.messageRefused?.(collected.error.reply, this.#describe(session));
        throw asError(collected.error.reply, collected.error.hangUp);
      }
      const reply = await this.#handlers.message(collected.value.octets, this.#describe(session));
      if (reply.code !== 250) throw asError(reply);
      return reply.lines.join(" ");
    } finally {
      if (collected.ok) collected.value.release();
    }
  }

  /** Hands a decision to the library; what fails on our side is logged, and the client is asked to come again. */
  answer<T>(decision: Promise<T>, { id }: SMTPServerSession, done: (error: Error | null, value?: T) => void): void {
    decision.then(
      (value) => done(null, value),
      (error: unknown) => {
        if (error instanceof SmtpRefusal) return done(error);
        const clientLeft = (error as { code?: unknown }).code === "ECONNECTION";
        const { observe, name: listener } = this.#options;
        observe({
          kind: "smtp-handler-failed",
          level: clientLeft ? "info" : "error",
          listener,
          session: id,
          err: error,
        });
        done(asError(LOCAL_ERROR));
      },
    );
  }

  #describe(session: SMTPServerSession): SmtpSession<User> {
    return { ...describeSession<User>(session), rcptTo: [...this.#recipients.of(session)] };
  }
}

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
export class SmtpRefusal extends Error {
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
