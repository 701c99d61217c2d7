import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { askDns, rcodeOf } from "../support/dns-client.ts";
import { freePort } from "../support/peers-processes.ts";
import {
  ended,
  eventually,
  makeDataDir,
  removeDataDir,
  type StackAddresses,
  type StartedStack,
  startUsedStack,
} from "../support/stack.ts";

// What strangers may do to a listener: send slowly, in floods, too much, or over a broken TLS. None of it may keep
// others from being served.
const dataDir = makeDataDir();
let stack: StartedStack;
let dnsTls: string;
let dnsHttps: string;

const HTTP = [
  "mail_api",
  "dns_api",
  "console",
  "tracking",
  "metrics",
] as const satisfies readonly (keyof StackAddresses)[];
const SMTP = ["submission", "mx"] as const satisfies readonly (keyof StackAddresses)[];

beforeAll(async () => {
  dnsTls = `127.0.0.1:${await freePort()}`;
  dnsHttps = `127.0.0.1:${await freePort()}`;
  stack = await startUsedStack(dataDir, {
    PALOMAR_DNS_TLS_LISTEN: dnsTls,
    PALOMAR_DNS_HTTPS_LISTEN: dnsHttps,
    PALOMAR_API_BODY_LIMIT: "1MiB",
    PALOMAR_MAX_MESSAGE_SIZE: "1MiB",
    PALOMAR_MX_MAX_SIZE: "1MiB",
    // So that a test on one machine meets what strangers meet.
    PALOMAR_LIMIT_LOOPBACK: "true",
  });
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

const hostPort = (address: string) => {
  const [host, port] = address.replace("http://", "").split(":") as [string, string];
  return { host, port: Number(port) };
};

/** A connection that keeps what it hears, and knows when it was closed. */
class Stranger {
  readonly socket: Socket;
  readonly closed: Promise<void>;
  heard = "";
  isClosed = false;

  constructor(address: string) {
    this.socket = connect(hostPort(address));
    this.socket.on("data", (chunk) => {
      this.heard += chunk.toString("latin1");
    });
    this.socket.on("error", () => {});
    this.closed = new Promise((resolve) =>
      this.socket.once("close", () => {
        this.isClosed = true;
        resolve();
      }),
    );
  }

  say(text: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(text);
  }

  /** Whether it is closed from the other side before so long. */
  async isLeftWithin(milliseconds: number): Promise<boolean> {
    await Promise.race([this.closed, sleep(milliseconds)]);
    const left = this.isClosed;
    this.socket.destroy();
    return left;
  }

  async untilHeard(pattern: RegExp, milliseconds = 60_000): Promise<string> {
    for (const deadline = Date.now() + milliseconds; !pattern.test(this.heard); await sleep(10)) {
      if (Date.now() > deadline || this.isClosed) throw new Error(`heard ${JSON.stringify(this.heard.slice(0, 300))}`);
    }
    return this.heard;
  }
}

/** Somebody with an honest request, who will not wait for long. */
async function isServed(listener: (typeof HTTP)[number]): Promise<boolean> {
  const answer = await fetch(`${stack.addresses[listener]}/healthz`, { signal: AbortSignal.timeout(30_000) });
  await answer.arrayBuffer();
  return answer.status < 500;
}

// Each of these waits for a time-out: they wait together.
describe.concurrent("patience", () => {
  /** Headers in drips, a body in drips, and what every server must do about it: hang up, and serve the others meanwhile. */
  it.each(HTTP)("%s hangs up on slow senders, and serves others meanwhile", async (listener) => {
    const address = stack.addresses[listener];
    const slow = Array.from({ length: 40 }, () => new Stranger(address));
    for (const [index, stranger] of slow.entries()) {
      const drip = setInterval(() => stranger.say(index % 2 === 0 ? `X-Slow: ${Date.now()}\r\n` : "x"), 2_000);
      stranger.closed.then(() => clearInterval(drip));
      stranger.say(
        index % 2 === 0
          ? "GET / HTTP/1.1\r\nHost: x\r\n"
          : "POST /v1/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
      );
    }
    expect(await isServed(listener)).toBe(true);
    // Half a minute for the head; a body may take longer, as long as its service has asked for it.
    const heads = await Promise.all(
      slow.filter((_, index) => index % 2 === 0).map((stranger) => stranger.isLeftWithin(200_000)),
    );
    expect(new Set(heads)).toEqual(new Set([true]));
    for (const stranger of slow) stranger.socket.destroy();
    expect(await isServed(listener)).toBe(true);
  });

  it.each(SMTP)("%s hangs up on a command that comes octet by octet", async (listener) => {
    const stranger = new Stranger(stack.addresses[listener]);
    await stranger.untilHeard(/^220 /);
    const drip = setInterval(() => stranger.say("N"), 3_000);
    stranger.closed.then(() => clearInterval(drip));
    expect(await stranger.isLeftWithin(200_000)).toBe(true);
    expect(stranger.heard).toMatch(/\r\n421 4\.4\.2 /);
  });

  it("a handshake that is never finished is ended", async () => {
    const secure = [stack.addresses.submissions, dnsTls, dnsHttps];
    const strangers = secure.map((address) => new Stranger(address));
    for (const stranger of strangers) stranger.say(Buffer.from([0x16, 0x03, 0x01]));
    const areLeft = await Promise.all(strangers.map((stranger) => stranger.isLeftWithin(200_000)));
    expect(areLeft).toEqual([true, true, true]);
  });

  it("DNS over TCP hangs up on who sends half a query, caps what one client holds, and answers UDP all the time", async () => {
    const held = Array.from({ length: 130 }, () => new Stranger(stack.addresses.dns));
    for (const stranger of held) stranger.say(Buffer.from([0xff, 0xff, 0x00]));
    const turnedAway = () => held.filter(({ isClosed }) => isClosed).length;
    await eventually(
      async () => turnedAway(),
      (count) => count > 0,
    );
    expect(turnedAway()).toBeLessThan(held.length);
    expect(rcodeOf(await askDns(stack.addresses.dns, "nobody.test", "A"))).toBe("REFUSED");
    const drip = setInterval(() => {
      for (const stranger of held) stranger.say(Buffer.from([0]));
    }, 1_000);
    expect(new Set(await Promise.all(held.map((stranger) => stranger.isLeftWithin(200_000))))).toEqual(new Set([true]));
    clearInterval(drip);
    expect(rcodeOf(await askDns(stack.addresses.dns, "nobody.test", "A", "tcp"))).toBe("REFUSED");
  });
});

it.each(HTTP)("%s refuses oversized heads and bodies, and survives a flood of connections", async (listener) => {
  const address = stack.addresses[listener];
  const head = new Stranger(address);
  head.say(`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${"x".repeat(200_000)}\r\n\r\n`);
  expect(await head.untilHeard(/^HTTP\/1\.1 4\d\d/)).toMatch(/^HTTP\/1\.1 431/);
  head.socket.destroy();

  const body = new Stranger(address);
  body.say("POST /v1/contacto/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const chunk = `${(65_536).toString(16)}\r\n${"x".repeat(65_536)}\r\n`;
  for (let sent = 0; sent < 400 && !body.isClosed && body.heard === ""; sent += 1) {
    body.say(chunk);
    await sleep(1);
  }
  // Whatever it says, it does not take 25 MiB in silence.
  await body.untilHeard(/^HTTP\/1\.1 4\d\d/).catch(() => expect(body.isClosed).toBe(true));
  body.socket.destroy();

  const flood = Array.from({ length: 600 }, () => new Stranger(address));
  for (const stranger of flood) stranger.say("GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  await Promise.all(flood.map((stranger) => Promise.race([stranger.closed, sleep(60_000)])));
  expect(flood.filter(({ heard }) => /^HTTP\/1\.1 [45]/.test(heard)).length).toBeGreaterThan(0);
  for (const stranger of flood) stranger.socket.destroy();
  expect(await isServed(listener)).toBe(true);
});

describe.each(SMTP)("%s", (listener) => {
  const dial = async () => {
    const stranger = new Stranger(stack.addresses[listener]);
    await stranger.untilHeard(/^220 .*\r\n/);
    return stranger;
  };

  it("takes no command line without an end, and no more nonsense than it has patience for", async () => {
    const endless = await dial();
    for (let sent = 0; sent < 40 && !endless.isClosed; sent += 1) {
      endless.say("X".repeat(10_000));
      await sleep(5);
    }
    await endless.untilHeard(/^5\d\d|\r\n(421|5\d\d)/m).catch(() => expect(endless.isClosed).toBe(true));
    endless.socket.destroy();
    const nonsense = await dial();
    for (let sent = 0; sent < 200 && !nonsense.isClosed; sent += 1) nonsense.say("NONSENSE\r\n");
    expect(await nonsense.isLeftWithin(60_000)).toBe(true);
  });

  it("hangs up on who does nothing, again and again", async () => {
    const idle = await dial();
    idle.say("EHLO stranger.example.net\r\n");
    for (let sent = 0; sent < 200 && !idle.isClosed; sent += 1) idle.say("NOOP\r\n");
    expect(await idle.isLeftWithin(60_000)).toBe(true);
    expect(idle.heard).toMatch(/\r\n421 4\.7\.0 /);
  });

  it("refuses a message that is larger than it takes before it is sent", async () => {
    const stranger = await dial();
    stranger.say("EHLO stranger.example.net\r\n");
    const offers = await stranger.untilHeard(/\r\n250 .*\r\n/);
    expect(offers).toMatch(/250[- ]SIZE 1048576/);
    stranger.say("MAIL FROM:<a@example.net> SIZE=99999999\r\n");
    expect(await stranger.untilHeard(/\r\n(5[35]\d) /)).toMatch(/\r\n(552|530|550) /);
    stranger.socket.destroy();
  });

  it("limits what one client may hold open, and serves again when that is gone", async () => {
    const held = Array.from({ length: 150 }, () => new Stranger(stack.addresses[listener]));
    await eventually(
      async () => held.filter(({ heard, isClosed }) => isClosed || heard.startsWith("421")).length,
      (refused) => refused > 0,
    );
    for (const stranger of held) stranger.socket.destroy();
    const served = await eventually(
      () => dial().catch(() => undefined),
      (stranger) => stranger !== undefined,
    );
    served?.socket.destroy();
  });
});

it("submission takes no credentials in the clear", async () => {
  const stranger = new Stranger(stack.addresses.submission);
  await stranger.untilHeard(/^220 /);
  stranger.say("EHLO stranger.example.net\r\n");
  expect(await stranger.untilHeard(/\r\n250 .*\r\n/)).not.toMatch(/AUTH/);
  stranger.say("AUTH PLAIN AGFiYwBhYmM=\r\n");
  expect(await stranger.untilHeard(/\r\n5\d\d /)).toMatch(/\r\n(538|530|502|503|500) /);
  stranger.socket.destroy();
});

it("what a client sends before STARTTLS is forgotten with it", async () => {
  const stranger = new Stranger(stack.addresses.submission);
  await stranger.untilHeard(/^220 /);
  stranger.say("EHLO stranger.example.net\r\n");
  await stranger.untilHeard(/\r\n250 .*\r\n/);
  // In one segment, as one would inject it: what follows belongs to nobody (CVE-2011-0411).
  stranger.say("STARTTLS\r\nRSET\r\n");
  await stranger.untilHeard(/\r\n220 /);
  const secured = connectTls({ socket: stranger.socket, rejectUnauthorized: false });
  secured.on("error", () => {});
  const answers: string[] = [];
  secured.on("data", (chunk) => answers.push(chunk.toString()));
  secured.write("QUIT\r\n");
  await once(secured, "close");
  expect(answers.join("")).toMatch(/^221 [^\r]*\r\n$/);
});

describe("TLS", () => {
  const listeners = () => [stack.addresses.submissions, dnsTls, dnsHttps];

  const handshake = (
    address: string,
    version: "TLSv1" | "TLSv1.1" | "TLSv1.2" | "TLSv1.3",
    ciphers = "DEFAULT@SECLEVEL=0",
  ) =>
    new Promise<string>((resolve) => {
      const socket = connectTls({
        ...hostPort(address),
        minVersion: version,
        maxVersion: version,
        ciphers,
        rejectUnauthorized: false,
      });
      socket.once("secureConnect", () => {
        resolve(String(socket.getProtocol()));
        socket.destroy();
      });
      socket.once("error", (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    });

  it.each(["TLSv1", "TLSv1.1"] as const)("no listener goes down to %s", async (version) => {
    for (const address of listeners())
      expect(await handshake(address, version)).toMatch(/PROTOCOL_VERSION|ECONNRESET|UNSUPPORTED/);
  });

  it.each(["TLSv1.2", "TLSv1.3"] as const)("every listener speaks %s", async (version) => {
    for (const address of listeners()) expect(await handshake(address, version)).toBe(version);
  });

  it.each(["NULL@SECLEVEL=0", "aNULL@SECLEVEL=0", "AES128-SHA@SECLEVEL=0"])(
    "no listener agrees to %s",
    async (ciphers) => {
      for (const address of listeners())
        expect(await handshake(address, "TLSv1.2", ciphers)).toMatch(/ERR_SSL|ECONNRESET/);
    },
  );

  it("no listener shakes hands again on a connection", async () => {
    for (const address of listeners()) {
      const socket = connectTls({ ...hostPort(address), maxVersion: "TLSv1.2", rejectUnauthorized: false });
      await once(socket, "secureConnect");
      const outcome = await new Promise<string>((resolve) => {
        socket.once("error", ({ code }: NodeJS.ErrnoException) => resolve(String(code)));
        socket.renegotiate({ rejectUnauthorized: false }, (error) =>
          resolve(String((error as { code?: string })?.code)),
        );
      });
      socket.destroy();
      expect(outcome).toMatch(/NO_RENEGOTIATION/);
    }
  });
});

it("after all of it every service is ready, and none was started again", async () => {
  const answer = await eventually(
    async () => (await fetch(`${stack.addresses.metrics}/readyz`)).json() as Promise<{ status: string }>,
    ({ status }) => status === "ok",
  );
  expect(answer).toMatchObject({ problems: [], left_out: [] });
  expect(stack.printed()).not.toContain("a service ended");
});

it("a signal to the whole process group is a stop, and no failure of a service", async () => {
  process.kill(-stack.process.pid!, "SIGTERM");
  await ended(stack.process);
  expect(stack.printed()).not.toContain("a service ended");
});
