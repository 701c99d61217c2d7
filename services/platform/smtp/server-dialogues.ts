import { isAscii } from "node:buffer";
import type { SMTPServerAddress, SMTPServerAuthentication, SMTPServerDataStream, SMTPServerSession } from "smtp-server";
import type { DsnParameters, MessageDsn, RecipientDsn } from "../../core/mail/dsn-parameters.ts";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { sourceOf } from "../lookups/address-blocks.ts";
import type { Observe } from "../observability/observation.ts";
import { inSpan } from "../observability/tracing.ts";
import { DSN_REFUSALS, UNKNOWN_PARAMETER } from "./command-syntax.ts";
import type { SmtpHandlers, SmtpSession } from "./handlers.ts";
import type { MessageCollector } from "./message-collector.ts";
import { RecipientLists, withPlainDomain } from "./recipient-lists.ts";

export interface DialogueOptions {
  /** The listener's name, in observations. */
  readonly name: string;
  readonly tls: "starttls" | "implicit";
  readonly maxMessageOctets: number;
  readonly maxRecipients: number;
  readonly collector: MessageCollector;
  readonly observe: Observe;
}

/** The dialogues of one listener: a method for each verb, which asks the service and throws what it refuses. */
export class ServerDialogues<User> {
  readonly #handlers: SmtpHandlers<User>;
  readonly #options: DialogueOptions;
  /** By the id of the session. */
  readonly #opened = new Map<string, SMTPServerSession>();
  readonly #secured = new WeakSet<SMTPServerSession>();
  readonly #recipients = new RecipientLists();
  /** What the MAIL or RCPT that is being answered asks for, by the id of the session. */
  readonly #asked = new Map<string, DsnParameters | undefined>();
  /** By envelope. */
  readonly #messageDsn = new WeakMap<object, MessageDsn>();

  constructor(handlers: SmtpHandlers<User>, options: DialogueOptions) {
    this.#handlers = handlers;
    this.#options = options;
  }

