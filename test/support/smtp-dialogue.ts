import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/**
 * Plays a dialogue with an SMTP server from a script that people can read:
 *
 *     S: 220            the server's next reply starts so (the last line of several)
 *     S* 250-SIZE       one line of the server's last reply starts so
 *     S! AUTH           no line of the server's last reply contains this
 *     C: EHLO client    the client sends this line; ${name} is filled in, \0 \r \n stand for octets
 *     C> text           the client sends this without an end of line
 *     TLS               the handshake that STARTTLS announced
 *     CLOSED            the server ends the connection
 *     # words           for the reader
 */
export async function playDialogue(
  address: string,
  script: string,
  values: Readonly<Record<string, string>> = {},
  implicitTls = false,
): Promise<void> {
  const client = await SmtpClient.open(address, implicitTls);
  try {
    for (const [index, line] of script.split("\n").entries()) {
      if (line.trim() === "" || line.startsWith("#")) continue;
      try {
        await playLine(client, fillIn(line, values));
      } catch (error) {
        throw new Error(`line ${index + 1}, ${JSON.stringify(line)}: ${(error as Error).message}`);
      }
    }
  } finally {
    client.destroy();
  }
}

/** A script of test/service/dialogues. */
export function readDialogue(name: string): string {
  return readFileSync(new URL(`../service/dialogues/${name}.txt`, import.meta.url), "utf8");
}

async function playLine(client: SmtpClient, line: string): Promise<void> {
  const [verb, text] = [line.slice(0, 2), line.slice(2).trim()];
  if (line === "TLS") return client.startTls();
  if (line === "CLOSED") return client.untilClosed();
  if (verb === "C:") return client.write(`${octetsOf(text)}\r\n`);
  if (verb === "C>") return client.write(octetsOf(text));
  if (verb === "S:") {
    const reply = await client.reply();
    if (!reply.at(-1)!.startsWith(text)) throw new Error(`the server said ${JSON.stringify(reply)}`);
  } else if (verb === "S*") {
    if (!client.lastReply.some((said) => said.startsWith(text))) throw new Error(JSON.stringify(client.lastReply));
  } else if (verb === "S!") {
    if (client.lastReply.some((said) => said.includes(text))) throw new Error(JSON.stringify(client.lastReply));
  } else throw new Error("no such line");
}

function fillIn(line: string, values: Readonly<Record<string, string>>): string {
  return line.replaceAll(/\$\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

function octetsOf(text: string): string {
  return text.replaceAll(/\\([0rn])/g, (_, letter) => ({ 0: "\0", r: "\r", n: "\n" })[letter as "0"]!);
}

const PATIENCE_MS = 60_000;

class SmtpClient {
  lastReply: readonly string[] = [];
  #socket: Socket;
  #received = "";
  #closed = false;
  #wake = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen();
  }

  static async open(address: string, implicitTls: boolean): Promise<SmtpClient> {
    const [host, port] = address.split(":") as [string, string];
    const socket = implicitTls
      ? connectTls({ host, port: Number(port), rejectUnauthorized: false })
      : connect(Number(port), host);
    await new Promise((resolve, reject) => {
      socket.once(implicitTls ? "secureConnect" : "connect", resolve);
      socket.once("error", reject);
    });
    return new SmtpClient(socket);
  }

  write(text: string): void {
    this.#socket.write(text, "latin1");
  }

  async reply(): Promise<readonly string[]> {
    const lines: string[] = [];
    for (;;) {
      const line = await this.#line();
      lines.push(line);
      if (!/^\d{3}-/.test(line)) break;
    }
    this.lastReply = lines;
    return lines;
  }

  async startTls(): Promise<void> {
    this.#socket.removeAllListeners("data");
    this.#received = "";
    const secure = connectTls({ socket: this.#socket, rejectUnauthorized: false });
    await new Promise((resolve, reject) => {
      secure.once("secureConnect", resolve);
      secure.once("error", reject);
    });
    this.#socket = secure;
    this.#listen();
  }

  async untilClosed(): Promise<void> {
    await this.#until(() => this.#closed);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #listen(): void {
    this.#socket.on("data", (chunk: Buffer) => {
      this.#received += chunk.toString("latin1");
      this.#wake();
    });
    this.#socket.on("error", () => {});
    this.#socket.on("close", () => {
      this.#closed = true;
      this.#wake();
    });
  }

  async #line(): Promise<string> {
    await this.#until(() => this.#received.includes("\r\n") || this.#closed);
    const end = this.#received.indexOf("\r\n");
    if (end < 0) throw new Error(`the server closed after ${JSON.stringify(this.#received)}`);
    const line = this.#received.slice(0, end);
    this.#received = this.#received.slice(end + 2);
    return line;
  }

  async #until(condition: () => boolean): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (!condition()) {
      if (Date.now() > deadline) throw new Error(`nothing came in time; so far ${JSON.stringify(this.#received)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, 100);
      });
    }
  }
}
