import type { Socket } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import type { ConnectionCounts } from "../connection-counts.ts";
import { isLoopback } from "../http/limits.ts";
import type { Observe } from "../observability/observation.ts";
import { requireSyntax, type SmtpConnection } from "./command-syntax.ts";
import type { SmtpLimits } from "./limits.ts";
import { type Awaited, SmtpPatience } from "./patience.ts";

export interface StrictSmtpServerOptions extends SMTPServerOptions {
  readonly maxRecipients: number;
  readonly plaintextAuthOnLoopback: boolean;
  readonly limits: SmtpLimits;
  /** Counts handshakes and sessions; it is for `onConnect` to refuse what is in excess, and for `onClose` to take it out. */
  readonly sources: ConnectionCounts;
  readonly observe: Observe;
}

/**
 * smtp-server says what it wants to say in `send`; here it is made to say it right: a reply that brings its own
 * enhanced status gets no second one, AUTH is offered only where it may be used, and what it says itself when it
 * refuses to go on has the code and the status that the standards have for it. And whoever takes too long, or talks
 * for nothing, is not listened to for ever: the library's own clock begins anew with each octet.
 */
export class StrictSmtpServer extends SMTPServer {
  readonly #options: StrictSmtpServerOptions;
  readonly #patience = new WeakMap<SmtpConnection, SmtpPatience>();
  /** When a handshake of a listener with implicit TLS was first seen. */
  readonly #handshakeSinceMs = new WeakMap<Socket, number>();

  constructor(options: StrictSmtpServerOptions) {
    super(options);
    this.#options = options;
    this.server.once("listening", () => {
      const looks = setInterval(() => this.#lookAtAll(performance.now()), options.limits.checkEveryMs);
      this.server.once("close", () => clearInterval(looks));
    });
  }

  /**
   * A handshake of implicit TLS counts like the session that it leads to. Nothing can be said before it: one beyond the
   * cap may come as far as its 421, the others are dropped.
   */
  override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
    if (!handshake) return super._acceptSocket(socket, handshake);
    const { banner: listener, limits, observe, sources } = this.#options;
    const client = socket.remoteAddress ?? "";
    const leave = () => sources.leave(socket);
    socket.once("close", leave);
    const isFull = this.connections.size + this._pendingSockets.size > limits.connections;
    if (sources.enter(socket, client) > 1 || isFull) {
      observe({ kind: "smtp-connections-limited", level: "warn", listener, client });
      socket.on("error", () => {});
      socket.destroy();
      return false;
    }
    const release = super._acceptSocket(socket, handshake);
    return (
      release &&
      (() => {
        leave();
        release();
      })
    );
  }

  override connect(...parameters: Parameters<SMTPServer["connect"]>): void {
    const known = new Set(this.connections);
    super.connect(...parameters);
    for (const connection of this.connections) {
      if (known.has(connection)) continue;
      this.#options.sources.enter(connection.session, connection.remoteAddress);
      requireSyntax(connection);
      this.#refine(connection);
    }
  }

  /** Ends a dialogue behind what was said last, whatever its client still sends. */
  hangUp(session: object): void {
    for (const connection of this.connections) if (connection.session === session) connection.close();
  }

  #lookAtAll(nowMs: number): void {
    for (const connection of this.connections) {
      const reply = this.#patience.get(connection)?.look(awaitedFrom(connection), dataOctetsOf(connection), nowMs);
      if (reply) this.#end(connection, reply);
    }
    for (const [socket, topSocket] of this._pendingSockets) {
      const since = this.#handshakeSinceMs.get(socket) ?? nowMs;
      this.#handshakeSinceMs.set(socket, since);
      if (nowMs - since > this.#options.limits.handshakeMs) topSocket.destroy();
    }
  }

