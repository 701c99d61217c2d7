import addressparser from "nodemailer/lib/addressparser";
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from "smtp-server";
import { headerValue, type MimePart } from "../core/mail/bounce/mime.ts";
import { fieldValue, normaliseLineEndings, splitMessage } from "../core/mail/message.ts";
import { readMimeMessage } from "../platform/read-mime.ts";
import type { ServiceContext } from "../platform/service.ts";
import { addSandboxMessages, countDeferral, type NewSandboxMessage } from "../store/mail/inbound/sandbox-messages.ts";
import { behaviourOf } from "./behaviour.ts";

const MOST_HEADER_TEXT = 1_000;
/** Of a From field, whose names come before the address: that of one author is within it, however it is written. */
const MOST_FROM_TEXT = 16_384;

/** The SMTP side of the sandbox: takes every message on the stack's own machine, and stores it before its 250. */
export function makeInbox({ config, db, observe }: ServiceContext, onStored: () => void): SMTPServer {
  const server = new SMTPServer({
    name: config.hostname,
    banner: "sandbox",
    disabledCommands: ["AUTH", "STARTTLS"],
    authOptional: true,
    disableReverseLookup: true,
    size: config.mxMaxOctets,
    rejectOversized: true,
    closeTimeout: 1_000,
    logger: false,
    onRcptTo: (address, session, done) => {
      judgeRecipient(address.address, session).then(done, (error: unknown) => done(unavailable(error)));
    },
    onData: (stream, session, done) => {
      takeMessage(stream, session).then(
        () => done(null, "2.0.0 stored"),
        (error: unknown) => done(unavailable(error)),
      );
    },
  });
  server.on("error", (error) => observe({ kind: "sandbox-session-failed", err: error }));
  return server;

  async function judgeRecipient(rcptTo: string, session: SMTPServerSession): Promise<Error | null> {
    const behaviour = behaviourOf(rcptTo);
    if (behaviour.kind === "reject") return refusal(550, "5.1.1 no such mailbox");
    if (behaviour.kind === "take") return null;
    const attempts = await countDeferral(db, returnPathOf(session), rcptTo);
    return attempts <= behaviour.attempts ? refusal(451, "4.2.0 the mailbox is busy, try again later") : null;
  }

  async function takeMessage(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of stream) if (!stream.sizeExceeded) chunks.push(chunk);
    if (stream.sizeExceeded) return; // the server answers 552 by itself
    const octets = Buffer.concat(chunks);
    const root = await readMimeMessage(octets);
    const mailFrom = returnPathOf(session);
    const messages = session.envelope.rcptTo.map(({ address }) => describe(mailFrom, address, { root, octets }));
    await addSandboxMessages(db, messages);
    if (messages.some(({ reportDue }) => reportDue)) onStored();
  }

  function unavailable(error: unknown): Error {
    const clientLeft = (error as { code?: unknown }).code === "ECONNECTION";
    observe({ kind: "sandbox-not-stored", level: clientLeft ? "info" : "error", err: error });
    return refusal(451, "4.3.0 not stored, try again later");
  }
}

function describe(
  mailFrom: string,
  rcptTo: string,
  { root, octets }: { readonly root: MimePart; readonly octets: Buffer },
): NewSandboxMessage {
  const behaviour = behaviourOf(rcptTo);
  const outcome = behaviour.kind === "take" ? behaviour.outcome : "accepted";
  return {
    mailFrom,
    rcptTo,
    sender: authorOf(octets),
    subject: withoutNul(headerValue(root, "subject").slice(0, MOST_HEADER_TEXT)),
    outcome,
    // Nothing answers a message from the null sender (RFC 5321 §4.5.5).
    reportDue: outcome !== "accepted" && mailFrom !== "",
    octets,
  };
}

/** The first author's address: encoded words are names, whatever they say (RFC 2047 §6.2), so they are not decoded. */
function authorOf(octets: Buffer): string {
  const field = splitMessage(normaliseLineEndings(octets)).fields.find(({ name }) => name === "from");
  if (field === undefined) return "";
  const text = Buffer.from(fieldValue(field), "latin1").toString("utf8").slice(0, MOST_FROM_TEXT);
  const authors = addressparser(withoutNul(text), { flatten: true });
  return authors.find(({ address }) => address?.includes("@"))?.address ?? "";
}

/** PostgreSQL has no place for NUL in text. */
function withoutNul(text: string): string {
  return text.replaceAll("\0", "");
}

function returnPathOf({ envelope }: SMTPServerSession): string {
  return envelope.mailFrom === false ? "" : envelope.mailFrom.address;
}

function refusal(responseCode: number, text: string): Error {
  return Object.assign(new Error(text), { responseCode });
}
