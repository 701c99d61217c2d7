import { connect } from "node:tls";

/** Who submits, and what. */
export interface SubmittedMessage {
  readonly from: string;
  readonly recipients: readonly string[];
  /** What the From field says; `from` unless given. */
  readonly author?: string;
  /** After the From field. */
  readonly text?: string;
}

/**
 * Submits a message over implicit TLS. @param address host:port
 * @returns the reply to its end, or to the command that was refused before
 */
export async function submitMessage(
  address: string,
  login: { readonly user: string; readonly key: string },
  { from, recipients, author = from, text = "Subject: x\r\n\r\nx\r\n" }: SubmittedMessage,
): Promise<string> {
  const [host, port] = address.split(":");
  const socket = connect({ host: host!, port: Number(port), rejectUnauthorized: false });
  let read = "";
  const replies = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const reply = async () => {
    while (!/^\d{3} .*\r\n/m.test(read)) {
      const { value, done } = await replies.next();
      if (done) throw new Error(`the connection ended after ${read}`);
      read += value.toString("latin1");
    }
    const whole = read;
    read = "";
    return whole;
  };
  const ask = (line: string) => {
    socket.write(`${line}\r\n`);
    return reply();
  };
  try {
    await reply();
    await ask("EHLO client.example.org");
    await ask(`AUTH PLAIN ${Buffer.from(`\0${login.user}\0${login.key}`).toString("base64")}`);
    for (const line of [`MAIL FROM:<${from}>`, ...recipients.map((one) => `RCPT TO:<${one}>`), "DATA"]) {
      const answer = await ask(line);
      if (!/^[23]/.test(answer)) return answer;
    }
    return await ask(`From: ${author}\r\n${text}.`);
  } finally {
    socket.destroy();
  }
}
