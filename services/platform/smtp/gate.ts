import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { type DsnParameters, takeDsnParameters } from "../../core/mail/dsn-parameters.ts";
import { formatSmtpReply, inAscii, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { isLoopback } from "../lookups/address-blocks.ts";
import { clientOf, endConnection } from "./client-socket.ts";
import { type CommandContext, DSN_REFUSALS, judgeAuthAnswer, judgeCommand, verbOf } from "./command-syntax.ts";
import type { IdleConnection } from "./giving-way.ts";
import { completeOffers, isWholeReply, withOneStatus } from "./library-replies.ts";
import type { SmtpLimits } from "./limits.ts";
import { MessageDots } from "./message-dots.ts";
import { type Awaited, SmtpPatience } from "./patience.ts";
import type { TlsHandshakes } from "./tls-handshakes.ts";

export interface GateOptions {
  readonly limits: SmtpLimits;
  readonly maxRecipients: number;
  readonly servesAuth: boolean;
  /** RFC 3461: the parameters are taken off MAIL and RCPT here. */
  readonly servesDsn: boolean;
  /** Loopback clients may authenticate without TLS. */
  readonly plaintextAuthOnLoopback: boolean;
  readonly handshakes: TlsHandshakes;
}

/** What a gate tells of its dialogue. */
export interface GateEvents {
  /** STARTTLS has succeeded: what was known of the client does not count any more. */
  secured(id: string): void;
  /** AUTH has succeeded. @returns who is signed in: whose places count together */
  signedIn(id: string): string;
  /** MAIL or RCPT passes: what was taken off it. */
  asked(id: string, dsn: DsnParameters | undefined): void;
  /** It was ended for want of patience. */
  ended(client: string, reply: SmtpReply): void;
}

/** How it is with a dialogue that may give way to another. */
export type Idleness = Pick<IdleConnection, "isAtRest" | "sinceMs">;

/**
 * Whose turn it is, and for what. The client's: a command, the answer to a challenge of AUTH, or a message up to its final dot.
 * The library's: a reply, in place of which a refusal of ours may be said. Nobody's: the handshake of TLS.
 */
type Turn =
  | { readonly kind: "command" | "challenge" | "handshake" }
  | { readonly kind: "message"; readonly dots: MessageDots; octets: number }
  | { readonly kind: "reply"; readonly verb: string; readonly refusal?: SmtpReply | undefined };

/**
 * Stands between a client and smtp-server. One command at a time passes, the next when the library has answered, so
 * that each reply is known by its command; a message passes up to its final dot, without the dots that the library
 * would leave in it. Lines, syntax, STARTTLS and the patience with the client are judged here, and what the library says
 * is completed.
 */
export class SmtpGate {
  readonly id = randomUUID();
  /** What the library has in the place of its client's socket. */
  readonly libraryEnd: Duplex;
  readonly #client: string;
  readonly #options: GateOptions;
  readonly #events: GateEvents;
  readonly #patience: SmtpPatience;
  #socket: Socket;
  /** What has come and has not passed yet. */
  #input: Buffer = NOTHING;
  /** What the library has said of a reply that is not whole yet. */
  #said = "";
  #turn: Turn = COMMAND;
  /** Of each connection anew, so that TLS has a client introduce itself again (RFC 3207 §4.2). */
  #context!: CommandContext;
  #hasGreeted = false;
  #signedInAs: string | undefined;
  /** When something was last heard or said. */
  #activeAtMs = performance.now();
  #isLibraryFull = false;
  #isGathering = false;
  #isAdvancing = false;
  /** The client has closed its side. */
  #isAtEnd = false;
  /** `stopping`: it ends where it may. */
  #life: "open" | "stopping" | "over" = "open";

  constructor(socket: Socket, options: GateOptions, events: GateEvents) {
    this.#socket = socket;
    this.#client = clientOf(socket);
    this.#options = options;
    this.#events = events;
    this.#patience = new SmtpPatience(options.limits, options.maxRecipients, performance.now(), options.servesAuth);
    this.libraryEnd = Object.assign(
      new Duplex({
        decodeStrings: false,
        read: () => {
          this.#isLibraryFull = false;
          this.#advance();
        },
        write: (text, _encoding, done) => {
          this.#hear(String(text));
          done();
        },
        final: (done) => {
          this.#finish();
          done();
        },
        destroy: (error, done) => {
          this.#finish();
          done(error);
        },
      }),
      // What the library asks of a socket beyond a stream; whoever is idle is known here.
      { readyState: "open", setTimeout: () => {} },
    );
    this.#listen(socket);
  }

  /** Looks whether the client has taken too long. */
  look(nowMs: number): void {
    if (this.#isOver) return;
    const octets = this.#turn.kind === "message" ? this.#turn.octets : 0;
    const reply = this.#patience.look(this.#awaited, octets, nowMs);
    if (reply) this.#lose(reply);
  }

  /** Whose places count together with this one; undefined for a stranger. */
  get signedInAs(): string | undefined {
    return this.#signedInAs;
  }

  /** Undefined where it gives way to nobody: its message comes, or our reply is waited for. */
  idlenessAt(nowMs: number): Idleness | undefined {
    const [{ kind }, sinceMs] = [this.#turn, this.#activeAtMs];
    const isQuiet = nowMs - sinceMs >= this.#options.limits.quietMs;
    if (kind === "reply" || (kind === "message" && (this.#isLibraryFull || !isQuiet))) return undefined;
    return { isAtRest: isQuiet && kind !== "message", sinceMs };
  }

  /** Ends the dialogue in favour of another's (RFC 5321 §3.8). */
  giveWay(): void {
    this.#lose(NO_ROOM);
  }

  /** Ends the dialogue as soon as its message, if one is under way, has been answered. */
  stop(): void {
    if (this.#isOver) return;
    this.#life = "stopping";
    if (this.#turn.kind === "handshake") this.#finish();
    else this.#advance();
  }

  /** Ends the dialogue wherever it is. */
  end(): void {
    this.#finish(CLOSING);
  }

  get #isOver(): boolean {
    return this.#life === "over";
  }

  get #awaited(): Awaited {
    if (!this.#hasGreeted || this.#isOthersTurn) return "server";
    if (this.#turn.kind === "message") return "data";
    return this.#input.length === 0 ? "command" : "rest of line";
  }

  /** What comes next has to wait: for the library, or for a handshake. */
  get #isOthersTurn(): boolean {
    return this.#turn.kind === "handshake" || this.#turn.kind === "reply" || this.#isLibraryFull;
  }

  #listen(socket: Socket): void {
    const { servesAuth, servesDsn, plaintextAuthOnLoopback } = this.#options;
    const isSecure = socket instanceof TLSSocket;
    const mayAuthenticate = isSecure || (plaintextAuthOnLoopback && isLoopback(this.#client));
    this.#context = { servesAuth, servesDsn, mayAuthenticate, isSecure, isIntroduced: false };
    this.#signedInAs = undefined;
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      if (this.#isOver) return;
      this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
      this.#advance();
    });
    // Whoever closes its side behind its last command waits for the replies all the same.
    socket.allowHalfOpen = true;
    socket.once("end", this.#noteEnd);
    socket.on("drain", () => this.#advance());
    socket.on("error", (error) => this.libraryEnd.destroy(error));
    socket.once("close", () => this.#finish());
  }

  readonly #noteEnd = (): void => {
    this.#isAtEnd = true;
    this.#advance();
  };

  /** Lets pass what may pass now, and reads on when little is left. */
  #advance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    while (this.#step());
    this.#isAdvancing = false;
    if (this.#isOver || this.#turn.kind === "handshake") return;
    // All that has come whole is answered, and no more will come.
    if (this.#isAtEnd && !this.#isOthersTurn && !this.#socket.writableNeedDrain) this.#finish();
    else if (this.#isLibraryFull || this.#input.length > READ_AHEAD_OCTETS) this.#socket.pause();
    else if (this.#socket.isPaused()) this.#socket.resume();
  }

  /** @returns whether there may be more to do */
  #step(): boolean {
    // A client that does not read its replies is not heard.
    if (this.#isOver || this.#isOthersTurn || this.#socket.writableNeedDrain) return false;
    if (this.#turn.kind === "message") return this.#passMessage(this.#turn);
    if (this.#life === "stopping" && this.#hasGreeted) {
      this.#finish(CLOSING);
      return false;
    }
    const end = this.#input.indexOf(LF);
    const line = this.#input.toString("latin1", 0, end < 0 ? undefined : end).replace(/\r$/, "");
    if (line.length > this.#options.limits.commandOctets) this.#finish(LINE_TOO_LONG);
    else if (end >= 0) {
      this.#input = this.#input.subarray(end + 1);
      this.#takeLine(line);
      return true;
    }
    return false;
  }

  #passMessage(message: Turn & { kind: "message" }): boolean {
    if (this.#input.length === 0) return false;
    const { octets, taken, isEnd } = message.dots.read(this.#input);
    this.#input = this.#input.subarray(taken);
    message.octets += taken;
    this.#activeAtMs = performance.now();
    if (isEnd) this.#turn = { kind: "reply", verb: "DATA" };
    if (octets.length > 0) this.#pass(octets);
    return true;
  }

  #takeLine(line: string): void {
    this.#activeAtMs = performance.now();
    const isChallenged = this.#turn.kind === "challenge";
    const verb = isChallenged ? "AUTH" : verbOf(line);
    const reply = this.#patience.takeCommand();
    if (reply) {
      this.#lose(reply);
      return;
    }
    if (isChallenged) {
      // The library gives the exchange up as well.
      const refusal = judgeAuthAnswer(line);
      this.#ask(refusal ? "*" : line, verb, refusal);
      return;
    }
    // The library refuses who speaks before its greeting.
    const refusal = this.#hasGreeted ? judgeCommand(verb, line, this.#context) : undefined;
    if (refusal) this.#answer(verb, refusal.code, formatSmtpReply(refusal));
    else if (verb === "STARTTLS" && this.#hasGreeted) this.#upgrade();
    else if (this.#options.servesDsn && (verb === "MAIL" || verb === "RCPT")) this.#askWithDsn(verb, line);
    else this.#ask(line, verb);
  }

  /** The library decodes what parameters say, however it is written. */
  #askWithDsn(verb: string, line: string): void {
    const taken = takeDsnParameters(verb, line);
    if (!taken.ok) {
      const refusal = DSN_REFUSALS[taken.error];
      this.#answer(verb, refusal.code, formatSmtpReply(refusal));
      return;
    }
    this.#events.asked(this.id, taken.value.dsn);
    this.#ask(taken.value.line, verb);
  }

  /** @param refusal is said in place of the library's answer */
  #ask(line: string, verb: string, refusal?: SmtpReply): void {
    this.#turn = { kind: "reply", verb, refusal };
    this.#pass(Buffer.from(`${line}\r\n`, "latin1"));
  }

  #pass(octets: Buffer): void {
    this.#isLibraryFull = !this.libraryEnd.push(octets);
  }

  /** The library has written something: a reply, or a part of one. */
  #hear(text: string): void {
    this.#said += text;
    if (!isWholeReply(this.#said)) return;
    const reply = inAscii(withOneStatus(this.#said));
    this.#said = "";
    this.#takeReply(Number(reply.slice(0, 3)), reply);
    this.#advance();
  }

  #takeReply(code: number, text: string): void {
    const turn = this.#turn;
    if (turn.kind === "reply") {
      this.#turn = code === 334 ? CHALLENGE : COMMAND;
      if (turn.refusal) this.#answer(turn.verb, turn.refusal.code, formatSmtpReply(turn.refusal));
      else this.#takeAnswer(turn.verb, code, text);
    }
    // A message that is refused before its end goes on far beyond its limit.
    else if (turn.kind === "message") this.#finish(text);
    else {
      this.#hasGreeted = true;
      this.#say(text);
    }
  }

  #takeAnswer(verb: string, code: number, text: string): void {
    if (code === 354) this.#turn = { kind: "message", dots: new MessageDots(), octets: 0 };
    if (code === 235) this.#signedInAs = this.#events.signedIn(this.id);
    if (code === 250 && verb === "DATA") this.#patience.countMessage(performance.now());
    if (code === 250 && (verb === "EHLO" || verb === "HELO")) this.#context = { ...this.#context, isIntroduced: true };
    this.#answer(verb, code, verb === "EHLO" ? completeOffers(text, this.#context) : text);
  }

  #answer(verb: string, code: number, text: string): void {
    const reply = this.#patience.countReply(verb, code);
    if (reply) this.#lose(reply);
    else if (code === 421 || code === 221) this.#finish(text);
    else this.#say(text);
  }

  /** What is said in this turn of the event loop leaves at once: the replies to a group of commands (RFC 2920 §3.2). */
  #say(text: string): void {
    const socket = this.#socket;
    this.#activeAtMs = performance.now();
    if (!this.#isGathering) {
      this.#isGathering = true;
      socket.cork();
      setImmediate(() => {
        this.#isGathering = false;
        socket.uncork();
      });
    }
    socket.write(text);
  }

  /** What the client has sent in clear behind the command is never heard (RFC 3207 §4.2). */
  #upgrade(): void {
    const socket = this.#socket;
    this.#answer("STARTTLS", 220, "220 2.0.0 Ready to start TLS\r\n");
    if (this.#isOver) return;
    this.#turn = HANDSHAKE;
    socket.removeAllListeners("data");
    socket.off("end", this.#noteEnd);
    socket.allowHalfOpen = false;
    socket.pause();
    this.#input = NOTHING;
    while (socket.read() !== null);
    socket.write("", () => {
      if (this.#isOver) return;
      this.#options.handshakes.secure(socket, (secured) => {
        this.#turn = COMMAND;
        this.#listen(secured);
        this.#events.secured(this.id);
        this.#advance();
      });
    });
  }

  #lose(reply: SmtpReply): void {
    this.#events.ended(this.#client, reply);
    this.#finish(reply);
  }

  #finish(lastWords: SmtpReply | string = ""): void {
    if (this.#isOver) return;
    this.#life = "over";
    this.libraryEnd.destroy();
    // Within a handshake nothing can be said.
    if (this.#turn.kind === "handshake") this.#socket.destroy();
    else endConnection(this.#socket, lastWords);
  }
}

const COMMAND: Turn = { kind: "command" };
const CHALLENGE: Turn = { kind: "challenge" };
const HANDSHAKE: Turn = { kind: "handshake" };
const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
/** With so much of commands that wait for their turn, no more is read. */
const READ_AHEAD_OCTETS = 16_384;

/** RFC 5321 §4.5.3.1.9 */
const LINE_TOO_LONG: SmtpReply = { code: 500, enhancedStatus: "5.5.2", lines: ["line too long"] };
const NO_ROOM: SmtpReply = { code: 421, enhancedStatus: "4.3.2", lines: ["too many connections, try again later"] };
const CLOSING: SmtpReply = { code: 421, enhancedStatus: "4.3.2", lines: ["closing"] };
