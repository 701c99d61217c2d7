/** What one client, and all of them together, may take of an SMTP listener. Times are in ms. */
export interface SmtpLimits {
  readonly connections: number;
  /** From one IPv4 address, or one IPv6 /64. */
  readonly connectionsPerSource: number;
  readonly commandOctets: number;
  readonly commandsBeforeLogin: number;
  /** Commands that bring no message nearer: NOOP, RSET, VRFY, HELP, EHLO, and all that fail; counted anew after each message. */
  readonly idleCommands: number;
  /** Commands that do not exist; counted anew after each message. */
  readonly unknownCommands: number;
  /** RCPT commands of a message, whatever is said to them, for each recipient that it may have. */
  readonly recipientTries: number;
  /** For a TLS handshake, from its beginning to its end. */
  readonly handshakeMs: number;
  readonly nextCommandMs: number;
  /** For a command line, from its first octet to its last. */
  readonly commandLineMs: number;
  /** The pace that a message has to keep while it is sent, and how far it may fall behind. */
  readonly dataOctetsPerSecond: number;
  readonly dataGraceMs: number;
  /** Who is not heard of for so long is at rest; in the middle of a message it may give its place only then. */
  readonly quietMs: number;
  /** For a dialogue, from its beginning or its last message; never in the middle of one. */
  readonly withoutMessageMs: number;
  /** How long a dialogue that is under way when the service stops may go on, to finish its message. */
  readonly drainMs: number;
  /** How often it is looked who has taken too long. */
  readonly checkEveryMs: number;
}

/** The limits in force, the same on every listener. */
export const SMTP_LIMITS: SmtpLimits = {
  connections: 1_000,
  connectionsPerSource: 50,
  // RFC 5321 §4.5.3.1.4 asks for 512; extensions add to it, and AUTH carries a key.
  commandOctets: 2_048,
  commandsBeforeLogin: 20,
  idleCommands: 100,
  unknownCommands: 10,
  // RFC 5321 §4.5.3.1.10: who has too many hears 452 to each of the others, and sends the message all the same.
  recipientTries: 10,
  handshakeMs: 60_000,
  // RFC 5321 §4.5.3.2.7
  nextCommandMs: 300_000,
  commandLineMs: 60_000,
  dataOctetsPerSecond: 1_000,
  dataGraceMs: 60_000,
  quietMs: 10_000,
  withoutMessageMs: 1_800_000,
  drainMs: 5_000,
  checkEveryMs: 5_000,
};
