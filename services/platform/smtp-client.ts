import { isAscii } from "node:buffer";
import { isIP } from "node:net";
import SMTPConnection, { type SMTPError } from "nodemailer/lib/smtp-connection";
import type { SmtpStage } from "../core/mail/bounce-class.ts";
import type { Envelope } from "../core/mail/envelope.ts";
import { parseSmtpReply, type SmtpReply } from "../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../core/result.ts";

/** A server to speak to, and how. */
export interface SmtpPeer {
  /** An address, or for a smart host a name. */
  readonly host: string;
  readonly port: number;
  /** The name that its certificate should carry. */
  readonly name: string;
  /**
   * `opportunistic`: encrypted when the server offers it, whatever its certificate says, and in clear when the
   * handshake fails (RFC 7435). `required`: encrypted, with a certificate that names the server. `never`: in clear.
   */
  readonly tls: "opportunistic" | "required" | "never";
}

export interface SmtpClientOptions {
  /** What EHLO says. */
  readonly hostname: string;
  readonly localAddress?: string | undefined;
  readonly timeouts: SmtpTimeouts;
}

/** RFC 5321 §4.5.3.2 gives what is patient; what is bearable stands in config/delivery.json. */
export interface SmtpTimeouts {
  readonly connectMs: number;
  readonly greetingMs: number;
  /** Silence in the session, and for the reply after the final dot. */
  readonly commandMs: number;
}

/** Why a session or a message came to nothing. */
export type SmtpFailure =
  /** The server said so. */
  | { readonly kind: "reply"; readonly stage: SmtpStage; readonly reply: SmtpReply }
  /** No connection, or it broke; after the final dot nobody knows whether the message was taken. */
  | { readonly kind: "broken"; readonly stage: SmtpStage; readonly text: string }
  /** The server lacks an extension or the room that this message needs (5.6.7, 5.6.3, 5.3.4). */
  | { readonly kind: "unsuited"; readonly reply: SmtpReply };

/** A session with one server, for any number of messages one after another. */
export interface SmtpSession {
  readonly encrypted: boolean;
  /** False when the server ended it, or a failure left it in doubt. */
  readonly usable: boolean;
  /** @param octets CRLF lines; dots are stuffed here. @returns the reply to the final dot */
  send(envelope: Envelope, octets: Buffer): Promise<Result<SmtpReply, SmtpFailure>>;
  /** Says QUIT, and does not wait for long. */
  close(): void;
}

/** Opens a session up to the reply to EHLO, inside TLS where that is to be. */
export async function openSmtpSession(
  peer: SmtpPeer,
  options: SmtpClientOptions,
): Promise<Result<SmtpSession, SmtpFailure>> {
  const first = await attempt(peer, options);
  if (first.ok || peer.tls !== "opportunistic" || !first.handshakeFailed) return first;
  return attempt({ ...peer, tls: "never" }, options);
}

type Attempt =
  | { readonly ok: true; readonly value: SmtpSession }
  | { readonly ok: false; readonly error: SmtpFailure; readonly handshakeFailed: boolean };

function attempt(peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const connection = new SMTPConnection({
    host: peer.host,
    port: peer.port,
    // An address is no server name.
    servername: isIP(peer.name) ? undefined : peer.name,
    name: options.hostname,
    localAddress: options.localAddress,
    ignoreTLS: peer.tls === "never",
    requireTLS: peer.tls === "required",
    opportunisticTLS: peer.tls === "opportunistic",
    tls: { rejectUnauthorized: peer.tls === "required", minVersion: "TLSv1.2" },
    connectionTimeout: options.timeouts.connectMs,
    greetingTimeout: options.timeouts.greetingMs,
    socketTimeout: options.timeouts.commandMs,
    allowInternalNetworkInterfaces: true,
  });
  return new Promise((resolve) => {
    const fail = (error: SMTPError) => {
      const handshakeFailed = error.code === "ETLS" || connection.upgrading === true;
      const stage = handshakeFailed ? "starttls" : stageOfSetUp(error);
      resolve({ ok: false, error: describeFailure(error, stage), handshakeFailed });
    };
    connection.once("error", fail);
    connection.connect((error) => {
      if (error) return fail(error);
      connection.off("error", fail);
      resolve(ok(new Session(connection)));
    });
  });
}

