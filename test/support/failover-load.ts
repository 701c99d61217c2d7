import { setTimeout as sleep } from "node:timers/promises";
import { createTransport } from "nodemailer";
import { callApi } from "./api-client.ts";
import { type Accounts, dnsApiOf } from "./deployment.ts";
import { askDnsTimes, dataOf, rcodeOf } from "./dns-client.ts";
import type { SmtpSink } from "./smtp-sink.ts";

/** What is acknowledged by writing to the database; a click is written to a disk first. */
export const KINDS = ["change", "send", "submission", "bounce", "click"] as const;
export type Kind = (typeof KINDS)[number];

/** Who the load is put on. */
export interface Target {
  /** Of the machines with services, each of which runs all of them. */
  readonly addresses: readonly string[];
  readonly accounts: Accounts;
  readonly campaign: { readonly numid: number; readonly apikey: string };
  readonly sender: string;
  /** Has the name `stable` with the address 192.0.2.1. */
  readonly zone: string;
  /** Where mail arrives. */
  readonly sink: SmtpSink;
}

/** A customer gives up on a machine after so long, and asks the other one. */
const PATIENCE_MS = 5_000;
/** How often a stub resolver goes through its name servers (resolv.conf(5): attempts). */
const ATTEMPTS = 2;
const ADDED = "192.0.2.2";

/** Customers, resolvers and recipients who all go on for as long as it runs, asking one machine and then the other. */
export class FailoverLoad {
  /** By kind: the names or addresses concerned, in order. */
  readonly acknowledged = Object.fromEntries(KINDS.map((kind) => [kind, [] as string[]])) as Record<Kind, string[]>;
  readonly wrong: string[] = [];
  /** When each of the sink's messages was seen, in milliseconds since the epoch. */
  readonly arrivals: number[] = [];
  readonly #target: Target;
  readonly #times = Object.fromEntries(KINDS.map((kind) => [kind, [] as number[]])) as Record<Kind, number[]>;
  /** By address of a name server: names that it has answered. */
  readonly #seen = new Map<string, string[]>();
  readonly #work: Promise<void>[];
  #stopped = false;

