import type { AddressInfo } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";

export interface SunkMessage {
  readonly mailFrom: string;
  readonly rcptTo: readonly string[];
  readonly octets: Buffer;
  /** The address of who sent it. */
  readonly client: string;
}

export interface SmtpSink {
  /** host:port */
  readonly address: string;
  readonly port: number;
  readonly messages: readonly SunkMessage[];
  /** Sessions that were opened. */
  readonly sessions: () => number;
  close(): Promise<void>;
}

/** A real SMTP server that takes everything, unless the options say otherwise. */
export async function startSmtpSink(
  options: SMTPServerOptions & { readonly port?: number; readonly host?: string } = {},
): Promise<SmtpSink> {
  const messages: SunkMessage[] = [];
  let sessions = 0;
  const { port = 0, host = "127.0.0.1", ...others } = options;
  const server = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    authOptional: true,
    disableReverseLookup: true,
    logger: false,
    onConnect: (_session, done) => {
      sessions += 1;
      done();
    },
    onData: async (stream, session, done) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of stream) chunks.push(chunk);
      } catch {
        return; // the client went away in the midst of it
      }
      const { mailFrom, rcptTo } = session.envelope;
      messages.push({
        mailFrom: mailFrom === false ? "" : mailFrom.address,
        rcptTo: rcptTo.map(({ address }) => address),
        octets: Buffer.concat(chunks),
        client: session.remoteAddress,
      });
      done(null, "2.0.0 taken");
    },
    ...others,
  });
  server.on("error", () => {}); // a client that hangs up is part of the tests
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  const bound = (server.server.address() as AddressInfo).port;
  return {
    address: `${host}:${bound}`,
    port: bound,
    messages,
    sessions: () => sessions,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
