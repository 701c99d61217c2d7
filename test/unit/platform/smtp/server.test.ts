import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import type { SMTPServerDataStream } from "smtp-server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CertificatePair } from "../../../../services/platform/certificate.ts";
import type { Observation } from "../../../../services/platform/observability/observation.ts";
import type { SmtpHandlers } from "../../../../services/platform/smtp/handlers.ts";
import { SMTP_LIMITS, type SmtpLimits } from "../../../../services/platform/smtp/limits.ts";
import { MessageCollector } from "../../../../services/platform/smtp/message-collector.ts";
import { listenSmtp, type SmtpListener } from "../../../../services/platform/smtp/server.ts";
import { makeServerCertificate } from "../../../support/certificates.ts";

const KINDS = ["starttls", "implicit"] as const;
type Kind = (typeof KINDS)[number];

let pair: CertificatePair;
const listeners: SmtpListener[] = [];
const observed: Observation[] = [];

beforeAll(async () => {
  pair = await makeServerCertificate("localhost");
});
afterAll(() => Promise.all(listeners.map((listener) => listener.close())));

const HANDLERS: SmtpHandlers<string> = {
  mailFrom: async () => undefined,
  rcptTo: async () => undefined,
  message: async () => ({ code: 250, enhancedStatus: "2.6.0", lines: ["taken"] }),
};

/** A listener with one limit of its own: none of the others can come before it, however busy the machine is. */
async function listen(tls: Kind, limits: Partial<SmtpLimits>): Promise<string> {
  return (await open(tls, limits)).address;
}

async function open(
  tls: Kind,
  limits: Partial<SmtpLimits> = {},
  handlers: Partial<SmtpHandlers<string>> = {},
  hosts: readonly string[] = ["127.0.0.1"],
): Promise<SmtpListener> {
  const listener = await listenSmtp(
    hosts.map((host) => ({ host, port: 0 })),
    { ...HANDLERS, ...handlers },
    {
      name: tls,
      hostname: "mx.example.org",
      certificate: { current: () => pair, onChange: () => {}, close: () => {} },
      tls,
      plaintextAuthOnLoopback: true,
      maxMessageOctets: 1_000_000,
      maxRecipients: 10,
      collector: new MessageCollector("strict"),
      limitLoopback: true,
      limits: { ...SMTP_LIMITS, drainMs: 500, checkEveryMs: 20, quietMs: 600_000, ...limits },
      observe: (observation) => observed.push(observation),
    },
  );
  listeners.push(listener!);
  return listener!;
}

/** A client that says what it is told to, and notes what it hears. */
class Client {
  closed: Promise<string>;
  /** All that was heard first, if anything. */
  readonly firstHeard: Promise<string>;
  heard = "";
  #socket: Socket;

  constructor(address: string, tls = false, localAddress = "127.0.0.1") {
    const [host, port] = address.split(":") as [string, string];
    const options = { host, port: Number(port), localAddress, rejectUnauthorized: false };
    this.#socket = tls ? connectTls(options) : connect(options);
    this.closed = this.#listen();
    this.firstHeard = new Promise((resolve) => {
      this.#socket.once("data", () => resolve(this.heard));
      this.#socket.once("close", () => resolve(this.heard));
    });
  }

