import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { SMTPServer } from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { bindWithPatience, formatBound } from "../bind.ts";
import type { ServerCertificate } from "../certificate.ts";
import type { HostPort } from "../config/config-values.ts";
import { ConnectionCounts } from "../connection-counts.ts";
import { networkOf } from "../lookups/address-blocks.ts";
import type { Observe } from "../observability/observation.ts";
import { clientOf, endConnection } from "./client-socket.ts";
import { type GateEvents, type GateOptions, SmtpGate } from "./gate.ts";
import { firstToGiveWay, type IdleConnection } from "./giving-way.ts";
import type { SmtpHandlers } from "./handlers.ts";
import { SMTP_LIMITS, type SmtpLimits } from "./limits.ts";
import type { MessageCollector } from "./message-collector.ts";
import { ServerDialogues } from "./server-dialogues.ts";
import { TlsHandshakes } from "./tls-handshakes.ts";

export interface SmtpListenerOptions {
  readonly name: string;
  readonly hostname: string;
  readonly certificate: ServerCertificate;
  readonly tls: "starttls" | "implicit";
  /** Loopback clients may authenticate without TLS. */
  readonly plaintextAuthOnLoopback: boolean;
  /** Clients may say what they want to be told of their messages (RFC 3461); not unless given. */
  readonly servesDsn?: boolean;
  readonly maxMessageOctets: number;
  readonly maxRecipients: number;
  /** Of all listeners of the service: they have one memory. */
  readonly collector: MessageCollector;
  /** Connection caps hold for loopback clients as well. */
  readonly limitLoopback: boolean;
  /** `SMTP_LIMITS` unless given. */
  readonly limits?: SmtpLimits;
  readonly observe: Observe;
}

