import type { SmtpReply } from "../../core/mail/smtp-reply.ts";
import type { SmtpLimits } from "./limits.ts";

/** What a dialogue is waiting for; `server` when it is our turn. */
export type Awaited = "command" | "rest of line" | "data" | "server";

/**
 * How long a client is listened to. It judges by what it is told: commands and replies as they come, and from time to
 * time what is being waited for. A clock that starts between two looks starts with the second.
 */
export class SmtpPatience {
  readonly #limits: SmtpLimits;
  readonly #mostRecipientCommands: number;
  #awaited: Awaited = "server";
  #awaitedSinceMs = 0;
  #lookedAtMs = 0;
  #lastMessageAtMs: number;
  #dataOctets = 0;
  /** What is left of the time by which the message may be late. */
  #graceLeftMs = 0;
  #idleCommands = 0;
  #recipientCommands = 0;
  #unknownCommands = 0;
  #commandsBeforeLogin = 0;
  #lacksLogin: boolean;

  constructor(limits: SmtpLimits, maxRecipients: number, nowMs: number, needsLogin = false) {
    this.#limits = limits;
    this.#lacksLogin = needsLogin;
    this.#mostRecipientCommands = limits.recipientTries * maxRecipients;
    this.#lastMessageAtMs = nowMs;
  }

  /** A whole command has come. @returns the reply that ends the dialogue, when there were too many of no use */
  takeCommand(): SmtpReply | undefined {
    this.#awaited = "server";
    const isTooMany =
      this.#idleCommands >= this.#limits.idleCommands || this.#recipientCommands >= this.#mostRecipientCommands;
    return isTooMany ? TOO_MANY_COMMANDS : undefined;
  }

  /**
   * A command is answered.
   * @param verb in capitals
   * @returns the reply that ends the dialogue in place of the answer, when there were too many of its kind
   */
  countReply(verb: string, code: number): SmtpReply | undefined {
    if (verb === "RCPT") this.#recipientCommands += 1;
    else if (code >= 400 || !USEFUL_COMMANDS.has(verb)) this.#idleCommands += 1;
    else if (verb === "MAIL") this.#recipientCommands = 0;
    if (code === 500) {
      this.#unknownCommands += 1;
      return this.#unknownCommands < this.#limits.unknownCommands ? undefined : TOO_MANY_BAD;
    }
    if (verb === "AUTH") {
      if (code === 235) this.#lacksLogin = false;
    } else if (this.#lacksLogin) {
      this.#commandsBeforeLogin += 1;
      if (this.#commandsBeforeLogin >= this.#limits.commandsBeforeLogin) return TOO_MANY_WITHOUT_LOGIN;
    }
    return undefined;
  }

  /** A message was taken: all counts begin anew. */
  countMessage(nowMs: number): void {
    this.#lastMessageAtMs = nowMs;
    this.#idleCommands = 0;
    this.#recipientCommands = 0;
    this.#unknownCommands = 0;
  }

  /**
   * A look at what is being waited for.
   * @param dataOctets of the message that is being sent, so far
   * @returns the reply that ends the dialogue, when its client has taken too long
   */
  look(awaited: Awaited, dataOctets: number, nowMs: number): SmtpReply | undefined {
    if (awaited !== this.#awaited) {
      this.#awaited = awaited;
      this.#awaitedSinceMs = nowMs;
      this.#lookedAtMs = nowMs;
      this.#dataOctets = dataOctets;
      this.#graceLeftMs = this.#limits.dataGraceMs;
    }
    const passedMs = nowMs - this.#lookedAtMs;
    this.#lookedAtMs = nowMs;
    const waitedMs = nowMs - this.#awaitedSinceMs;
    switch (awaited) {
      case "server":
        return undefined;
      case "data":
        return this.#countData(dataOctets, passedMs) ? undefined : TIMEOUT;
      case "rest of line":
        return waitedMs > this.#limits.commandLineMs ? TIMEOUT : this.#judgeDialogue(nowMs);
      case "command":
        return waitedMs > this.#limits.nextCommandMs ? TIMEOUT : this.#judgeDialogue(nowMs);
    }
  }

  /**
   * What comes early makes up for what came late, but is no licence for later.
   * @returns whether it comes fast enough
   */
  #countData(dataOctets: number, passedMs: number): boolean {
    const earnedMs = ((dataOctets - this.#dataOctets) * 1_000) / this.#limits.dataOctetsPerSecond;
    this.#dataOctets = dataOctets;
    this.#graceLeftMs = Math.min(this.#graceLeftMs + earnedMs - passedMs, this.#limits.dataGraceMs);
    return this.#graceLeftMs >= 0;
  }

  #judgeDialogue(nowMs: number): SmtpReply | undefined {
    return nowMs - this.#lastMessageAtMs > this.#limits.withoutMessageMs ? NO_MESSAGE : undefined;
  }
}

/** What a message needs, when it succeeds. */
const USEFUL_COMMANDS = new Set(["STARTTLS", "AUTH", "MAIL", "DATA"]);

const TIMEOUT: SmtpReply = { code: 421, enhancedStatus: "4.4.2", lines: ["timeout"] };
const NO_MESSAGE: SmtpReply = { code: 421, enhancedStatus: "4.4.2", lines: ["no message for too long"] };
const TOO_MANY_COMMANDS: SmtpReply = {
  code: 421,
  enhancedStatus: "4.7.0",
  lines: ["too many commands without a message"],
};
const TOO_MANY_BAD: SmtpReply = { code: 421, enhancedStatus: "4.7.0", lines: ["too many bad commands"] };
const TOO_MANY_WITHOUT_LOGIN: SmtpReply = {
  code: 421,
  enhancedStatus: "4.7.0",
  lines: ["too many commands without a login"],
};