  #listen(): Promise<string> {
    const socket = this.#socket;
    socket.on("data", (chunk) => {
      this.heard += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    return new Promise((resolve) => socket.once("close", () => resolve(this.heard)));
  }

  /** Says STARTTLS, and means it. */
  async startTls(said = "STARTTLS"): Promise<void> {
    await this.converse(said);
    this.#socket.removeAllListeners("data");
    this.#socket = connectTls({ socket: this.#socket, rejectUnauthorized: false });
    this.closed = this.#listen();
  }

  /** Says the last that it has to say, and closes its side. */
  end(text = ""): void {
    this.#socket.end(text);
  }

  say(text: string | Buffer): void {
    if (this.#socket.writable) this.#socket.write(text);
  }

  /** Goes on saying something until it is closed. @returns all that was heard */
  async repeat(text: string, everyMs = 50): Promise<string> {
    const timer = setInterval(() => this.say(text), everyMs);
    return this.closed.finally(() => clearInterval(timer));
  }

  /** Says each line when the one before has been answered. */
  async converse(...lines: readonly string[]): Promise<void> {
    await this.#untilReplies(1);
    for (const line of lines) {
      const before = this.#replies();
      this.say(`${line}\r\n`);
      await this.#untilReplies(before + 1);
    }
  }

  #replies(): number {
    return this.heard.match(/^\d{3} .*\r\n/gm)?.length ?? 0;
  }

  async #untilReplies(count: number): Promise<void> {
    while (this.#replies() < count) {
      if (this.#socket.destroyed) throw new Error(`closed after ${JSON.stringify(this.heard)}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  leave(): void {
    this.#socket.destroy();
  }
}

const ENVELOPE = ["EHLO client.example.org", "MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>"];

it("tells every address that it serves", async () => {
  const { address } = await open("starttls", {}, {}, ["127.0.0.1", "127.0.0.2"]);
  expect(address).toMatch(/^127\.0\.0\.1:\d+,127\.0\.0\.2:\d+$/);
  for (const one of address.split(",")) expect(await new Client(one).firstHeard).toMatch(/^220 /);
});

describe.concurrent.each(KINDS)("a listener (%s) ends", (kind) => {
  const dial = async (limits: Partial<SmtpLimits>) => new Client(await listen(kind, limits), kind === "implicit");

  it("who says nothing", async () => {
    const client = await dial({ nextCommandMs: 400 });
    expect(await client.closed).toMatch(/^220 .*\r\n421 4\.4\.2 /);
  });

  it("a command line in drips", async () => {
    const client = await dial({ commandLineMs: 400 });
    await client.converse("EHLO client.example.org");
    expect(await client.repeat("N")).toMatch(/\r\n421 4\.4\.2 timeout\r\n$/);
  });

  it("a message in drips, whatever was sent at the beginning", async () => {
    const client = await dial({ dataOctetsPerSecond: 2_000, dataGraceMs: 400 });
    await client.converse(...ENVELOPE, "DATA");
    client.say(`Subject: x\r\n\r\n${"x".repeat(70)}\r\n`.repeat(200));
    expect(await client.repeat("x\r\n")).toMatch(/\r\n421 4\.4\.2 timeout\r\n$/);
  });

  it.each(["NOOP", "RSET", "VRFY someone", "HELP", "EHLO client.example.org", "DATA"])(
    "%s again and again",
    async (line) => {
      const client = await dial({ idleCommands: 8 });
      await client.converse("EHLO client.example.org");
      expect(await client.repeat(`${line}\r\n`, 10)).toMatch(
        /\r\n421 4\.7\.0 too many commands without a message\r\n$/,
      );
      expect(client.heard.match(/\r\n421 /g)).toHaveLength(1);
    },
  );

  it("recipients without end", async () => {
    const client = await dial({ recipientTries: 2 });
    await client.converse(...ENVELOPE);
    expect(await client.repeat("RCPT TO:<b@example.org>\r\n", 10)).toMatch(/\r\n421 4\.7\.0 /);
  });

  it("a dialogue that comes to no message", async () => {
    const client = await dial({ withoutMessageMs: 400 });
    await client.converse();
    expect(await client.repeat("NOOP\r\n", 100)).toMatch(/\r\n421 4\.4\.2 no message for too long\r\n$/);
  });

  it("not who sends message after message, and resets in between", async () => {
    const client = await dial({ idleCommands: 8 });
    await client.converse("EHLO client.example.org");
    for (let message = 0; message < 20; message += 1) {
      await client.converse(...ENVELOPE.slice(1), "DATA", "Subject: x\r\n\r\nx\r\n.", "NOOP", "RSET");
    }
    await client.converse("QUIT");
    expect((await client.closed).match(/^250 2\.6\.0 taken\r$/gm)).toHaveLength(20);
  });
});

describe("a TLS handshake in drips is ended", () => {
  // A handshake record that announces more than ever comes (RFC 8446 §5.1).
  const BEGINNING = Buffer.from([0x16, 0x03, 0x01, 0x40, 0x00, 0x01]);

  it("on a listener with implicit TLS", async () => {
    const client = new Client(await listen("implicit", { handshakeMs: 400 }));
    client.say(BEGINNING);
    expect(await client.repeat("\x00")).toBe("");
  });

  it("behind STARTTLS", async () => {
    const client = new Client(await listen("starttls", { handshakeMs: 400 }));
    await client.converse("EHLO client.example.org", "STARTTLS");
    client.say(BEGINNING);
    expect(await client.repeat("\x00")).toMatch(/\r\n220 [^\r]*\r\n$/);
  });
});

describe("handshakes of implicit TLS that are not done yet count as connections", () => {
  const dialMany = (address: string, count: number) => Array.from({ length: count }, () => new Client(address));
  /** Waits until so many of them were dropped. */
  const dropped = (clients: readonly Client[], count: number) =>
    new Promise<void>((resolve) => {
      let left = count;
      for (const { closed } of clients) void closed.then(() => --left || resolve());
    });

  it("of one client: one beyond its share is told, the others are dropped", async () => {
    const address = await listen("implicit", { connectionsPerSource: 3 });
    const silent = dialMany(address, 3);
    const told = new Client(address, true);
    expect(await told.closed).toMatch(/^421 mx\.example\.org too many connections from your address/);

    silent.push(...dialMany(address, 5));
    await dropped(silent, 4);
    for (const client of silent) client.leave();
    await expect.poll(() => new Client(address, true).firstHeard, { timeout: 60_000 }).toMatch(/^220 /);
  });

  it("of all clients, and give way to others", async () => {
    const address = await listen("implicit", { connections: 3 });
    const sending = [new Client(address, true), new Client(address, true)];
    await Promise.all(sending.map((client) => client.converse(...ENVELOPE, "DATA")));
    const silent = dialMany(address, 5);
    await dropped(silent, 4);
    const greeted = new Client(address, true);
    expect(await greeted.firstHeard).toMatch(/^220 /);
    for (const client of [...sending, ...silent, greeted]) client.leave();
  });
});

describe("where all places are taken, a new connection has that of one that gives way first", () => {
  const NO_ROOM = /\r\n421 4\.3\.2 too many connections, try again later\r\n$/;
  const LOGIN = `AUTH PLAIN ${Buffer.from("\0user\0password").toString("base64")}`;
  const END = "Subject: x\r\n\r\nx\r\n.";
  const authenticate: SmtpHandlers<string>["authenticate"] = async () => ({ user: "user" });

  it.each(KINDS)("none that sends its message (%s)", async (kind) => {
    const dial = (address: string) => new Client(address, kind === "implicit");
    const address = await listen(kind, { connections: 3 });
    const sending = dial(address);
    await sending.converse(...ENVELOPE, "DATA");
    const idle = dial(address);
    await idle.converse("EHLO a.test");
    const used = dial(address);
    await used.converse("EHLO a.test");
    await idle.converse("NOOP");

    const next = dial(address);
    await next.converse("EHLO a.test");
    expect(await used.closed).toMatch(NO_ROOM);
    const last = dial(address);
    await last.converse("EHLO a.test");
    expect(await idle.closed).toMatch(NO_ROOM);
    await sending.converse(END, "QUIT");
    expect(await sending.closed).toMatch(/\r\n250 2\.6\.0 taken\r\n221 /);
    await next.converse("QUIT");
    await last.converse("QUIT");
  });

  it("and is refused while messages come over all", async () => {
    const address = await listen("starttls", { connections: 2 });
    const sending = [new Client(address), new Client(address)];
    await Promise.all(sending.map((client) => client.converse(...ENVELOPE, "DATA")));
    expect(await new Client(address).closed).toMatch(/^421 mx\.example\.org too many connections, try again later/);
    await Promise.all(sending.map((client) => client.converse(END, "QUIT")));
  });

  it("nor one that waits for our reply", async () => {
    let proceed = () => {};
    const answer = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    let isAsked = false;
    const { address } = await open(
      "starttls",
      { connections: 1 },
      {
        authenticate: async (login, session) => {
          isAsked = true;
          await answer;
          return authenticate(login, session);
        },
      },
    );
    const waiting = new Client(address);
    await waiting.converse("EHLO a.test");
    const signedIn = waiting.converse(LOGIN, "QUIT");
    await expect.poll(() => isAsked).toBe(true);
    expect(await new Client(address).closed).toMatch(/^421 mx\.example\.org too many connections, try again later/);
    proceed();
    await signedIn;
    expect(await waiting.closed).toMatch(/\r\n235 /);
  });

  it("one that left off in the middle of its message where there is no other", async () => {
    const address = await listen("starttls", { connections: 1, quietMs: 400 });
    const stalled = new Client(address);
    await stalled.converse(...ENVELOPE, "DATA");
    await sleep(500);
    const next = new Client(address);
    await next.converse("EHLO a.test", "QUIT");
    expect(await stalled.closed).toMatch(NO_ROOM);
  });

  it("those that have signed in last, also behind a TLS handshake in drips", async () => {
    const { address } = await open("starttls", { connections: 3 }, { authenticate });
    const signedIn = new Client(address);
    await signedIn.converse("EHLO a.test", LOGIN);
    const inHandshake = new Client(address);
    await inHandshake.converse("EHLO a.test", "STARTTLS");
    const stranger = new Client(address);
    await stranger.converse("EHLO a.test");

    const others = [new Client(address)];
    await others[0]!.converse("EHLO a.test", LOGIN);
    expect(await inHandshake.closed).toMatch(/\r\n220 [^\r]*\r\n$/);
    others.push(new Client(address));
    await others[1]!.converse("EHLO a.test", LOGIN);
    expect(await stranger.closed).toMatch(NO_ROOM);

    await signedIn.converse("NOOP");
    others.push(new Client(address));
    await others[2]!.converse("EHLO a.test", LOGIN);
    expect(await others[0]!.closed).toMatch(NO_ROOM);
    await Promise.all([signedIn, ...others.slice(1)].map((client) => client.converse("QUIT")));
  });

  describe("with clients in many networks", () => {
    const loginOf = (user: string) => `AUTH PLAIN ${Buffer.from(`\0${user}\0password`).toString("base64")}`;
    const handlers: Partial<SmtpHandlers<string>> = {
      authenticate: async ({ username }) => ({ user: username }),
      holderOf: ({ user }) => user,
    };
    /** Eight places, two of which are for strangers. */
    const dialWith = async (tls: Kind, limits: Partial<SmtpLimits> = {}) => {
      const { address } = await open(tls, { connections: 8, ...limits }, handlers);
      return (network: number, last = 1) => new Client(address, tls === "implicit", `127.0.${network}.${last}`);
    };
    const signIn = async (client: Client, user: string) => {
      await client.converse("EHLO a.test", loginOf(user));
      return client;
    };
    /** Each comes while the one before still takes its time to sign in. */
    const comeSlowly = async (clients: readonly (() => Client)[]) => {
      const signedIn: Promise<Client>[] = [];
      for (const come of clients) {
        const client = come();
        await client.firstHeard;
        signedIn.push(sleep(150).then(() => signIn(client, "honest")));
        await sleep(100);
      }
      return Promise.all(signedIn);
    };

    it.each(KINDS)("those who take time to sign in, where one has all places signed in (%s)", async (kind) => {
      const dial = await dialWith(kind);
      const held: Client[] = [];
      for (let network = 1; network <= 8; network += 1) held.push(await signIn(dial(network), "holder"));
      const newcomers = await comeSlowly([11, 12, 13, 14].map((network) => () => dial(network)));
      for (const client of newcomers) await client.converse("MAIL FROM:<a@example.org>", "QUIT");
      for (const client of held.slice(0, 4)) expect(await client.closed).toMatch(NO_ROOM);
      for (const client of held.slice(4)) await client.converse("NOOP");
    });

    it("as well where these take part now and then, or leave off in the middle of messages", async () => {
      const dial = await dialWith("starttls", { quietMs: 2_000 });
      const held = await Promise.all([1, 2, 3, 4, 5, 6].map((network) => signIn(dial(network), "holder")));
      for (const client of held.slice(3)) await client.converse(...ENVELOPE.slice(1), "DATA");
      const keepUp = setInterval(() => {
        for (const client of held.slice(0, 3)) client.say("NOOP\r\n");
      }, 50);
      await sleep(2_100);
      const newcomers = await comeSlowly([11, 12, 13, 14, 15].map((network) => () => dial(network)));
      clearInterval(keepUp);
      for (const client of newcomers) await client.converse("NOOP");
    });

    it("strangers' from a share of them on, whoever comes, so that those signed in stay", async () => {
      const dial = await dialWith("starttls");
      const clients = [1, 2, 3, 4, 5, 6].map(async (network) => signIn(dial(network), `sender ${network % 2}`));
      const [sending, ...between] = await Promise.all(clients);
      await sending!.converse(...ENVELOPE.slice(1), "DATA");
      const strangers: Client[] = [];
      for (let network = 11; network < 40; network += 1) {
        strangers.push(dial(network));
        await strangers.at(-1)!.converse("EHLO a.test");
      }
      for (const client of between) await client.converse(...ENVELOPE.slice(1), "DATA", END, "QUIT");
      await sending!.converse(END, "QUIT");
      for (const client of strangers.slice(0, -2)) expect(await client.closed).toMatch(NO_ROOM);
    });

    it("those of the network that has most, whichever came last", async () => {
      const dial = await dialWith("starttls");
      const newcomer = dial(1);
      await newcomer.converse("EHLO a.test");
      for (let last = 1; last < 30; last += 1) await dial(2, last).converse("EHLO a.test");
      await signIn(newcomer, "honest");
      await newcomer.converse("QUIT");
    });

    it("those of strangers at rest before all others", async () => {
      const dial = await dialWith("starttls", { quietMs: 200 });
      const silent = dial(1);
      await silent.converse("EHLO a.test");
      await sleep(250);
      const signedIn = await Promise.all([2, 3, 4, 5, 6, 7, 8].map((network) => signIn(dial(network), "holder")));
      await dial(9).converse("EHLO a.test", "QUIT");
      expect(await silent.closed).toMatch(NO_ROOM);
      for (const client of signedIn) await client.converse("QUIT");
    });
  });

  it("and nobody gives way to one that is beyond its client's share", async () => {
    const address = await listen("starttls", { connections: 2, connectionsPerSource: 2 });
    const own = [new Client(address), new Client(address)];
    await Promise.all(own.map((client) => client.converse("EHLO a.test")));
    expect(await new Client(address).closed).toMatch(/^421 mx\.example\.org too many connections from your address/);
    await Promise.all(own.map((client) => client.converse("QUIT")));
  });
});

describe("a client that closes its side behind what it says is answered", () => {
  const MESSAGE = "From: a@example.org\r\n\r\nHi\r\n";
  const takes = () => {
    const taken: string[] = [];
    const message: SmtpHandlers<string>["message"] = async (octets) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      taken.push(String(octets));
      return { code: 250, enhancedStatus: "2.6.0", lines: ["taken"] };
    };
    return { taken, message };
  };
  const GREETED = ["EHLO a.test", "MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>", "DATA"];

  it.each([
    ["in clear", "starttls", false],
    ["in TLS", "implicit", false],
    ["in TLS behind STARTTLS", "starttls", true],
  ] as const)("%s", async (_, kind, upgrades) => {
    const { taken, message } = takes();
    const { address } = await open(kind, {}, { message });
    for (const last of [".\r\nQUIT\r\n", ".\r\n", ".\r\nRSET\r\nNO"]) {
      const client = new Client(address, kind === "implicit");
      if (upgrades) {
        await client.startTls();
        client.say("EHLO a.test\r\n");
      }
      await client.converse(...GREETED);
      client.end(MESSAGE + last);
      const heard = await client.closed;
      expect(heard).toContain("250 2.6.0 taken");
      expect(heard.includes("221 ")).toBe(last.includes("QUIT"));
    }
    expect(taken).toHaveLength(3);
  });

  it("but a message that was left in the middle is none", async () => {
    const { taken, message } = takes();
    const { address } = await open("starttls", {}, { message });
    const client = new Client(address);
    await client.converse(...GREETED);
    client.end(MESSAGE);
    expect(await client.closed).toMatch(/354 [^\n]*\n$/);
    expect(taken).toEqual([]);
  });

  it("and one that says nothing more is let go at once", async () => {
    const { address } = await open("starttls");
    const client = new Client(address);
    await client.converse("EHLO a.test");
    const from = performance.now();
    client.end();
    await client.closed;
    // Else it would be waited for as long as for a next command: five minutes.
    expect(performance.now() - from).toBeLessThan(60_000);
  });
});

describe("a reply of the service", () => {
  const TEXT = "held: clave robada ñ\u2028key\u2029密\rx\ny";
  const refuses = { code: 451, enhancedStatus: "4.7.1" as const, lines: [TEXT] };

  it.each(["", " SMTPUTF8"])("ends, in ASCII, whatever its text is (MAIL with `%s`)", async (parameters) => {
    const handlers = { rcptTo: async () => refuses };
    const { address } = await open("starttls", {}, handlers);
    const client = new Client(address);
    await client.converse(ENVELOPE[0]!, `${ENVELOPE[1]!}${parameters}`, ENVELOPE[2]!, "QUIT");
    expect(await client.closed).toContain("\r\n451 4.7.1 held: clave robada n key ? x y\r\n221 ");
  });

  it("that takes a message as well", async () => {
    const { address } = await open("starttls", {}, { message: async () => ({ ...refuses, code: 250 }) });
    const client = new Client(address);
    await client.converse(...ENVELOPE, "DATA", "Subject: x\r\n\r\nx\r\n.", "QUIT");
    expect(await client.closed).toMatch(/\r\n250 (?:\d\.\d\.\d )?held: clave robada n key \? x y\r\n221 /);
  });
});

describe("commands are told from messages", () => {
  const PLAIN = `AUTH PLAIN ${Buffer.from("\0user\0password").toString("base64")}`;
  const MESSAGE = "Subject: x\r\n\r\n..\r\n.abc\r\n.\tx\r\nMAIL FROM:<x@example.org>\r\n.\r\n";

  it.each(KINDS)("octet by octet and in one piece (%s)", async (kind) => {
    const messages: string[] = [];
    const listener = await open(
      kind,
      {},
      {
        message: async (octets) => {
          messages.push(octets.toString("latin1"));
          return HANDLERS.message(octets, undefined as never);
        },
      },
    );
    const group = `${ENVELOPE.slice(1).join("\r\n")}\r\nDATA\r\n${MESSAGE}NOOP\r\n`;
    const client = new Client(listener.address, kind === "implicit");
    await client.converse(ENVELOPE[0]!);
    client.heard = "";
    for (const octet of Buffer.from(group)) {
      client.say(Buffer.of(octet));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    client.say(`${group}QUIT\r\n`);
    const replies = ["250 2.1.0", "250 2.1.5", "354 End d", "250 2.6.0", "250 2.0.0"];
    const heard = (await client.closed).split("\r\n").slice(0, -1);
    expect(heard.map((line) => line.slice(0, 9).trim())).toEqual([...replies, ...replies, "221 2.0.0"]);
    expect(messages).toEqual(Array(2).fill("Subject: x\r\n\r\n.\r\nabc\r\n\tx\r\nMAIL FROM:<x@example.org>\r\n"));
  });

  it("STARTTLS has a client introduce itself and log in again, and ends its transaction", async () => {
    const users: (string | undefined)[] = [];
    const listener = await open(
      "starttls",
      {},
      {
        authenticate: async ({ username }) => ({ user: username }),
        mailFrom: async (_address, { user, secure, protocol }) => {
          users.push(`${user} ${secure} ${protocol}`);
          return undefined;
        },
      },
    );
    const client = new Client(listener.address);
    await client.converse(ENVELOPE[0]!, PLAIN, ...ENVELOPE.slice(1));
    await client.startTls();
    client.heard = "220 greeted\r\n";
    await client.converse("DATA", PLAIN, ENVELOPE[0]!, "DATA", ENVELOPE[1]!, PLAIN, "DATA", ENVELOPE[1]!, "QUIT");
    const codes = (await client.closed).match(/^\d{3} (?:\d\.\d\.\d)?/gm);
    expect(codes?.slice(1)).toEqual([
      ...["503 5.5.1", "503 5.5.1", "250 ", "530 5.7.0", "530 5.7.0"],
      ...["235 2.7.0", "503 5.5.1", "250 2.1.0", "221 2.0.0"],
    ]);
    expect(users).toEqual(["user false ESMTPA", "user true ESMTPSA"]);
  });

  it.each([
    ["HELO client", "", "SMTP"],
    ["EHLO client", "", "ESMTP"],
    ["EHLO client", " SMTPUTF8", "UTF8SMTP"],
    ["EHLO client", " SMTPUTF8", "UTF8SMTPA"],
    ["EHLO client", "", "ESMTPSA"],
    ["EHLO client", " SMTPUTF8", "UTF8SMTPSA"],
    ["EHLO client", " SMTPUTF8", "UTF8SMTPS"],
  ])("%s and MAIL with `%s` come by %s", async (greeting, parameters, expected) => {
    const protocols: string[] = [];
    const authenticate: SmtpHandlers<string>["authenticate"] = async ({ username }) => ({ user: username });
    const handlers: Partial<SmtpHandlers<string>> = {
      ...(expected.endsWith("A") && { authenticate }),
      message: async (_octets, { protocol }) => {
        protocols.push(protocol);
        return { code: 250, lines: ["taken"] };
      },
    };
    const isSecure = /SA?$/.test(expected);
    const listener = await open(isSecure ? "implicit" : "starttls", {}, handlers);
    const client = new Client(listener.address, isSecure);
    await client.converse(greeting, ...(expected.endsWith("A") ? [PLAIN] : []), `${ENVELOPE[1]!}${parameters}`);
    await client.converse(ENVELOPE[2]!, "DATA", MESSAGE.trimEnd(), "QUIT");
    await client.closed;
    expect(protocols).toEqual([expected]);
  });

  it("SMTPUTF8 of a MAIL that was refused does not count for the next", async () => {
    const asked: boolean[] = [];
    const listener = await open(
      "starttls",
      {},
      {
        mailFrom: async (_address, { smtpUtf8 }) => {
          asked.push(smtpUtf8);
          return smtpUtf8 ? { code: 550, lines: ["refused"] } : undefined;
        },
      },
    );
    const client = new Client(listener.address);
    await client.converse(ENVELOPE[0]!, `${ENVELOPE[1]!} SMTPUTF8`, ENVELOPE[1]!, "QUIT");
    await client.closed;
    expect(asked).toEqual([true, false]);
  });

  it.each([
    [
      "CHUNKING is not offered, and BDAT no command",
      "BDAT 6 LAST\r\nNOOP\r\nDATA\r\nx\r\n.\r\n",
      ["500", "250", "354", "250"],
    ],
    [
      "lines that end in LF are commands as well",
      "NOOP\nNOOP\nRSET\nDATA\nNOOP\r\n",
      ["250", "250", "250", "503", "250"],
    ],
    [
      "only CRLF around the dot ends a message",
      "DATA\r\nx\n.\nMAIL FROM:<y@example.org>\n.\r\n\r\n.\r\n",
      ["354", "550"],
    ],
    ["a dot at the beginning ends a message of nothing", "DATA\r\n.\r\nNOOP\r\n", ["354", "250", "250"]],
    [
      "what comes behind DATA that is refused is no message",
      "RSET\r\nDATA\r\nNOOP\r\n.\r\n",
      ["250", "503", "250", "500"],
    ],
  ])("%s", async (_what, group, codes) => {
    const client = new Client(await listen("starttls", {}));
    await client.converse(...ENVELOPE);
    expect(client.heard).not.toMatch(/CHUNKING|BINARYMIME/);
    client.heard = "";
    client.say(`${group}QUIT\r\n`);
    expect((await client.closed).match(/^\d{3}(?= )/gm)).toEqual([...codes, "221"]);
  });

  it("what is said in clear behind STARTTLS is not heard, neither before TLS nor in it", async () => {
    const senders: string[] = [];
    const mailFrom = async (address: string) => {
      senders.push(address);
      return undefined;
    };
    const client = new Client((await open("starttls", {}, { mailFrom })).address);
    await client.converse(ENVELOPE[0]!);
    await client.startTls("STARTTLS\r\nEHLO injected.example.org\r\nMAIL FROM:<injected@example.org>");
    client.heard = "220 greeted\r\n";
    await client.converse("NOOP", ...ENVELOPE, "QUIT");
    expect((await client.closed).match(/^\d{3}(?= )/gm)).toEqual(["220", "250", "250", "250", "250", "221"]);
    expect(senders).toHaveLength(1);
    expect(senders[0]).not.toContain("injected");
  });

  it("twenty commands without a login end a dialogue", async () => {
    const listener = await open("starttls", {}, { authenticate: async () => ({ user: "anybody" }) });
    const client = new Client(listener.address);
    await client.converse(...Array(19).fill("NOOP"));
    client.say("NOOP\r\n");
    expect(await client.closed).toMatch(/\r\n421 4\.7\.0 too many commands without a login\r\n$/);
    const user = new Client(listener.address);
    await user.converse(ENVELOPE[0]!, PLAIN, ...Array(30).fill("NOOP"));
    user.leave();
  });

  it.each([
    ["before the greeting", "EHLO client.example.org", 0],
    ["as a web page has a browser speak", "POST / HTTP/1.1", 1],
  ])("who speaks %s is not listened to", async (_how, line, greetings) => {
    const client = new Client(await listen("starttls", {}));
    if (greetings > 0) await client.converse();
    client.say(`${line}\r\nNOOP\r\n`);
    expect((await client.closed).match(/^\d{3}/gm)).toEqual([...Array(greetings).fill("220"), "421"]);
  });
});

it.each(KINDS)("a listener that stops (%s) lets a message come to its end, and nobody begin another", async (kind) => {
  const listener = await open(kind, { drainMs: 60_000 });
  const dial = () => new Client(listener.address, kind === "implicit");
  const [idle, sending, early] = [dial(), dial(), dial()];
  const inHandshake = new Client(listener.address);
  await idle.converse(ENVELOPE[0]!);
  await sending.converse(...ENVELOPE, "DATA");
  sending.say("Subject: x\r\n");
  await early.converse(...ENVELOPE);
  const closing = listener.close();
  for (const client of [idle, early]) expect(await client.closed).toMatch(/\r\n421 4\.3\.2 closing\r\n$/);
  sending.say("\r\nx\r\n.\r\nMAIL FROM:<a@example.org>\r\n");
  expect(await sending.closed).toMatch(/\r\n250 2\.6\.0 taken\r\n421 4\.3\.2 closing\r\n$/);
  await Promise.all([closing, inHandshake.closed]);
  await expect(dial().closed).resolves.toBe("");
});

it("a listener that stops waits no longer than it says", async () => {
  const listener = await open("starttls", { drainMs: 100 });
  const client = new Client(listener.address);
  await client.converse(...ENVELOPE, "DATA");
  await listener.close();
  expect(await client.closed).toMatch(/\r\n421 4\.3\.2 closing\r\n$/);
});

it("one who sends slowly in many sessions takes a share of the memory, and others have the rest", async () => {
  const MIB = 1024 * 1024;
  const size = { mostOctets: 25 * MIB, keptOctets: 25 * MIB };
  const collector = new MessageCollector("strict");
  const piece = Buffer.alloc(MIB, "x");
  let goOn = () => {};
  const held = new Promise<void>((resolve) => (goOn = resolve));
  async function* send(pieces: number) {
    for (let sent = 0; sent < pieces; sent += 1) yield piece;
    await held;
  }
  const take = (pieces: number, holder: string) => {
    const stream = Object.assign(Readable.from(send(pieces)), { byteLength: 0 });
    return collector.collect(stream as unknown as SMTPServerDataStream, size, holder);
  };
  const slow = Array.from({ length: 25 }, () => take(21, "greedy"));
  await sleep(50);
  const others = Array.from({ length: 4 }, (_, number) => take(25, `other ${number}`));
  await sleep(50);
  goOn();
  const codes = async (taken: ReturnType<typeof take>[]) =>
    (await Promise.all(taken)).map((message) => (message.ok ? 250 : message.error.code));
  expect(await codes(others)).toEqual([250, 250, 250, 250]);
  expect(new Set(await codes(slow))).toEqual(new Set([250, 452]));
});

it("tells the log who was ended and why", () => {
  expect(observed).toContainEqual({
    kind: "smtp-dialogue-ended",
    level: "info",
    listener: "starttls",
    client: "127.0.0.1",
    said: "421 4.7.0 too many commands without a message",
  });
});
