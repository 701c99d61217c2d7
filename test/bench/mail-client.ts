import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface SubmissionServer {
  readonly host: string;
  readonly port: number;
  /** None of a server that takes mail from this machine without. */
  readonly credentials?: { readonly user: string; readonly pass: string };
}

/**
 * What a program that submits says, and no more: it costs as little as smtp-source, which knows neither AUTH nor STARTTLS. The
 * machine is shared by client and server, and a client that costs much measures itself. A command follows the answer to the last.
 */
export class SubmissionClient {
  #socket: Socket;
  #unread = "";
  #answered: ((reply: string) => void) | undefined;
  #failed: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = this.#listenTo(socket);
  }

  /** Connected, greeted, over TLS and signed in where that is wanted. */
  static async open({ host, port, credentials }: SubmissionServer, tls: boolean): Promise<SubmissionClient> {
    const client = new SubmissionClient(connect(port, host));
    await client.#answer("220");
    await client.#command("EHLO client.test", "250");
    if (tls) await client.#startTls();
    if (credentials !== undefined) {
      const word = Buffer.from(`\0${credentials.user}\0${credentials.pass}`).toString("base64");
      await client.#command(`AUTH PLAIN ${word}`, "235");
    }
    return client;
  }

  /** @param message with CRLF, and no line that begins with a dot */
  async send(envelope: { readonly from: string; readonly to: string }, message: string): Promise<void> {
    await this.#command(`MAIL FROM:<${envelope.from}>`, "250");
    await this.#command(`RCPT TO:<${envelope.to}>`, "250");
    await this.#command("DATA", "354");
    await this.#command(`${message}\r\n.`, "250");
  }

  async quit(): Promise<void> {
    await this.#command("QUIT", "221");
    this.#socket.destroy();
  }

  async #startTls(): Promise<void> {
    await this.#command("STARTTLS", "220");
    const plain = this.#socket.removeAllListeners();
    this.#socket = this.#listenTo(connectTls({ socket: plain, rejectUnauthorized: false }));
    await this.#command("EHLO client.test", "250");
  }

  #listenTo(socket: Socket): Socket {
    return socket
      .setNoDelay()
      .setEncoding("latin1")
      .on("data", (text: string) => this.#read(text))
      .on("error", (error) => this.#failed?.(error))
      .on("close", () => this.#failed?.(new Error("the server closed the connection")));
  }

  #command(line: string, expected: string): Promise<void> {
    this.#socket.write(`${line}\r\n`, "latin1");
    return this.#answer(expected);
  }

  #answer(expected: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#failed = reject;
      this.#answered = (reply) =>
        reply.startsWith(expected) ? resolve() : reject(new Error(`${expected} expected: ${reply}`));
    });
  }

  /** Up to a last line, whose code has no hyphen after it. */
  #read(text: string): void {
    this.#unread += text;
    const lastLine = this.#unread.lastIndexOf("\n", this.#unread.length - 2) + 1;
    if (!this.#unread.endsWith("\n") || this.#unread[lastLine + 3] === "-") return;
    const reply = this.#unread;
    this.#unread = "";
    this.#answered?.(reply);
  }
}