  #end(connection: SmtpConnection, reply: SmtpReply): void {
    const { banner: listener, observe } = this.#options;
    const said = describeSmtpReply(reply);
    observe({ kind: "smtp-dialogue-ended", level: "info", listener, client: connection.remoteAddress, said });
    connection.send(reply.code, said.slice(4), false);
  }

  #refine(connection: SmtpConnection): void {
    const { limits, maxRecipients } = this.#options;
    const patience = new SmtpPatience(limits, maxRecipients, performance.now());
    this.#patience.set(connection, patience);
    let verb: string | undefined;
    const onCommand = connection._onCommand.bind(connection);
    connection._onCommand = (command, done) => {
      // The second line of AUTH, and the third, are no commands.
      verb = connection._nextHandler ? "AUTH" : command.toString("latin1").split(" ", 1)[0]!.toUpperCase();
      const reply = patience.takeCommand();
      if (reply) this.#end(connection, reply);
      else onCommand(command, done);
    };
    const send = connection.send.bind(connection);
    connection.send = (code, data, context) => {
      if (verb !== undefined) patience.countReply(verb, code);
      if (context === "DATA_OK") patience.countMessage(performance.now());
      if (connection.session.secure) gatherWrites(connection._socket);
      if (Array.isArray(data))
        return send(
          code,
          data.filter((line) => this.#mayOffer(connection, line)),
          context,
        );
      const standard = STANDARD_REPLIES.get(String(data));
      if (standard !== undefined) {
        send(standard.code, describeSmtpReply(standard).slice(4), false);
        // The library hangs up behind its 421, and behind no other code.
        if (code === 421 && standard.code !== 421) connection.close();
      } else if (typeof data === "string" && STARTS_WITH_STATUS.test(data)) send(code, data, false);
      else send(code, data, context);
    };
  }

  #mayOffer({ session, remoteAddress }: SmtpConnection, line: string): boolean {
    if (!line.startsWith("AUTH ")) return true;
    return session.secure || (this.#options.plaintextAuthOnLoopback && isLoopback(remoteAddress));
  }
}

/** To AUTH in clear (RFC 4954 §6). */
export const ENCRYPTION_REQUIRED: SmtpReply = {
  code: 538,
  enhancedStatus: "5.7.11",
  lines: ["encryption required for the requested authentication mechanism"],
};

/** The library's own words, and what is said in their place. */
const STANDARD_REPLIES: ReadonlyMap<string, SmtpReply> = new Map([
  ["Error: Must issue a STARTTLS command first", ENCRYPTION_REQUIRED],
  // RFC 5321 §4.5.3.1.9
  ["Error: Command line too long", { code: 500, enhancedStatus: "5.5.2", lines: ["line too long"] }],
  ["Server shutting down", { code: 421, enhancedStatus: "4.3.2", lines: ["closing"] }],
  ["Error: too many unrecognized commands", { code: 421, enhancedStatus: "4.7.0", lines: ["too many bad commands"] }],
  [
    "Error: too many unauthenticated commands",
    { code: 421, enhancedStatus: "4.7.0", lines: ["too many commands without a login"] },
  ],
]);

function awaitedFrom({ _upgrading, _handlerPending, _dataStream, _parser }: SmtpConnection): Awaited {
  if (_upgrading) return "handshake";
  if (_handlerPending || !_parser) return "server";
  // A message that is not read as fast as it comes waits for us, and so does one that has come as a whole.
  if (_dataStream) return _parser._dataMode && !_dataStream.writableNeedDrain ? "data" : "server";
  return _parser._remainder === "" ? "command" : "rest of line";
}

function dataOctetsOf({ _parser }: SmtpConnection): number {
  return _parser ? _parser.dataBytes : 0;
}

const STARTS_WITH_STATUS = /^[245]\.\d{1,3}\.\d{1,3}(?: |$)/;

/**
 * What is written in this turn of the event loop leaves as one TLS record: the replies to commands that came as a group
 * (RFC 2920 §3.2).
 */
function gatherWrites(socket: Socket): void {
  socket.cork();
  setImmediate(() => socket.uncork());
}