class Session implements SmtpSession {
  readonly encrypted: boolean;
  readonly #connection: SMTPConnection;
  readonly #offersSmtputf8: boolean;
  readonly #offers8BitMime: boolean;
  #usable = true;
  #needsReset = false;

  constructor(connection: SMTPConnection) {
    this.#connection = connection;
    this.encrypted = connection.secure;
    // The last reply before the first message is the one to EHLO (RFC 6531 §3.1).
    const greeting = String(connection.lastServerResponse);
    this.#offersSmtputf8 = /[ -]SMTPUTF8\b/im.test(greeting);
    this.#offers8BitMime = /[ -]8BITMIME\b/im.test(greeting);
    // A session that breaks while nothing is sent shows in `usable`; without a listener it would end the process.
    connection.on("error", () => this.#spoil());
    connection.on("end", () => this.#spoil());
  }

  get usable(): boolean {
    return this.#usable;
  }

  async send(envelope: Envelope, octets: Buffer): Promise<Result<SmtpReply, SmtpFailure>> {
    if (envelope.needsSmtputf8 && !this.#offersSmtputf8) {
      // RFC 6531 §3.5
      return unsuited("5.6.7", "the server does not take internationalized addresses");
    }
    if (!isAscii(octets) && !this.#offers8BitMime) {
      // RFC 6152 §3: it must not be sent so, and what is signed cannot be converted any more.
      return unsuited("5.6.3", "the server does not take 8-bit messages");
    }
    if (this.#needsReset && !(await this.#reset())) {
      return refuse({ kind: "broken", stage: "mail", text: "the session could not be reset" });
    }
    return this.#transact(envelope, octets);
  }

  close(): void {
    if (this.#usable) {
      this.#spoil();
      this.#connection.quit();
    } else this.#connection.close();
  }

  #transact(envelope: Envelope, octets: Buffer): Promise<Result<SmtpReply, SmtpFailure>> {
    return new Promise((resolve) => {
      const parameters = {
        from: envelope.mailFrom || (false as const),
        to: [...envelope.rcptTo],
        size: octets.length,
        use8BitMime: !isAscii(octets),
      };
      this.#connection.send(parameters, octets, (error, info) => {
        if (error) {
          const failure = describeFailure(error, stageOfSend(error));
          this.#needsReset = true;
          if (failure.kind === "broken" || (failure.kind === "reply" && failure.reply.code === 421)) this.#spoil();
          resolve(refuse(failure));
          return;
        }
        const reply = parseSmtpReply(info?.response ?? "");
        resolve(reply ? ok(reply) : refuse({ kind: "broken", stage: "message", text: "no intelligible reply" }));
      });
    });
  }

  #reset(): Promise<boolean> {
    return new Promise((resolve) => {
      const lost = () => resolve(false);
      this.#connection.once("end", lost);
      this.#connection.reset((error) => {
        this.#connection.off("end", lost);
        this.#needsReset = false;
        if (error) this.#spoil();
        resolve(!error);
      });
    });
  }

  #spoil(): void {
    this.#usable = false;
  }
}

function unsuited(enhancedStatus: "5.6.3" | "5.6.7", text: string): Result<never, SmtpFailure> {
  return refuse({ kind: "unsuited", reply: { code: 550, enhancedStatus, lines: [text] } });
}

function describeFailure(error: SMTPError, stage: SmtpStage): SmtpFailure {
  const text = typeof error.response === "string" ? error.response : "";
  const reply = parseSmtpReply(text);
  if (reply && reply.code >= 400) return { kind: "reply", stage, reply };
  if (error.code === "EMESSAGE" && error.command === "MAIL FROM") {
    // RFC 1870 §6.1: the server's SIZE is smaller than the message.
    return { kind: "unsuited", reply: { code: 552, enhancedStatus: "5.3.4", lines: [error.message] } };
  }
  return { kind: "broken", stage, text: error.message };
}

function stageOfSetUp(error: SMTPError): SmtpStage {
  return error.command === "EHLO" || error.command === "HELO" ? "ehlo" : "connect";
}

function stageOfSend(error: SMTPError): SmtpStage {
  if (error.command === "MAIL FROM") return "mail";
  if (error.command === "RCPT TO") return "rcpt";
  return error.code === "EENVELOPE" ? "data" : "message";
}
