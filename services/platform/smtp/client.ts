import type { X509Certificate } from "node:crypto";
import net, { isIP, type Socket } from "node:net";
import { checkServerIdentity, connect as connectTls, TLSSocket } from "node:tls";
import type { SmtpStage } from "../../core/mail/bounce/class.ts";
import { type DaneRequirement, judgeChain } from "../../core/mail/dane.ts";
import type { Envelope } from "../../core/mail/envelope.ts";
import type { TlsEvidence } from "../../core/mail/reports/tls-session.ts";
import type { SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { SpanAttributes } from "../observability/tracer.ts";
import { inSpan } from "../observability/tracing.ts";
import { endConnection } from "./client-socket.ts";
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
  /** Is told of each session what came of TLS in it; of one that goes on in clear, why. */
  readonly onTls?: ((seen: SeenTls) => void) | undefined;
}

/** What came of TLS with a server: its address, and ours. */
export interface SeenTls {
  readonly evidence: TlsEvidence;
  readonly address: string;
  readonly source: string;
}

/** RFC 5321 §4.5.3.2 gives what is patient; what is bearable stands in config/delivery.json. */
export interface SmtpTimeouts {
  readonly connectMs: number;
  /** The greeting once connected, and the TLS handshake. */
  readonly greetingMs: number;
  /** For a whole reply; the one after the final dot is waited for from when all of the message is taken. */
  readonly commandMs: number;
}

/** What a session came about by, or a connection that came to none. */
export interface SmtpConnection {
  /** The server's address, and ours. */
  readonly address: string;
  readonly source: string;
  /** `TLSv1.3` and the cipher's name; empty in clear. */
  readonly tls: string;
  readonly cipher: string;
  /** Of the server's certificate: `valid`, `dane` where TLSA records vouch for it, or a code for what is wrong with it. */
  readonly certificate: string;
}

type Encryption = Pick<SmtpConnection, "tls" | "cipher" | "certificate">;

/** A session with one server, for any number of messages one after another. */
export interface SmtpClientSession {
  readonly encrypted: boolean;
  readonly connection: SmtpConnection;
  /** The server takes over what the sender is to be told (RFC 3461). */
  readonly offersDsn: boolean;
  /** False when the server ended it, or a failure left it in doubt. */
  readonly usable: boolean;
  /** @param octets CRLF lines; dots are stuffed here. @returns the reply to the final dot */
  send(envelope: Envelope, octets: Buffer): Promise<Result<SmtpReply, SmtpFailure>>;
  /** Says QUIT, and does not wait for long. */
  close(): void;
}

interface FailedAttempt {
  readonly ok: false;
  readonly error: SmtpFailure;
  readonly handshakeFailed?: boolean;
  /** How far it came; undefined where there was no connection. */
  readonly connection?: SmtpConnection;
}

type Attempt = { readonly ok: true; readonly value: SmtpClientSession } | FailedAttempt;

/** Opens a session up to the reply to EHLO, inside TLS where that is to be. */
export function openSmtpSession(peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const attributes = { "server.address": peer.name, "server.port": peer.port };
  return inSpan("smtp connection", { kind: "client", attributes, outcome: traceFailure }, () => open(peer, options));
}

async function open(peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const first = await attempt(peer, options);
  if (first.ok || peer.tls !== "opportunistic" || !first.handshakeFailed) return first;
  return attempt({ ...peer, tls: "never" }, { ...options, onTls: undefined });
}

async function attempt(peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const { connectMs, greetingMs, commandMs } = options.timeouts;
  const socket = net.connect({ host: peer.host, port: peer.port, localAddress: options.localAddress });
  const connected = await untilReady(socket, "connect", { ms: connectMs, text: "Connection timeout" });
  if (!connected.ok) return broken("connect", connected.error.message);
  socket.setKeepAlive(true);
  // Each wait has an end of its own; a server may still have each reply take its whole time.
  const setUpMs = 2 * greetingMs + 3 * commandMs;
  const timer = setTimeout(() => socket.destroy(new Error("no session in time")), setUpMs);
  const outcome = await setUpSession(socket, peer, options);
  clearTimeout(timer);
  return outcome;
}