  constructor(target: Target) {
    this.#target = target;
    this.#work = [
      this.#repeat(100, (turn) => this.#change(turn)),
      this.#repeat(200, (turn) => this.#send(turn)),
      this.#repeat(300, (turn) => this.#submit(turn)),
      this.#repeat(20, (turn) => this.#ask(turn)),
      this.#readMail(),
    ];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#work);
  }

  /** @returns by kind, the longest time in milliseconds without an acknowledgement since then */
  longestPauses(since: number): Record<Kind, number> {
    const pauseOf = (kind: Kind) => {
      const times = [since, ...this.#times[kind].filter((at) => at > since), Date.now()];
      return Math.max(...times.slice(1).map((at, index) => at - times[index]!));
    };
    return Object.fromEntries(KINDS.map((kind) => [kind, pauseOf(kind)])) as Record<Kind, number>;
  }

  #note(kind: Kind, what: readonly string[]): void {
    this.acknowledged[kind].push(...what);
    this.#times[kind].push(Date.now());
  }

  async #repeat(pauseMs: number, work: (turn: number) => Promise<unknown>): Promise<void> {
    for (let turn = 0; !this.#stopped; turn += 1) {
      await work(turn);
      await sleep(pauseMs);
    }
  }

  /** @returns whether one of the machines, the first of which is another one each time, said yes in time */
  async #either(
    turn: number,
    ask: (address: string, tries: number) => Promise<boolean>,
    attempts = 1,
  ): Promise<boolean> {
    const { addresses } = this.#target;
    for (let tries = 0; tries < attempts * addresses.length; tries += 1) {
      const address = addresses[(turn + tries) % addresses.length]!;
      if (await Promise.race([ask(address, tries).catch(() => false), sleep(PATIENCE_MS, false)])) return true;
    }
    return false;
  }

  async #change(turn: number): Promise<void> {
    const { accounts, zone } = this.#target;
    const record = { name: `h${turn}`, type: "A", value: ADDED };
    const done = await this.#either(
      turn,
      async (address) =>
        (await dnsApiOf(`http://${address}:8053`, accounts)("POST", `/rr/${zone}`, record)).status === 200,
    );
    if (done) this.#note("change", [record.name]);
  }

  /** To one who reads, one whose mail comes back, and one who follows the link. */
  async #send(turn: number): Promise<void> {
    const { accounts, campaign } = this.#target;
    const emails = ["reads", "returns", "follows"].map((does) => `${does}${turn}@example.net`);
    const done = await this.#either(turn, async (address) => {
      const { status, body } = await callApi(
        "POST",
        `http://${address}:8025/v1/envio/send_many_inline/`,
        // Two machines may get the call, and it is to be done once.
        { Authorization: accounts.instance.key, "Idempotency-Key": `turn ${turn}` },
        { campana_id: campaign.numid, email: true, contactos: emails.map((email) => ({ email })), html: HTML },
      );
      return status === 200 && body.sent === emails.length;
    });
    if (done) this.#note("send", emails);
  }

  async #submit(turn: number): Promise<void> {
    const { accounts, campaign, sender } = this.#target;
    let to = "";
    const auth = { user: `${accounts.instance.name}-${campaign.numid}`, pass: campaign.apikey };
    const done = await this.#either(turn, async (host, tries) => {
      // Nobody can tell whether a message is taken that is not acknowledged.
      to = `submitted${turn}.${tries}@example.net`;
      const transport = createTransport({ host, port: 2587, ...TIMES, requireTLS: true, ...UNCHECKED, auth });
      await transport.sendMail({ from: sender, to, subject: `Turn ${turn}`, text: "Hello" });
      return true;
    });
    if (done) this.#note("submission", [to]);
  }

  /**
   * As a stub resolver: silence and SERVFAIL lead to the next name server, and from the last one to the first again, since
   * one may be restarted just when the datagram to the other is lost. What one has answered stays.
   */
  async #ask(turn: number): Promise<void> {
    const { zone } = this.#target;
    let why = "";
    const done = await this.#either(
      turn,
      async (address) => {
        const seen = this.#seen.get(address) ?? [];
        this.#seen.set(address, seen);
        const [known, latest] = [seen[turn % Math.max(1, seen.length)], this.acknowledged.change.at(-1)];
        for (const [name, expected] of [["stable", "192.0.2.1"], ...(known === undefined ? [] : [[known, ADDED]])]) {
          const answer = await askDnsTimes(1, `${address}:5300`, `${name}.${zone}`, "A");
          why = rcodeOf(answer);
          if (why === "SERVFAIL") return false;
          if (dataOf(answer)[0] !== expected) this.wrong.push(`${address} says of ${name}: ${why}`);
        }
        if (latest !== undefined && seen.at(-1) !== latest) {
          const answer = await askDnsTimes(1, `${address}:5300`, `${latest}.${zone}`, "A");
          if (dataOf(answer)[0] === ADDED) seen.push(latest);
        }
        return true;
      },
      ATTEMPTS,
    );
    if (!done) this.wrong.push(`no name server answers: ${why}`);
  }

  /** Some of what arrives comes back as undeliverable, and of some the link is followed. */
  async #readMail(): Promise<void> {
    const { sink } = this.#target;
    const [returns, follows]: (readonly [string, string])[][] = [[], []];
    const arrived = new Set<string>();
    const done = [
      this.#repeat(50, (turn) => this.#handle(returns!, "bounce", (email, path) => this.#bounce(turn, email, path))),
      this.#repeat(50, (turn) => this.#handle(follows!, "click", (_email, link) => this.#click(turn, link))),
    ];
    while (!this.#stopped) {
      for (const { rcptTo, mailFrom, octets } of sink.messages.slice(this.arrivals.length)) {
        const [email] = rcptTo as [string];
        const isFirst = !arrived.has(email);
        arrived.add(email);
        if (isFirst && email.startsWith("returns")) returns!.push([email, mailFrom]);
        if (isFirst && email.startsWith("follows")) follows!.push([email, linkOf(octets)]);
        this.arrivals.push(Date.now());
      }
      await sleep(50);
    }
    await Promise.all(done);
  }

  /** Takes the next one of the list, and puts it back when nobody took it. */
  async #handle(
    list: (readonly [string, string])[],
    kind: Kind,
    act: (email: string, what: string) => Promise<boolean>,
  ): Promise<void> {
    const next = list.shift();
    if (next === undefined) return;
    if (await act(...next)) this.#note(kind, [next[0]]);
    else list.push(next);
  }

  #bounce(turn: number, email: string, returnPath: string): Promise<boolean> {
    return this.#either(turn, async (host) => {
      const transport = createTransport({ host, port: 2525, ...TIMES, ...UNCHECKED });
      await transport.sendMail({ envelope: { from: "", to: [returnPath] }, raw: reportOf(email) });
      return true;
    });
  }

  #click(turn: number, link: string): Promise<boolean> {
    const { pathname } = new URL(link);
    const browser = { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" };
    return this.#either(
      turn,
      async (address) => (await callApi("GET", `http://${address}:8026${pathname}`, browser)).status === 302,
    );
  }
}

const HTML = '<p>Hello XYZEMAILXYZ, <a href="http://www.acme.test/offer">look</a></p>';
const UNCHECKED = { tls: { rejectUnauthorized: false } } as const;
const TIMES = { connectionTimeout: 2_000, greetingTimeout: 3_000, socketTimeout: PATIENCE_MS } as const;

/** The tracked link of a message whose HTML is quoted-printable. */
function linkOf(octets: Buffer): string {
  const text = octets.toString("latin1").replaceAll("=\r\n", "").replaceAll("=3D", "=");
  return /href="(http:\/\/[^"]+\/c\/[^"]+)"/.exec(text)![1]!;
}

function reportOf(recipient: string): string {
  return `From: mailer-daemon@mta.example.net
To: <>
Subject: Delivery report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=cut

--cut
Content-Type: text/plain

About your message.
--cut
Content-Type: message/delivery-status

Reporting-MTA: dns; mta.example.net

Final-Recipient: rfc822; ${recipient}
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 user unknown

--cut--
`.replaceAll("\n", "\r\n");
}
