import type { X509Certificate } from "node:crypto";
import { isIP, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import SMTPConnection, { type SMTPError } from "nodemailer/lib/smtp-connection";
import type { SmtpStage } from "../../core/mail/bounce/class.ts";
import { type DaneRequirement, judgeChain } from "../../core/mail/dane.ts";
import type { Envelope } from "../../core/mail/envelope.ts";
import { parseSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result } from "../../core/result.ts";
import type { SpanAttributes } from "../observability/tracer.ts";
import { inSpan } from "../observability/tracing.ts";
import { SmtpDialogue } from "./dialogue.ts";
import { readExtensions, type SmtpExtensions, type SmtpFailure, sendMessage } from "./transaction.ts";

export type { SmtpFailure };

/** A server to speak to, and how. */
export interface SmtpPeer {
  /** An address, or for a smart host a name. */
  readonly host: string;
  readonly port: number;
  /** The name that its certificate should carry. */
  readonly name: string;
  /**
   * `opportunistic`: encrypted when the server offers it, whatever its certificate says, and in clear when the
   * handshake fails (RFC 7435). `required`: encrypted, with a certificate that names the server. `dane`: encrypted, with
   * the proof that `dane` demands (RFC 7672). `never`: in clear.
   */
  readonly tls: "opportunistic" | "required" | "dane" | "never";
  readonly dane?: DaneRequirement;
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
  /** The greeting once connected, and the TLS handshake. */
  readonly greetingMs: number;
  /** Silence in the session, and for a whole reply, the one after the final dot too. */
  readonly commandMs: number;
}

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
export function openSmtpSession(peer: SmtpPeer, options: SmtpClientOptions): Promise<Result<SmtpSession, SmtpFailure>> {
  const attributes = { "server.address": peer.name, "server.port": peer.port };
  return inSpan("smtp connection", { kind: "client", attributes, outcome: traceFailure }, () => open(peer, options));
}

async function open(peer: SmtpPeer, options: SmtpClientOptions): Promise<Result<SmtpSession, SmtpFailure>> {
  const first = await attempt(peer, options);
  if (first.ok || peer.tls !== "opportunistic" || !first.handshakeFailed) return first;
  return attempt({ ...peer, tls: "never" }, options);
}

type Attempt =
  | { readonly ok: true; readonly value: SmtpSession }
  | { readonly ok: false; readonly error: SmtpFailure; readonly handshakeFailed: boolean };

function attempt(peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const { connectMs, greetingMs, commandMs } = options.timeouts;
  // RFC 7672 §8.1: the name whose TLSA records count. An address is no server name.
  const tlsName = peer.dane?.names[0] ?? peer.name;
  // Greeting, EHLO, STARTTLS, TLS, EHLO.
  const setUpMs = connectMs + 2 * greetingMs + 3 * commandMs;
  const connection = new SMTPConnection({
    host: peer.host,
    port: peer.port,
    servername: isIP(tlsName) ? undefined : tlsName,
    name: options.hostname,
    localAddress: options.localAddress,
    ignoreTLS: peer.tls === "never",
    requireTLS: peer.tls === "required" || peer.tls === "dane",
    opportunisticTLS: peer.tls === "opportunistic",
    tls: { rejectUnauthorized: peer.tls === "required", minVersion: "TLSv1.2" },
    // It goes on while greeting and TLS handshake are waited for, and would cut them short.
    connectionTimeout: setUpMs,
    greetingTimeout: greetingMs,
    socketTimeout: commandMs,
    allowInternalNetworkInterfaces: true,
  });
  return new Promise((settle) => {
    const giveUp = (stage: SmtpStage, text: string) => {
      connection.close();
      resolve({ ok: false, error: { kind: "broken", stage, text }, handshakeFailed: false });
    };
    const timers = [
      setTimeout(() => connection.stage === "init" && giveUp("connect", "Connection timeout"), connectMs),
      // Its own time-out starts anew with each octet.
      setTimeout(() => giveUp("ehlo", "no session in time"), setUpMs),
    ];
    const resolve = (outcome: Attempt) => {
      for (const timer of timers) clearTimeout(timer);
      settle(outcome);
    };
    const fail = (error: SMTPError) => {
      const handshakeFailed = error.code === "ETLS" || connection.upgrading === true;
      const stage = handshakeFailed ? "starttls" : stageOfSetUp(error);
      resolve({ ok: false, error: describeFailure(error, stage), handshakeFailed });
    };
    connection.once("error", fail);
    connection.connect((error) => {
      if (error) return fail(error);
      connection.off("error", fail);
      const session = new Session(connection, commandMs);
      const doubt = peer.dane && judgeServer(connection, peer.dane);
      if (doubt === undefined) return resolve(ok(session));
      session.close();
      const failure = { kind: "broken", stage: "starttls", text: `DANE: ${doubt}` } as const;
      resolve({ ok: false, error: failure, handshakeFailed: false });
    });
  });
}

function judgeServer({ _socket: socket }: SMTPConnection, requirement: DaneRequirement): string | undefined {
  if (!(socket instanceof TLSSocket)) return "the session is not encrypted";
  return judgeChain(requirement, presentedChain(socket), new Date());
}

function presentedChain(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let certificate = socket.getPeerX509Certificate();
  // A root is its own issuer.
  while (certificate && !chain.some(({ fingerprint256 }) => fingerprint256 === certificate?.fingerprint256)) {
    chain.push(certificate);
    certificate = certificate.issuerCertificate;
  }
  return chain;
}

class Session implements SmtpSession {
  readonly encrypted: boolean;
  readonly #connection: SMTPConnection;
  readonly #dialogue: SmtpDialogue;
  readonly #extensions: SmtpExtensions;
  #isClosed = false;
  #needsReset = false;

  /** @param connection up to the reply to EHLO; from there on the dialogue hears what the server says */
  constructor(connection: SMTPConnection, replyMs: number) {
    this.#connection = connection;
    this.encrypted = connection.secure;
    this.#extensions = readExtensions(String(connection.lastServerResponse));
    const socket = connection._socket as Socket;
    socket.removeAllListeners("data");
    this.#dialogue = new SmtpDialogue(socket, replyMs);
    connection.on("error", (error) => this.#dialogue.end(error.message));
    connection.on("end", () => this.#dialogue.end("Connection closed unexpectedly"));
  }

  get usable(): boolean {
    return !this.#isClosed && !this.#dialogue.isOver;
  }

  async send(envelope: Envelope, octets: Buffer): Promise<Result<SmtpReply, SmtpFailure>> {
    const message = { envelope, octets, resetFirst: this.#needsReset };
    const sent = await inSpan("smtp transaction", { kind: "client", outcome: traceFailure }, () =>
      sendMessage(this.#dialogue, this.#extensions, message),
    );
    // What is unsuited was not begun.
    if (sent.ok || sent.error.kind !== "unsuited") this.#needsReset = !sent.ok;
    return sent;
  }

  close(): void {
    if (this.usable) this.#dialogue.command("QUIT");
    this.#isClosed = true;
    this.#connection.close();
  }
}

/** What a reply says may name a recipient: its code has to do. */
function traceFailure(outcome: Result<unknown, SmtpFailure>): SpanAttributes {
  if (outcome.ok) return {};
  const failure = outcome.error;
  return { "error.type": failure.kind === "broken" ? `broken at ${failure.stage}` : String(failure.reply.code) };
}

function describeFailure(error: SMTPError, stage: SmtpStage): SmtpFailure {
  const text = typeof error.response === "string" ? error.response : "";
  const reply = parseSmtpReply(text);
  if (reply && reply.code >= 400) return { kind: "reply", stage, reply };
  return { kind: "broken", stage, text: error.message };
}

function stageOfSetUp(error: SMTPError): SmtpStage {
  return error.command === "EHLO" || error.command === "HELO" ? "ehlo" : "connect";
}
