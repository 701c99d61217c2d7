import { isUtf8 } from "node:buffer";
import type { Socket } from "node:net";
import { parseSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

/** A server that says more than this in one reply says nothing that anybody wants to know. */
const MOST_REPLY_CHARACTERS = 64 * 1024;
/** So long a server may take over one block of a message (RFC 5321 §4.5.3.2.5). */
const BLOCK_MS = 3 * 60_000;
/** So long it may take over the reply to a command (RFC 5321 §4.5.3.2.2 to §4.5.3.2.4), but to the end of a message. */
const COMMAND_MS = 5 * 60_000;
/** The last line of a reply has no hyphen after its code (RFC 5321 §4.2.1). */
const LAST_LINE = /^\d{3}(?:[ \r]|$)/;

/**
 * What is said on an SMTP connection: commands go out, alone or in groups (RFC 2920), and their replies are
 * read one after another. It ends with the connection, and with a reply that cannot be understood or that nobody asked
 * for, since from there on no reply can be told to belong to its command.
 */
export class SmtpDialogue {
  readonly #socket: Socket;
  readonly #replyMs: number;
  readonly #hear = (chunk: Buffer) => this.#receive(chunk.toString("latin1"));
  /** Replies that are still to come, whether somebody waits for them already or not. */
  #expected = 0;
  readonly #replies: SmtpReply[] = [];
  /** Octets of a line that has not ended, as latin1. */
  #partialLine = "";
  /** Lines of a reply that has not ended. */
  readonly #lines: string[] = [];
  #heldCharacters = 0;
  #waiting: ((reply: Result<SmtpReply, string>) => void) | undefined;
  #endedBy: string | undefined;

  /** @param replyMs for a whole reply, however it trickles; for that to a command `COMMAND_MS` at most */
  constructor(socket: Socket, replyMs: number) {
    this.#socket = socket;
    this.#replyMs = replyMs;
    socket.on("data", this.#hear);
  }

  get isOver(): boolean {
    return this.#endedBy !== undefined;
  }

  /** Sends command lines in one write, without their CRLF; each gets a reply. */
  command(...lines: readonly string[]): void {
    this.#expected += lines.length;
    this.#socket.write(lines.map((line) => `${line}\r\n`).join(""));
  }

  /**
   * Sends a message, its final dot included, a block at a time: the next one is made when the server has taken the one before.
   * @returns the reply to it. One that comes before the end of the message ends the dialogue, and counts if it refuses.
   */
  async sendMessage(blocks: Iterable<Buffer>): Promise<Result<SmtpReply, string>> {
    this.#expected += 1;
    const reply = this.#nextReply();
    for (const block of blocks) {
      if (this.#waiting === undefined) {
        this.end("a reply before the end of the message");
        const early = await reply;
        return early.ok && early.value.code < 400 ? refuse(this.#endedBy!) : early;
      }
      // What a system takes at once is much: others have their turn between two blocks.
      const written = new Promise<void>((resolve) => this.#socket.write(block, () => setImmediate(resolve)));
      await this.#within(Promise.race([reply, written]), BLOCK_MS, "the server stopped taking the message");
    }
    return this.#within(reply, this.#replyMs);
  }

  /** What the server says by itself, once and first. */
  readGreeting(ms: number): Promise<Result<SmtpReply, string>> {
    this.#expected += 1;
    return this.#within(this.#nextReply(), ms);
  }

  /** The reply to the first command whose reply was not read yet; refused with words when none can come any more. */
  readReply(): Promise<Result<SmtpReply, string>> {
    return this.#within(this.#nextReply(), Math.min(this.#replyMs, COMMAND_MS));
  }

  /** Ends, and leaves the socket to somebody else. @returns whether all that the server said has been read as replies */
  leave(): boolean {
    this.#socket.off("data", this.#hear);
    const isWhole = this.#endedBy === undefined && this.#heldCharacters === 0 && this.#partialLine === "";
    this.#endedBy ??= "the socket was left to somebody else";
    return isWhole;
  }

  #nextReply(): Promise<Result<SmtpReply, string>> {
    const reply = this.#replies.shift();
    if (reply !== undefined) return Promise.resolve(ok(reply));
    if (this.#endedBy !== undefined) return Promise.resolve(refuse(this.#endedBy));
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** Ends the dialogue, with these words, when what is waited for takes longer. */
  async #within<T>(awaited: Promise<T>, ms: number, words = "no whole reply in time"): Promise<T> {
    const timer = setTimeout(() => this.end(words), ms);
    const outcome = await awaited;
    clearTimeout(timer);
    return outcome;
  }

  /** Nothing more is to be expected, or kept; whoever waits for a reply gets these words. The first ones count. */
  end(words: string): void {
    this.#endedBy ??= words;
    this.#socket.off("data", this.#hear);
    this.#socket.resume();
    this.#waiting?.(refuse(this.#endedBy));
    this.#waiting = undefined;
  }

  #receive(text: string): void {
    const lines = (this.#partialLine + text).split("\n");
    this.#partialLine = lines.pop()!;
    for (const line of lines) {
      if (this.#endedBy !== undefined) return;
      this.#lines.push(line);
      this.#heldCharacters += line.length + 1;
      // A line without a code continues the text of the one before.
      const goesOn = /^\d{3}-/.test(line) || (this.#lines.length > 1 && !LAST_LINE.test(line));
      if (!goesOn) {
        this.#heldCharacters = 0;
        this.#takeReply(decode(this.#lines.splice(0).join("\n")));
      }
    }
    if (this.#heldCharacters + this.#partialLine.length > MOST_REPLY_CHARACTERS) this.end("a reply without end");
  }

  #takeReply(text: string): void {
    const reply = parseSmtpReply(text);
    if (reply === undefined) this.end(`no intelligible reply: ${text}`);
    else if (this.#expected === 0) this.end(`a reply that nobody asked for: ${text}`);
    else {
      this.#expected -= 1;
      if (this.#waiting === undefined) this.#replies.push(reply);
      else this.#waiting(ok(reply));
      this.#waiting = undefined;
    }
  }
}

/** Replies are ASCII, or with SMTPUTF8 UTF-8 (RFC 6531 §3.7.4); what is neither is read octet by octet. */
function decode(latin1: string): string {
  const octets = Buffer.from(latin1, "latin1");
  return isUtf8(octets) ? octets.toString("utf8") : latin1;
}
