import { isAscii } from "node:buffer";
import type { SmtpStage } from "../../core/mail/bounce/class.ts";
import { toAsciiOriginalRecipient } from "../../core/mail/dsn-parameters.ts";
import type { Envelope } from "../../core/mail/envelope.ts";
import { describeSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { SmtpDialogue } from "./dialogue.ts";

/** Why a session or a message came to nothing. */
export type SmtpFailure =
  /** The server said so. */
  | { readonly kind: "reply"; readonly stage: SmtpStage; readonly reply: SmtpReply }
  /** No connection, or it broke; after the final dot nobody knows whether the message was taken. */
  | { readonly kind: "broken"; readonly stage: SmtpStage; readonly text: string }
  /** The server lacks an extension or the room that this message needs (5.6.7, 5.6.3, 5.3.4). */
  | { readonly kind: "unsuited"; readonly reply: SmtpReply };

/** What the server's reply to EHLO offers, as far as sending a message asks. */
export interface SmtpExtensions {
  /** RFC 3207 */
  readonly startTls: boolean;
  /** RFC 2920 */
  readonly pipelining: boolean;
  /** RFC 6152 */
  readonly eightBitMime: boolean;
  /** RFC 6531 */
  readonly smtpUtf8: boolean;
  /** RFC 3461 */
  readonly dsn: boolean;
  /** RFC 1870: undefined where it is not offered. */
  readonly size: { readonly mostOctets: number } | undefined;
}

/** Reads the reply to EHLO. */
export function readExtensions({ lines }: SmtpReply): SmtpExtensions {
  // RFC 5321 §4.1.1.1: the first line is the server's name, whatever it is called.
  const offered = lines.slice(1);
  const offers = (keyword: string) => {
    const pattern = new RegExp(`^${keyword}\\b(?: +(\\d+))?`, "i");
    return offered.map((line) => pattern.exec(line)).find((match) => match !== null) ?? null;
  };
  const size = offers("SIZE");
  return {
    startTls: offers("STARTTLS") !== null,
    pipelining: offers("PIPELINING") !== null,
    eightBitMime: offers("8BITMIME") !== null,
    smtpUtf8: offers("SMTPUTF8") !== null,
    dsn: offers("DSN") !== null,
    // RFC 1870 §4: zero, or nothing, is no limit.
    size: size === null ? undefined : { mostOctets: Number(size[1] ?? 0) || Number.POSITIVE_INFINITY },
  };
}

/** A message for a session. */
export interface MessageToSend {
  readonly envelope: Envelope;
  /** CRLF lines. */
  readonly octets: Buffer;
  /** An earlier transaction may still be open: RSET goes first. */
  readonly resetFirst: boolean;
}

type Answer = Result<SmtpReply, SmtpFailure>;

/**
 * One mail transaction: the envelope with DATA in one write where the server takes command pipelining, then the
 * message with its final dot. Recipients that are refused are left out, as long as others are taken.
 * @returns the reply to the final dot
 * @see RFC 5321 §3.3, RFC 2920 §3.1
 */
export async function sendMessage(
  dialogue: SmtpDialogue,
  extensions: SmtpExtensions,
  message: MessageToSend,
): Promise<Answer> {
  const unsuited = findUnsuited(extensions, message);
  if (unsuited !== undefined) return refuse({ kind: "unsuited", reply: unsuited });
  const { envelope, octets, resetFirst } = message;
  const mail = mailCommand(extensions, message);
  const recipients = envelope.rcptTo.map((address) => recipientCommand(address, extensions, envelope));
  const ask = startAsking(dialogue, extensions, [...(resetFirst ? ["RSET"] : []), mail, ...recipients, "DATA"]);

  if (resetFirst) {
    const reset = await ask("RSET", "mail");
    if (!reset.ok) {
      dialogue.end("the session could not be reset");
      return refuse({ kind: "broken", stage: "mail", text: "the session could not be reset" });
    }
  }
  let refused: Answer | undefined;
  const opened = await ask(mail, "mail");
  if (!opened.ok) refused = opened;
  let taken = 0;
  for (const recipient of recipients) {
    if (refused === opened && !extensions.pipelining) break;
    const answer = await ask(recipient, "rcpt");
    if (answer.ok) taken += 1;
    else refused ??= answer;
  }
  if (opened.ok && taken > 0) refused = undefined;
  if (refused !== undefined && !extensions.pipelining) return refused;
  const invited = await ask("DATA", "data");
  if (refused !== undefined) {
    if (invited.ok) await sendNothing(dialogue);
    return refused;
  }
  if (!invited.ok) return invited;
  return answerOf(dialogue, "message", await dialogue.sendMessage(onTheWire(octets)));
}

/** @returns asks for the answer to a command: what is pipelined was sent, other commands are sent now */
function startAsking(
  dialogue: SmtpDialogue,
  { pipelining }: SmtpExtensions,
  commands: readonly string[],
): (command: string, stage: SmtpStage) => Promise<Answer> {
  if (pipelining) dialogue.command(...commands);
  return (command, stage) => {
    if (!pipelining) dialogue.command(command);
    return readAnswer(dialogue, stage);
  };
}

async function readAnswer(dialogue: SmtpDialogue, stage: SmtpStage): Promise<Answer> {
  return answerOf(dialogue, stage, await dialogue.readReply());
}

function answerOf(dialogue: SmtpDialogue, stage: SmtpStage, read: Result<SmtpReply, string>): Answer {
  if (!read.ok) return refuse({ kind: "broken", stage, text: read.error });
  const reply = read.value;
  // RFC 5321 §3.8: it closes the channel, whatever it was asked.
  if (reply.code === 421) dialogue.end("the server closed the session");
  if (reply.code >= 400) return refuse({ kind: "reply", stage, reply });
  const isExpected = stage === "data" ? reply.code === 354 : reply.code < 300;
  if (isExpected) return ok(reply);
  const text = `a reply out of step: ${describeSmtpReply(reply)}`;
  dialogue.end(text);
  return refuse({ kind: "broken", stage, text });
}

/**
 * The server refused every recipient and yet wants the message: RFC 2920 §3.1 asks for a lone dot. What it says to
 * that is of no interest; a message without recipients goes nowhere.
 */
async function sendNothing(dialogue: SmtpDialogue): Promise<void> {
  dialogue.command(".");
  await readAnswer(dialogue, "message");
}

function findUnsuited(
  { smtpUtf8, eightBitMime, size }: SmtpExtensions,
  { envelope, octets }: MessageToSend,
): SmtpReply | undefined {
  if (envelope.needsSmtputf8 && !smtpUtf8) {
    // RFC 6531 §3.5
    return { code: 550, enhancedStatus: "5.6.7", lines: ["the server does not take internationalized mail"] };
  }
  if (!eightBitMime && !isAscii(octets)) {
    // RFC 6152 §3: it must not be sent so, and what is signed cannot be converted any more.
    return { code: 550, enhancedStatus: "5.6.3", lines: ["the server does not take 8-bit messages"] };
  }
  if (size !== undefined && octets.length > size.mostOctets) {
    // RFC 1870 §6.1
    const text = `the server takes messages of ${size.mostOctets} octets, this one has ${octets.length}`;
    return { code: 552, enhancedStatus: "5.3.4", lines: [text] };
  }
  return undefined;
}

function mailCommand({ size, dsn }: SmtpExtensions, { envelope, octets }: MessageToSend): string {
  const { returns, envelopeId } = (dsn && envelope.dsn?.message) || {};
  const parameters = [
    ...(size === undefined ? [] : [`SIZE=${octets.length}`]),
    ...(isAscii(octets) ? [] : ["BODY=8BITMIME"]),
    ...(envelope.needsSmtputf8 ? ["SMTPUTF8"] : []),
    ...(returns === undefined ? [] : [`RET=${returns === "full" ? "FULL" : "HDRS"}`]),
    ...(envelopeId === undefined ? [] : [`ENVID=${envelopeId}`]),
  ];
  return [`MAIL FROM:<${envelope.mailFrom}>`, ...parameters].join(" ");
}

/** RFC 3461 §5.2.1: with the parameters of the envelope, to the letter. */
function recipientCommand(address: string, { dsn }: SmtpExtensions, envelope: Envelope): string {
  const { notify, originalRecipient } = (dsn && envelope.dsn?.recipient) || {};
  const original =
    originalRecipient && (envelope.needsSmtputf8 ? originalRecipient : toAsciiOriginalRecipient(originalRecipient));
  const parameters = [
    ...(notify === undefined ? [] : [`NOTIFY=${notify.length === 0 ? "NEVER" : notify.join(",").toUpperCase()}`]),
    ...(original === undefined ? [] : [`ORCPT=${original}`]),
  ];
  return [`RCPT TO:<${address}>`, ...parameters].join(" ");
}

/** Octets of a message that are made ready, and handed to the socket, at once. */
const BLOCK_OCTETS = 256 * 1024;

/**
 * A message as DATA carries it: a dot before each that begins a line, and the one that ends it (RFC 5321 §4.5.2).
 * @returns blocks, each made when it is asked for: however many lines begin with a dot, they take little memory
 */
export function* onTheWire(octets: Buffer): Generator<Buffer> {
  // The end of what came before tells whether a line begins with the block.
  let before = "\r\n";
  let at = 0;
  do {
    const text = before + octets.toString("latin1", at, at + BLOCK_OCTETS);
    at += BLOCK_OCTETS;
    before = text.slice(-2);
    const ending = at < octets.length ? "" : before === "\r\n" ? ".\r\n" : "\r\n.\r\n";
    yield Buffer.from(text.replace(LINE_WITH_DOT, "\r\n..").slice(2) + ending, "latin1");
  } while (at < octets.length);
}

const LINE_WITH_DOT = /\r\n\./g;