export interface SmtpListener {
  /** host:port of each address, with the port in force; several parted by commas. */
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
  const servers: SmtpServer<User>[] = [];
  const close = async () => {
    await Promise.all(servers.map((server) => server.close()));
  };
  try {
    for (const address of addresses) {
      const server = new SmtpServer(handlers, options);
      servers.push(server);
      await server.listen(address);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { address: servers.map(({ address }) => address).join(","), close };
}

/** A connection that is not refused. */
interface Admitted {
  readonly sinceMs: number;
  readonly network: string;
  /** Undefined during the handshake of implicit TLS. */
  gate?: SmtpGate;
}

/** Accepts connections on one address, and puts a gate between each and the library. */
class SmtpServer<User> {
  readonly #options: SmtpListenerOptions;
  readonly #limits: SmtpLimits;
  readonly #sources: ConnectionCounts;
  readonly #handshakes: TlsHandshakes;
  readonly #gateOptions: GateOptions;
  readonly #gateEvents: GateEvents;
  readonly #library: SMTPServer;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #admitted = new Map<Socket, Admitted>();
  #looks: NodeJS.Timeout | undefined;

  constructor(handlers: SmtpHandlers<User>, options: SmtpListenerOptions) {
    const { limits = SMTP_LIMITS, maxRecipients, plaintextAuthOnLoopback, observe, name: listener } = options;
    const { servesDsn = false } = options;
    const servesAuth = handlers.authenticate !== undefined;
    this.#options = options;
    this.#limits = limits;
    this.#sources = new ConnectionCounts(limits.connectionsPerSource, options.limitLoopback);
    const onFailure = (err: Error) => observe({ kind: "smtp-session-failed", listener, err });
    this.#handshakes = new TlsHandshakes({
      certificate: options.certificate,
      modernCiphersOnly: servesAuth,
      handshakeMs: limits.handshakeMs,
      onFailure,
    });
    const dialogues = new ServerDialogues(handlers, options);
    this.#library = makeLibrary(dialogues, options, servesAuth);
    this.#library.on("error", onFailure);
    this.#gateOptions = {
      ...{ limits, maxRecipients, servesAuth, servesDsn, plaintextAuthOnLoopback },
      handshakes: this.#handshakes,
    };
    this.#gateEvents = {
      secured: (id) => dialogues.secure(id),
      signedIn: (id) => dialogues.holderOf(id),
      asked: (id, dsn) => dialogues.ask(id, dsn),
      ended: (client, reply) =>
        observe({ kind: "smtp-dialogue-ended", level: "info", listener, client, said: describeSmtpReply(reply) }),
    };
    this.#server = createServer((socket) => this.#accept(socket));
  }

  get address(): string {
    return formatBound(this.#server.address() as AddressInfo);
  }

  async listen(address: HostPort): Promise<void> {
    await bindWithPatience(this.#server, address);
    // Such as running out of file descriptors while accepting: the listener stays.
    const { observe, name: listener } = this.#options;
    this.#server.on("error", (err) => observe({ kind: "smtp-session-failed", listener, err }));
    this.#looks = setInterval(() => {
      for (const { gate } of this.#admitted.values()) gate?.look(performance.now());
    }, this.#limits.checkEveryMs);
  }

  /** Stops listening, lets messages that are under way end for a while, then says 421 to the rest. */
  async close(): Promise<void> {
    clearInterval(this.#looks);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const [socket, { gate }] of this.#admitted) {
      if (gate) gate.stop();
      else socket.destroy();
    }
    await Promise.race([closed, sleep(this.#limits.drainMs, undefined, { ref: false })]);
    for (const { gate } of this.#admitted.values()) gate?.end();
    await Promise.race([closed, sleep(1_000, undefined, { ref: false })]);
    for (const socket of this.#sockets) socket.destroy();
  }

  /**
   * A handshake of implicit TLS counts like the dialogue that it leads to. Nothing can be said before it: one that is
   * refused may come as far as its 421, the others are dropped.
   */
  #accept(socket: Socket): void {
    const { tls, observe, name: listener } = this.#options;
    const client = clientOf(socket);
    socket.on("error", () => {});
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#admitted.delete(socket);
      this.#sources.leave(socket);
    });
    const beyondShare = this.#sources.enter(socket, client);
    if (beyondShare === 0 && this.#beyondCap > 0) this.#makeRoom();
    const beyondCap = this.#beyondCap;
    this.#sockets.add(socket);
    this.#admitted.set(socket, { sinceMs: performance.now(), network: networkOf(client) });
    const refusal = this.#refusalFor(beyondShare, beyondCap);
    if (refusal) observe({ kind: "smtp-connections-limited", level: "warn", listener, client });
    const proceed = (ready: Socket) => {
      // Its place is another's meanwhile.
      if (!this.#admitted.has(socket)) return;
      if (!refusal) return this.#converse(socket, ready);
      this.#admitted.delete(socket);
      endConnection(ready, refusal);
    };
    if (tls === "starttls") proceed(socket);
    else if (beyondShare > 1 || beyondCap > 1) socket.destroy();
    else this.#handshakes.secure(socket, proceed);
  }

  /** By how many one more would be beyond all that there may be. */
  get #beyondCap(): number {
    return this.#admitted.size + 1 - this.#limits.connections;
  }

  /** Ends who gives way first, if anybody does, so that nobody keeps others out by holding places. */
  #makeRoom(): void {
    const { quietMs, connections } = this.#limits;
    const nowMs = performance.now();
    let strangers = 0;
    const idle: (IdleConnection & { readonly socket: Socket })[] = [];
    for (const [socket, { gate, sinceMs, network }] of this.#admitted) {
      const signedInAs = gate?.signedInAs;
      const isSignedIn = signedInAs !== undefined;
      if (!isSignedIn) strangers += 1;
      const idleness = gate ? gate.idlenessAt(nowMs) : { isAtRest: nowMs - sinceMs >= quietMs, sinceMs };
      if (idleness) idle.push({ ...idleness, socket, isSignedIn, holder: signedInAs ?? network });
    }
    const first = firstToGiveWay(idle, { strangers, all: connections });
    if (!first) return;
    const { gate } = this.#admitted.get(first.socket)!;
    this.#admitted.delete(first.socket);
    if (gate) gate.giveWay();
    else first.socket.destroy();
  }

  #refusalFor(beyondShare: number, beyondCap: number): SmtpReply | undefined {
    const { hostname } = this.#options;
    if (beyondShare > 0) return { code: 421, lines: [`${hostname} too many connections from your address`] };
    return beyondCap > 0 ? { code: 421, lines: [`${hostname} too many connections, try again later`] } : undefined;
  }

  /** @param ready the socket itself, or TLS over it */
  #converse(socket: Socket, ready: Socket): void {
    const { localAddress, localPort, remoteAddress, remotePort } = socket;
    const gate = new SmtpGate(ready, this.#gateOptions, this.#gateEvents);
    this.#admitted.get(socket)!.gate = gate;
    const ends = { localAddress, localPort, remoteAddress, remotePort };
    this.#library.connect(gate.libraryEnd as Socket, { id: gate.id, ...ends });
  }
}

/** The library speaks in clear with the gates, which see to TLS, to lines, to limits, and to who is idle. */
function makeLibrary<User>(
  dialogues: ServerDialogues<User>,
  { hostname, name, maxMessageOctets, maxRecipients }: SmtpListenerOptions,
  servesAuth: boolean,
): SMTPServer {
  return new SMTPServer({
    name: hostname,
    banner: name,
    disabledCommands: ["STARTTLS", ...(servesAuth ? [] : ["AUTH"])],
    authMethods: ["PLAIN", "LOGIN"],
    authOptional: !servesAuth,
    authRequiredMessage: "authentication required",
    maxAllowedUnauthenticatedCommands: Number.POSITIVE_INFINITY,
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    logger: false,
    size: maxMessageOctets,
    maxRecipients,
    onConnect: (session, done) => {
      dialogues.connect(session);
      done();
    },
    onClose: (session) => dialogues.close(session),
    onAuth: (credentials, session, done) => {
      const user = dialogues.authenticate(credentials, session);
      dialogues.answer(user, session, (error, value) => done(error, value && { user: value }));
    },
    onMailFrom: (address, session, done) => dialogues.answer(dialogues.mailFrom(address, session), session, done),
    onRcptTo: (address, session, done) => dialogues.answer(dialogues.rcptTo(address, session), session, done),
    onData: (stream, session, done) => dialogues.answer(dialogues.message(stream, session), session, done),
  });
}