/** From the greeting to the reply to EHLO that counts: within TLS the second one (RFC 3207 §4.2). */
async function setUpSession(socket: Socket, peer: SmtpPeer, options: SmtpClientOptions): Promise<Attempt> {
  const { greetingMs, commandMs } = options.timeouts;
  const dialogue = dialogueOn(socket, commandMs);
  // A socket that is closed has no places.
  const unencrypted = describeConnection(socket);
  const failed = (failure: FailedAttempt) => withoutSession(socket, dialogue, { ...failure, connection: unencrypted });
  const greeting = answerOf(await dialogue.readGreeting(greetingMs), "connect");
  if (!greeting.ok) return failed(greeting);
  const offered = await introduce(dialogue, options.hostname);
  if (!offered.ok) return failed(offered);
  const clear = ok(new Session(socket, dialogue, { extensions: offered.value, connection: unencrypted }));
  if (peer.tls === "never") return clear;
  const secured = await secure(socket, dialogue, { peer, offered: offered.value, greetingMs });
  options.onTls?.({ evidence: secured.evidence, address: unencrypted.address, source: unencrypted.source });
  if (!secured.ok) return secured.goesOn && !dialogue.isOver ? clear : failed(secured);
  const within = dialogueOn(secured.value, commandMs);
  const extensions = secured.doubt ?? (await introduce(within, options.hostname));
  const connection = { ...unencrypted, ...secured.encryption };
  if (!extensions.ok) return withoutSession(secured.value, within, { ...extensions, connection });
  return ok(new Session(secured.value, within, { extensions: extensions.value, connection }));
}

function withoutSession(socket: Socket, dialogue: SmtpDialogue, failure: FailedAttempt): FailedAttempt {
  takeLeave(socket, dialogue);
  return failure;
}

/** Says QUIT where the dialogue is in step (RFC 5321 §4.1.1.10), and does not wait for long. */
function takeLeave(socket: Socket, dialogue: SmtpDialogue): void {
  // A message may still be on its way that nobody waits for.
  if (dialogue.isOver) socket.destroy();
  else endConnection(socket, "QUIT\r\n");
  dialogue.end("the session was closed");
}

/** Within TLS; with `doubt`, it lacks the proof that the peer owes. */
interface Encrypted {
  readonly ok: true;
  readonly value: TLSSocket;
  readonly encryption: Encryption;
  readonly evidence: TlsEvidence;
  readonly doubt?: FailedAttempt;
}

interface Insecure extends FailedAttempt {
  readonly evidence: TlsEvidence;
  /** The session may go on in clear as it is. */
  readonly goesOn?: boolean;
}

type Secured = Encrypted | Insecure;

/** STARTTLS, with the proof that the peer owes (RFC 3207, RFC 7672). */
async function secure(
  socket: Socket,
  dialogue: SmtpDialogue,
  {
    peer,
    offered,
    greetingMs,
  }: { readonly peer: SmtpPeer; readonly offered: SmtpExtensions; readonly greetingMs: number },
): Promise<Secured> {
  const goesOn = peer.tls === "opportunistic";
  const notOffered: TlsEvidence = { kind: "not-offered" };
  // RFC 5321 §2.2: what is not offered is not asked for, whatever the domain demands.
  if (!offered.startTls) {
    return { ...broken("starttls", "STARTTLS is not offered"), evidence: notOffered, goesOn };
  }
  const failed = (text: string, code = text): Insecure => ({
    ...broken("starttls", text),
    evidence: { kind: "failed", code },
  });
  dialogue.command("STARTTLS");
  const invited = answerOf(await dialogue.readReply(), "starttls");
  if (!invited.ok) {
    const { error } = invited;
    const evidence = error.kind === "broken" ? failed(error.text).evidence : notOffered;
    return { ...invited, handshakeFailed: true, evidence, goesOn };
  }
  // RFC 3207 §6: whoever stands between may have put it there.
  if (!dialogue.leave()) return { ...failed("more than a reply to STARTTLS"), handshakeFailed: true };
  const secured = await handshake(socket, peer, greetingMs);
  if (!secured.ok) return { ...failed(secured.error.message, secured.error.code), handshakeFailed: true };
  const encryption = describeTls(secured.value, peer);
  const { certificate } = encryption;
  const doubt = doubtAbout(secured.value, peer, certificate);
  if (doubt === undefined) {
    return { ok: true, value: secured.value, encryption, evidence: { kind: "encrypted", certificate } };
  }
  const code = peer.dane ? doubt : certificate;
  return {
    ...{ ok: true, value: secured.value, encryption: { ...encryption, certificate: code } },
    ...{ evidence: { kind: "failed", code }, doubt: broken("starttls", doubt) },
  };
}

/** Why the peer's proof does not do; undefined where it does, or none is owed. */
function doubtAbout(socket: TLSSocket, { tls, dane, name, host }: SmtpPeer, certificate: string): string | undefined {
  const doubt = dane && judgeChain(dane, presentedChain(socket), new Date());
  if (doubt !== undefined) return `DANE: ${doubt}`;
  if (tls !== "required" || socket.authorized) return undefined;
  if (certificate !== "ERR_TLS_CERT_ALTNAME_INVALID") return `certificate: ${certificate}`;
  return checkServerIdentity(isIP(name) ? host : name, socket.getPeerCertificate())?.message ?? certificate;
}

function placesOf({ remoteAddress = "", localAddress = "" }: Socket): Pick<SmtpConnection, "address" | "source"> {
  return { address: remoteAddress, source: localAddress };
}

function describeConnection(socket: Socket): SmtpConnection {
  return { ...placesOf(socket), tls: "", cipher: "", certificate: "" };
}

