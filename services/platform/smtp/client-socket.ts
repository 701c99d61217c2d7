import type { Socket } from "node:net";
import { formatSmtpReply, type SmtpReply } from "../../core/mail/smtp-reply.ts";

/** The client's address; of IPv4 as such, also where a listener serves both protocols. */
export function clientOf({ remoteAddress = "" }: Socket): string {
  return remoteAddress.replace(/^::ffff:/i, "");
}

/** How long the other end may take to close its side, whatever it does meanwhile. */
const LINGER_MS = 5_000;

/** Ends a connection behind what is said last; who does not close its side, or does not read, is cut off. */
export function endConnection(socket: Socket, lastWords: SmtpReply | string): void {
  socket.on("error", () => {});
  if (socket.destroyed) return;
  socket.end(typeof lastWords === "string" ? lastWords : formatSmtpReply(lastWords));
  // What still comes is thrown away; while it is not read, the end of it is not seen.
  socket.resume();
  const cut = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once("close", () => clearTimeout(cut));
}
