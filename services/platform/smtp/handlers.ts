import type { MessageDsn, RecipientDsn } from "../../core/mail/dsn-parameters.ts";
import type { SmtpReply } from "../../core/mail/smtp-reply.ts";
import type { MessageSize } from "./message-collector.ts";

/** What tells one client's dialogue from another's; `user` is what `authenticate` gave. */
export interface SmtpSession<User> {
  readonly id: string;
  readonly clientAddress: string;
  /** The name in HELO or EHLO. */
  readonly helloName: string;
  readonly secure: boolean;
  /** `ESMTPSA` and the like, for the Received field (RFC 3848, RFC 6531 §4.3). */
  readonly protocol: string;
  readonly user: User | undefined;
  /** Empty for <>. */
  readonly mailFrom: string;
  readonly rcptTo: readonly string[];
  /** SIZE of MAIL FROM (RFC 1870), where the client gave it. */
  readonly declaredOctets?: number | undefined;
  readonly smtpUtf8: boolean;
  /** What the client wants to be told of the message, where reports are served (RFC 3461). */
  readonly dsn?: MessageDsn | undefined;
  /** Of the recipients, by address, those for whom it says something. */
  readonly recipientDsn?: ReadonlyMap<string, RecipientDsn> | undefined;
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
  /** Whose share the dialogue's place takes, and its message of the memory; the client's address or IPv6 /64 unless given. */
  holderOf?(session: SmtpSession<User>): string | undefined;
  /** A message was not taken because of what it is; the reply is on its way. */
  messageRefused?(reply: SmtpReply, session: SmtpSession<User>): void;
  /** Takes the message durably; its reply is the last word. */
  message(octets: Buffer, session: SmtpSession<User>): Promise<SmtpReply>;
  /** The `traceparent` of what the message follows from, where that is known; asked only where traces are made. */
  traceParent?(session: SmtpSession<User>): Promise<string | undefined>;
  /** The dialogue is over, however it ended. */
  closed?(session: SmtpSession<User>): void;
}