function describeTls(socket: TLSSocket, { dane }: SmtpPeer): Encryption {
  const tls = socket.getProtocol() ?? "";
  const cipher = socket.getCipher().name;
  if (dane !== undefined && dane.records.length > 0) return { tls, cipher, certificate: "dane" };
  const doubt: unknown = socket.authorizationError;
  return {
    tls,
    cipher,
    certificate: socket.authorized ? "valid" : String((doubt as { code?: string })?.code ?? doubt),
  };
}

/** A dialogue that ends with its socket. */
function dialogueOn(socket: Socket, replyMs: number): SmtpDialogue {
  const dialogue = new SmtpDialogue(socket, replyMs);
  socket.on("error", (error) => dialogue.end(error.message));
  socket.on("close", () => dialogue.end("Connection closed unexpectedly"));
  return dialogue;
}

/** EHLO, or HELO to who does not know it (RFC 5321 §3.2). */
async function introduce(dialogue: SmtpDialogue, hostname: string): Promise<Result<SmtpExtensions, SmtpFailure>> {
  dialogue.command(`EHLO ${hostname}`);
  const greeted = answerOf(await dialogue.readReply(), "ehlo");
  if (greeted.ok) return ok(readExtensions(greeted.value));
  // What is refused for now may be known all the same: in HELO there is no TLS, and no 8-bit mail.
  if (greeted.error.kind !== "reply" || greeted.error.reply.code < 500) return greeted;
  dialogue.command(`HELO ${hostname}`);
  const plain = answerOf(await dialogue.readReply(), "ehlo");
  return plain.ok ? ok(readExtensions({ code: 250, lines: [] })) : plain;
}

async function handshake(
  socket: Socket,
  peer: SmtpPeer,
  ms: number,
): Promise<Result<TLSSocket, NodeJS.ErrnoException>> {
  // RFC 7672 §8.1: the name whose TLSA records count. An address is no server name.
  const name = peer.dane?.names[0] ?? peer.name;
  const secured = connectTls({
    socket,
    host: peer.host,
    ...(isIP(name) ? {} : { servername: name }),
    // Who is refused for the certificate is told QUIT within TLS; see doubtAbout.
    rejectUnauthorized: false,
    minVersion: "TLSv1.2",
  });
  const ready = await untilReady(secured, "secureConnect", { ms, text: "TLS handshake timeout" });
  return ready.ok ? ok(secured) : ready;
}

/** Waits for a socket's event; refused when it fails, closes or takes too long, and then it is destroyed. */
function untilReady(
  socket: Socket,
  event: "connect" | "secureConnect",
  patience: { readonly ms: number; readonly text: string },
): Promise<Result<void, NodeJS.ErrnoException>> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.destroy(new Error(patience.text)), patience.ms);
    const settle = (outcome: Result<void, NodeJS.ErrnoException>) => {
      clearTimeout(timer);
      resolve(outcome);
    };
    socket.on("error", (error) => settle(refuse(error)));
    socket.once("close", () => settle(refuse(new Error("Connection closed unexpectedly"))));
    socket.once(event, () => settle(ok(undefined)));
  });
}

/** A reply as the answer to a step of the set-up; of one that refuses, code and words count. */
function answerOf(read: Result<SmtpReply, string>, stage: SmtpStage): Result<SmtpReply, SmtpFailure> {
  if (!read.ok) return refuse({ kind: "broken", stage, text: read.error });
  return read.value.code < 300 ? read : refuse({ kind: "reply", stage, reply: read.value });
}

function broken(stage: SmtpStage, text: string): { readonly ok: false; readonly error: SmtpFailure } {
  return refuse({ kind: "broken", stage, text });
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

class Session implements SmtpClientSession {
  readonly encrypted: boolean;
  readonly connection: SmtpConnection;
  readonly #socket: Socket;
  readonly #dialogue: SmtpDialogue;
  readonly #extensions: SmtpExtensions;
  #isClosed = false;
  #needsReset = false;

  /** @param dialogue behind the reply to EHLO */
  constructor(
    socket: Socket,
    dialogue: SmtpDialogue,
    { extensions, connection }: { readonly extensions: SmtpExtensions; readonly connection: SmtpConnection },
  ) {
    this.#socket = socket;
    this.#dialogue = dialogue;
    this.#extensions = extensions;
    this.connection = connection;
    this.encrypted = socket instanceof TLSSocket;
  }

  get offersDsn(): boolean {
    return this.#extensions.dsn;
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
    if (this.#isClosed) return;
    this.#isClosed = true;
    takeLeave(this.#socket, this.#dialogue);
  }
}

/** What a reply says may name a recipient: its code has to do. */
function traceFailure(outcome: Result<unknown, SmtpFailure>): SpanAttributes {
  if (outcome.ok) return {};
  const failure = outcome.error;
  return { "error.type": failure.kind === "broken" ? `broken at ${failure.stage}` : String(failure.reply.code) };
}