  connect(session: SMTPServerSession): void {
    this.#opened.set(session.id, session);
    if (this.#options.tls === "implicit") this.#secured.add(session);
  }

  /** STARTTLS has succeeded: who the client was before does not count (RFC 3207 §4.2). */
  secure(id: string): void {
    const session = this.#opened.get(id);
    if (session === undefined) return;
    session.user = undefined;
    this.#secured.add(session);
  }

  /** Whose share of the places and of the memory it has. */
  holderOf(id: string): string {
    const session = this.#opened.get(id);
    return session ? this.#holderOf(this.#describe(session)) : id;
  }

  /** What was taken off the command that comes next. */
  ask(id: string, dsn: DsnParameters | undefined): void {
    if (dsn === undefined) this.#asked.delete(id);
    else this.#asked.set(id, dsn);
  }

  close(session: SMTPServerSession): void {
    this.#asked.delete(session.id);
    // A client that left before the greeting has no session to close.
    if (this.#opened.delete(session.id)) this.#handlers.closed?.(this.#describe(session));
  }

  async authenticate(credentials: SMTPServerAuthentication, session: SMTPServerSession): Promise<User> {
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
    // The library keeps it of a MAIL that was refused.
    session.envelope.smtpUtf8 = args !== false && "SMTPUTF8" in args;
    const dsn: MessageDsn | undefined = this.#asked.get(session.id);
    if (dsn) this.#messageDsn.set(session.envelope, dsn);
    throwRefusal(await this.#handlers.mailFrom(address, this.#describe(session)));
  }

  async rcptTo({ address, args }: SMTPServerAddress, session: SMTPServerSession): Promise<void> {
    if (!onlyKnown(args, RCPT_PARAMETERS)) throw asError(UNKNOWN_PARAMETER);
    const known = this.#recipients.of(session);
    const recipient = withPlainDomain(address);
    if (known.size >= this.#options.maxRecipients && !known.has(recipient)) throw asError(TOO_MANY_RECIPIENTS);
    const dsn: RecipientDsn | undefined = this.#asked.get(session.id);
    // RFC 6533 §3: an address beyond ASCII as it is comes in a transaction with SMTPUTF8 only.
    if (session.envelope.smtpUtf8 !== true && !isAscii(Buffer.from(dsn?.originalRecipient ?? ""))) {
      throw asError(DSN_REFUSALS.malformed);
    }
    throwRefusal(await this.#handlers.rcptTo(recipient, this.#describe(session)));
    known.set(recipient, dsn);
  }

  /** @returns the text of the 250 reply */
  message(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const described = this.#describe(session);
    const parent = async () => ({ traceparent: await this.#handlers.traceParent?.(described) });
    const attributes = { "network.protocol.name": "smtp", "palomar.smtp.protocol": described.protocol };
    return inSpan(`${this.#options.name} message`, { kind: "server", parent, attributes }, () =>
      this.#takeMessage(stream, described),
    );
  }

  async #takeMessage(stream: SMTPServerDataStream, session: SmtpSession<User>): Promise<string> {
    const { maxMessageOctets, collector } = this.#options;
    const whole = { mostOctets: maxMessageOctets, keptOctets: maxMessageOctets };
    const size = this.#handlers.messageSize?.(session) ?? whole;
    const collected = await collector.collect(stream, size, this.#holderOf(session));
    try {
      if (!collected.ok) {
        this.#handlers.messageRefused?.(collected.error, session);
        throw asError(collected.error);
      }
      const reply = await this.#handlers.message(collected.value.octets, session);
      if (reply.code !== 250) throw asError(reply);
      return reply.lines.join(" ");
    } finally {
      if (collected.ok) collected.value.release();
    }
  }

  #holderOf(session: SmtpSession<User>): string {
    return this.#handlers.holderOf?.(session) ?? sourceOf(session.clientAddress);
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
    const isSecure = this.#secured.has(session);
    const recipients = this.#recipients.of(session);
    const asking = [...recipients].flatMap(([address, dsn]) => (dsn ? [[address, dsn] as const] : []));
    return {
      ...describeSession<User>(session, isSecure),
      rcptTo: [...recipients.keys()],
      dsn: this.#messageDsn.get(session.envelope),
      ...(asking.length > 0 ? { recipientDsn: new Map(asking) } : {}),
    };
  }
}

/** Parameters of the extensions that are offered (RFC 1870, 6152, 6531), and AUTH (RFC 4954 §5). */
const MAIL_PARAMETERS = new Set(["SIZE", "BODY", "SMTPUTF8", "AUTH"]);
const RCPT_PARAMETERS = new Set<string>();

function onlyKnown(given: object | false, known: ReadonlySet<string>): boolean {
  return Object.keys(given || {}).every((parameter) => known.has(parameter));
}

const TOO_MANY_RECIPIENTS: SmtpReply = { code: 452, enhancedStatus: "4.5.3", lines: ["too many recipients"] };
const LOCAL_ERROR: SmtpReply = { code: 451, enhancedStatus: "4.3.0", lines: ["local error, try again later"] };

/** A reply that refuses, on its way through the library's callbacks. */
class SmtpRefusal extends Error {
  readonly responseCode: number;

  constructor(reply: SmtpReply) {
    super(describeSmtpReply(reply).slice(4));
    this.responseCode = reply.code;
  }
}

function asError(reply: SmtpReply): SmtpRefusal {
  return new SmtpRefusal(reply);
}

function throwRefusal(reply: SmtpReply | undefined): void {
  if (reply) throw asError(reply);
}

/** TLS is not the library's affair: it is not in what it calls the protocol. */
function describeSession<User>(session: SMTPServerSession, secure: boolean): Omit<SmtpSession<User>, "rcptTo"> {
  const { mailFrom, smtpUtf8 } = session.envelope;
  const greeted = smtpUtf8 === true ? "UTF8SMTP" : session.openingCommand === "EHLO" ? "ESMTP" : "SMTP";
  const protocol = `${greeted}${secure ? "S" : ""}${session.user ? "A" : ""}`;
  return {
    id: session.id,
    clientAddress: session.remoteAddress,
    helloName: session.hostNameAppearsAs || "unknown",
    secure,
    protocol,
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
