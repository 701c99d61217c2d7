import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startWith } from "../../services/bounce/main.ts";
import { MxSession } from "../../services/bounce/mx-session.ts";
import { type InboundPolicy, loadInboundPolicy } from "../../services/bounce/policy.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeBounceToken, makeReportLocalPart, makeReportToken } from "../../services/core/mail/tokens.ts";
import { makeDeliveryToken } from "../../services/core/mail/tracking-tokens.ts";
import { measure, registry } from "../../services/platform/observability/metrics.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { SmtpSession } from "../../services/platform/smtp/handlers.ts";
import { leaseInboundMessages, measureWaiting } from "../../services/store/mail/inbound/inbound.ts";
import { listUnexplained, trimInboundMessages } from "../../services/store/mail/inbound/inbound-retention.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const MIB = 2 ** 20;
/** Small enough to be reached within a test; the shape is that of config/inbound.json. */
const POLICY: InboundPolicy = {
  windowSeconds: 600,
  returnPath: {
    ...{ keptOctetsOfMessage: MIB, messagesPerSource: 1_000, messagesAltogether: 5_000 },
    perDelivery: { messages: 5, octets: 4 * MIB },
    waiting: { messages: 40, octets: 64 * MIB },
    kept: { messages: 20, octets: 16 * MIB },
  },
  feedback: {
    ...{ keptOctetsOfMessage: MIB, messagesPerSource: 300, messagesAltogether: 900 },
    perDelivery: { messages: 3, octets: 2 * MIB },
    waiting: { messages: 10, octets: 2 * MIB },
    kept: { messages: 10, octets: 4 * MIB },
  },
  report: {
    ...{ keptOctetsOfMessage: MIB, messagesPerSource: 300, messagesAltogether: 900 },
    perDelivery: { messages: 3, octets: 2 * MIB },
    waiting: { messages: 10, octets: 2 * MIB },
    kept: { messages: 10, octets: 4 * MIB },
  },
  unexplained: { messages: 8, octetsOfMessage: 2_048, messagesPerHour: 30 },
};
/** While strangers do their worst, a valid bounce is understood within this. */
const UNDERSTOOD_MS = 5_000;

const dataDir = makeDataDir();
let stack: MailStack;
let mx: string;
let campaign: number;

beforeAll(async () => {
  const services = [MAIL_SERVICES.api];
  stack = await startMailStack(services, { PALOMAR_DATA_DIR: dataDir, PALOMAR_LIMIT_LOOPBACK: "true" });
  campaign = await stack.addCampaign();
  const { observe } = stack.context;
  Object.assign(stack.context, {
    observe: (observation: Observation) => {
      observe(observation);
      measure(observation, "bounce");
    },
  });
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
  expect(stack.failures).toEqual([]);
});

const db = () => stack.context.db;
const FBL = "fbl@bounces.localhost";
const tokenFor = (deliveryId: number) =>
  makeBounceToken(stack.context.keyRing, { deliveryId, expiresAt: new Date(Date.now() + 864e5) });
const returnPath = (deliveryId: number) => `${tokenFor(deliveryId)}@bounces.localhost`;
const reportAddress = () => {
  const token = makeReportToken(stack.context.keyRing, { instanceId: 1, domain: "sender.example.org" });
  return `${makeReportLocalPart("dmarc", token)}@bounces.localhost`;
};

async function accept(email: string): Promise<number> {
  const contacto = { email };
  const sending = { campana_id: campaign, email: true, contacto, html: "<p>Hello</p>" };
  expect((await stack.call("POST", "/envio/send_one_inline/", sending)).body.sent).toBe(1);
  return (await db()("deliveries").where({ recipient: email }).first("id")).id;
}

const eventsOf = async (email: string): Promise<string[]> =>
  (await stack.call("GET", `/contacto/${email}`)).body.contacto.eventos.map(({ evento }: { evento: string }) => evento);

function report(kind: string, machine: string, original: string): Buffer {
  const text = `From: mailer-daemon@mta.example.net
Subject: A report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=${kind}; boundary=cut

--cut
Content-Type: message/${kind}

${machine}

--cut
Content-Type: message/rfc822

${original}
--cut--
`;
  return Buffer.from(text.replaceAll("\n", "\r\n"));
}
const bounceOf = (email: string, original = "Subject: Hello\n\nHello") =>
  report("delivery-status", `Final-Recipient: rfc822; ${email}\nAction: failed\nStatus: 5.1.1`, original);
const complaintOf = (fields: string, header: string, body = "Hello") =>
  report("feedback-report", `Feedback-Type: abuse\nUser-Agent: x/1\nVersion: 1\n${fields}`, `${header}\n\n${body}`);
const STRANGE = complaintOf("Original-Rcpt-To: <someone@example.net>", "Subject: Hello");

/** As much work as fits into a report. */
const COSTLY = complaintOf(
  "",
  `Content-Type: multipart/mixed; boundary=z\n\n${`--z\n${`X: ${"=?utf-8?Q?=41=41=41?= ".repeat(4)}\n`.repeat(45)}\n`.repeat(190)}`,
);

/** The MX session as a process that has just started has it; nobody understands what it stores. */
const freshSession = () => new MxSession(stack.context, () => {}, POLICY);
const sessionOf = (clientAddress: string, rcptTo: readonly string[] = []): SmtpSession<never> => ({
  ...{ id: "a", clientAddress, helloName: "mta.example.net", secure: false, protocol: "ESMTP", user: undefined },
  ...{ mailFrom: "", rcptTo, smtpUtf8: false },
});

/** A client that is not in the way of what it attacks. */
class Stranger {
  readonly socket: Socket;
  heard = "";

  constructor(localAddress = "127.0.0.1") {
    const [host, port] = mx.split(":") as [string, string];
    this.socket = connect({ host, port: Number(port), localAddress });
    this.socket.setMaxListeners(0);
    this.socket.on("error", () => {});
    this.socket.on("data", (chunk) => {
      this.heard += chunk.toString("latin1");
    });
  }

  /** Says a line. @returns its reply, or undefined when the connection is over */
  async say(line: string | Buffer): Promise<string | undefined> {
    const before = this.#replies().length;
    this.socket.write(line);
    return this.reply(before);
  }

  async reply(before: number): Promise<string | undefined> {
    for (let waitedMs = 0; waitedMs < 20_000; waitedMs += 5) {
      const reply = this.#replies()[before];
      if (reply !== undefined || this.socket.destroyed) return reply;
      await sleep(5);
    }
    throw new Error(`no reply after ${JSON.stringify(this.heard)}`);
  }

  async open(mailParameters = "", ...rcptTo: string[]): Promise<(string | undefined)[]> {
    await this.reply(0);
    await this.say("EHLO stranger.example.net\r\n");
    await this.say(`MAIL FROM:<>${mailParameters}\r\n`);
    const replies = [];
    for (const recipient of rcptTo) replies.push(await this.say(`RCPT TO:<${recipient}>\r\n`));
    return replies;
  }

  async send(rcptTo: string, octets: Buffer): Promise<string | undefined> {
    const refused = [await this.say("MAIL FROM:<>\r\n"), await this.say(`RCPT TO:<${rcptTo}>\r\n`)].at(-1);
    if (!refused?.startsWith("250")) {
      await this.say("RSET\r\n");
      return refused;
    }
    await this.say("DATA\r\n");
    return this.say(Buffer.concat([octets, Buffer.from("\r\n.\r\n")]));
  }

  /** Sends until it is told to stop. @returns how many octets the other side let it send */
  async pour(octets: number): Promise<number> {
    const line = Buffer.alloc(64 * 1024, `${"x".repeat(70)}\r\n`);
    for (let sent = 0; sent < octets; sent += line.length) {
      if (this.socket.destroyed || this.heard.includes("552 ")) return sent;
      if (!this.socket.write(line)) {
        await Promise.race([
          new Promise((drained) => this.socket.once("drain", drained)),
          new Promise((closed) => this.socket.once("close", closed)),
        ]);
      }
    }
    return octets;
  }

  #replies(): string[] {
    return this.heard.match(/^\d{3} .*$/gm) ?? [];
  }
}

describe("config/inbound.json", () => {
  test("has room for a large provider's feedback loop, and 1 MiB for each report", () => {
    const policy = loadInboundPolicy();
    expect(policy.feedback.keptOctetsOfMessage).toBe(MIB);
    const perHour = (messages: number) => (messages * 3_600) / policy.windowSeconds;
    expect(perHour(policy.feedback.messagesPerSource)).toBeGreaterThanOrEqual(10_000);
    expect(perHour(policy.returnPath.messagesPerSource)).toBeGreaterThanOrEqual(100_000);
  });
});

describe("with nobody at work", () => {
  test("one source has its share, an IPv6 /64 is one, and all together have theirs", async () => {
    const mxSession = freshSession();
    const flood = async (address: (n: number) => string, messages: number) => {
      const replies: (string | number)[] = [];
      for (let n = 0; n < messages; n++) {
        const refusal = await mxSession.rcptTo(FBL, sessionOf(address(n)));
        replies.push(refusal === undefined ? 250 : `${refusal.code} ${refusal.enhancedStatus}`);
      }
      return { taken: replies.filter((reply) => reply === 250).length, last: replies.at(-1) };
    };
    expect(await flood(() => "192.0.2.1", 400)).toEqual({ taken: 300, last: "451 4.7.0" });
    expect(await flood((n) => `2001:db8:0:1::${n.toString(16)}`, 400)).toEqual({ taken: 300, last: "451 4.7.0" });
    expect(await flood((n) => `2001:db8:1:${n.toString(16)}::1`, 2_000)).toEqual({ taken: 300, last: "451 4.7.0" });
    // Complaints have been too many; bounces have a budget of their own.
    expect(await mxSession.rcptTo(returnPath(1), sessionOf("192.0.2.1"))).toBeUndefined();
  });

  test("who brought reports about our mail before is not held up by strangers", async () => {
    const mxSession = freshSession();
    const complaint = complaintOf("", `X-Delivery-Token: ${tokenFor(await accept("provider@example.net"))}`);
    expect((await mxSession.message(complaint, sessionOf("192.0.2.77", [FBL]))).code).toBe(250);
    expect((await mxSession.message(STRANGE, sessionOf("192.0.2.78", [FBL]))).code).toBe(250);
    for (let n = 0; n < 900; n++) await mxSession.rcptTo(FBL, sessionOf(`2001:db8:2:${n.toString(16)}::1`));
    expect(await mxSession.rcptTo(FBL, sessionOf("192.0.2.78"))).toMatchObject({ code: 451, enhancedStatus: "4.7.0" });
    for (let n = 0; n < 300; n++) expect(await mxSession.rcptTo(FBL, sessionOf("192.0.2.77"))).toBeUndefined();
    expect(await mxSession.rcptTo(FBL, sessionOf("192.0.2.77"))).toMatchObject({ code: 451, enhancedStatus: "4.7.0" });
    await db()("inbound_messages").delete();
  });

  test("who sends much that takes long to read has four places, and holds up neither others nor who is proven", async () => {
    const mxSession = freshSession();
    const answered: string[] = [];
    const send = async (octets: Buffer, client: string) => {
      const { code, enhancedStatus = "" } = await mxSession.message(octets, sessionOf(client, [FBL]));
      if (code === 250) answered.push(client);
      return `${code} ${enhancedStatus}`.trim();
    };
    const many = (client: string) => Promise.all(Array.from({ length: 10 }, () => send(COSTLY, client)));
    const provider = "192.0.2.200";
    const complaint = complaintOf("", `X-Delivery-Token: ${tokenFor(await accept("in-turn@example.net"))}`);
    expect(await send(complaint, provider)).toBe("250");
    const flood = Promise.all(["1", "2", "3", "4", "5", "6", "7", "8"].map((n) => many(`192.0.2.${n}`)));
    await eventually(
      async () => answered.length,
      (taken) => taken > 1,
    );
    const before = answered.length;
    const [elsewhere, neighbour] = ["198.51.100.1", "192.0.2.99"];
    const honest = [elsewhere, neighbour].map((client) =>
      send(Buffer.from("Subject: Hello\r\n\r\nHello.\r\n"), client),
    );
    const proven = many(provider);
    expect(await Promise.all(honest)).toEqual(["250", "250"]);
    const others = (client: string) => answered.slice(before, answered.indexOf(client)).length;
    expect(others(elsewhere)).toBeLessThanOrEqual(4);
    // One of each source in its network, with which the provider and who is elsewhere take turns.
    expect(others(neighbour)).toBeLessThanOrEqual(22);
    expect(await proven).toEqual(Array(10).fill("250"));
    const share = [...Array(4).fill("250"), ...Array(6).fill("452 4.3.1")];
    expect(await flood).toEqual(Array(8).fill(share));
    await db()("inbound_messages").delete();
  });

  test("who is proven waits for one message of strangers at a time, however many networks they write from", async () => {
    const mxSession = freshSession();
    const send = (octets: Buffer, client: string) => mxSession.message(octets, sessionOf(client, [FBL]));
    const provider = "192.0.2.200";
    const complaint = complaintOf("", `X-Delivery-Token: ${tokenFor(await accept("proven@example.net"))}`);
    expect((await send(complaint, provider)).code).toBe(250);
    let answered = 0;
    const networks = Array.from({ length: 10 }, (_, network) => `198.51.${network}.1`);
    const flood = networks.flatMap((client) =>
      [COSTLY, COSTLY].map((octets) => send(octets, client).then(() => ++answered)),
    );
    await eventually(
      async () => answered,
      (taken) => taken > 0,
    );
    const before = answered;
    for (let count = 0; count < 3; count += 1) expect((await send(complaint, provider)).code).toBe(250);
    expect(answered - before).toBeLessThanOrEqual(4);
    await Promise.all(flood);
    await db()("inbound_messages").delete();
  });

  test("what cannot be tied to a message of ours is counted and not kept, but for a sample", async () => {
    const mxSession = freshSession();
    const bigger = Buffer.concat([STRANGE, Buffer.alloc(100_000, "x\r\n")]);
    const sizeBefore = await tableOctets();
    for (let n = 0; n < 500; n++) {
      const reply = await mxSession.message(
        n % 2 ? bigger : Buffer.from("Subject: buy\r\n\r\n"),
        sessionOf("192.0.2.1", [FBL]),
      );
      expect(reply.code).toBe(250);
    }
    const kept = await listUnexplained(db());
    expect(kept).toHaveLength(POLICY.unexplained.messages);
    expect(new Set(kept.map(({ reason }) => reason))).toEqual(new Set(["not-ours", "not-a-complaint"]));
    expect(Math.max(...kept.map(({ octets }) => octets.length))).toBe(POLICY.unexplained.octetsOfMessage);
    expect(await db()("inbound_messages").whereNull("unexplained")).toEqual([]);
    expect((await tableOctets()) - sizeBefore).toBeLessThan(MIB);
  });

  test("what waits has an end, after a restart as well; complaints do not use up the room of bounces", async () => {
    const deliveries = [];
    for (let n = 0; n < 14; n++) deliveries.push(await accept(`waits-${n}@example.net`));
    const replies = [];
    for (const id of deliveries) {
      const complaint = complaintOf("", `X-Delivery-Token: ${tokenFor(id)}`);
      replies.push((await freshSession().message(complaint, sessionOf("127.0.0.1", [FBL]))).code);
    }
    expect(replies).toEqual([...Array(10).fill(250), ...Array(4).fill(452)]);
    expect(await freshSession().rcptTo(FBL, sessionOf("127.0.0.1"))).toMatchObject({
      code: 452,
      enhancedStatus: "4.3.1",
    });
    expect((await measureWaiting(db())).feedback.messages).toBe(10);
    const path = returnPath(deliveries[0]!);
    expect(await freshSession().rcptTo(path, sessionOf("192.0.2.9"))).toBeUndefined();
    const bounce = bounceOf("waits-0@example.net");
    expect((await freshSession().message(bounce, sessionOf("192.0.2.9", [path]))).code).toBe(250);
    // Bounces first, though they came last.
    const leased = await leaseInboundMessages(db(), {
      owner: crypto.randomUUID(),
      seconds: 0,
      limit: 4,
      reports: false,
    });
    expect(leased.map(({ deliveryId }) => deliveryId !== null)).toEqual([true, false, false, false]);
  });

  test("what a worker could not give back, it takes again at once, and nobody else does before its lease ends", async () => {
    const path = returnPath(await accept("held@example.net"));
    await freshSession().message(bounceOf("held@example.net"), sessionOf("192.0.2.10", [path]));
    const lease = async (owner: string) =>
      new Map(
        (await leaseInboundMessages(db(), { owner, seconds: 60, limit: 50, reports: false })).map(
          ({ id, attempts }) => [id, attempts],
        ),
      );
    const [one, another] = [crypto.randomUUID(), crypto.randomUUID()];
    const held = await lease(one);
    expect(held.size).toBeGreaterThan(0);
    expect((await lease(another)).size).toBe(0);
    // The database's fault is no attempt.
    expect(await lease(one)).toEqual(held);
  });

  test("a valid token is good for a few reports, whatever process takes them", async () => {
    const id = await accept("often@example.net");
    const path = returnPath(id);
    for (let n = 0; n < 12; n++) {
      const session = sessionOf("192.0.2.1", [path]);
      expect((await freshSession().message(bounceOf("often@example.net"), session)).code).toBe(250);
    }
    expect(await db()("inbound_messages").where({ delivery_id: id })).toHaveLength(5);
  });
});

describe("the listener", () => {
  beforeAll(async () => {
    await db()("inbound_messages").delete();
    mx = (await stack.run(startWith(POLICY))).addresses.mx!;
  });

  describe("a redacted complaint", () => {
    const complain = async (octets: Buffer) => {
      const stranger = new Stranger("127.0.7.7");
      await stranger.open();
      await stranger.say("RSET\r\n");
      expect(await stranger.send(FBL, octets)).toMatch(/^250 /);
      stranger.socket.destroy();
    };
    test.each([
      [
        "the envelope's sender in the report",
        (id: number) => complaintOf(`Original-Mail-From: <${returnPath(id)}>`, "X: y"),
      ],
      ["a field of the header", (id: number) => complaintOf("", `X-Envelope: from=<${returnPath(id)}>`)],
    ])("counts by %s", async (name, compose) => {
      const email = `${name.replaceAll(/\W/g, "-")}@example.net`;
      await complain(compose(await accept(email)));
      const events = await eventually(
        () => eventsOf(email),
        (found) => found.includes("queja"),
      );
      expect(events).toContain("invalidacion");
    });

    test("unsubscribes where only the unsubscribe URL is left, as that is what the URL allows", async () => {
      const email = "url@example.net";
      const token = makeDeliveryToken(stack.context.keyRing, "unsubscribe", await accept(email));
      await complain(complaintOf("", `List-Unsubscribe: <https://track.example.org/u/${token}>`));
      const events = await eventually(
        () => eventsOf(email),
        (found) => found.includes("desuscripcion"),
      );
      expect(events).not.toContain("queja");
      expect(events).not.toContain("invalidacion");
    });

    test("with a token of another deployment changes nothing, and is in the sample", async () => {
      const email = "forged@example.net";
      const deliveryId = await accept(email);
      const forged = makeBounceToken(KeyRing.ofSecret("another secret"), {
        deliveryId,
        expiresAt: new Date(Date.now() + 864e5),
      });
      await complain(complaintOf(`Original-Mail-From: <${forged}@bounces.localhost>`, `X-Delivery-Token: ${forged}`));
      const [newest] = await listUnexplained(db());
      expect(newest).toMatchObject({ reason: "not-ours", feedbackAddress: FBL });
      expect(newest!.octets.toString()).toContain(forged);
      expect(await eventsOf(email)).toEqual(["envio"]);
    });
  });

  test("says 50 MiB, and refuses a report address what is declared to be larger than reports are", async () => {
    const stranger = new Stranger();
    const email = "size@example.net";
    const path = returnPath(await accept(email));
    const [toReports, ...toOthers] = await stranger.open(` SIZE=${40 * MIB}`, reportAddress(), FBL, path);
    expect(stranger.heard).toContain(`SIZE ${50 * MIB}\r\n`);
    expect(toReports).toMatch(/^552 5\.3\.4 /);
    expect(toOthers).toEqual([expect.stringMatching(/^250 /), expect.stringMatching(/^250 /)]);
    expect(await stranger.say("RSET\r\n")).toMatch(/^250/);
    expect(await stranger.say(`MAIL FROM:<> SIZE=${51 * MIB}\r\n`)).toMatch(/^552 5\.3\.4 /);
    stranger.socket.destroy();
  });

  test("stops listening to 40 MB at a report address, twenty times at once, in bounded memory", async () => {
    const { poured, grownBy } = await pourTwentyTimes(reportAddress());
    // Four times the limit, and what the sockets hold.
    expect(Math.max(...poured)).toBeLessThan(16 * MIB);
    expect(grownBy).toBeLessThan(200 * MIB);
    expect((await measureWaiting(db())).report.messages).toBe(0);
    expect(await registry.metrics()).toMatch(/palomar_inbound_refused_total\{class="report",reason="size"\} \d{2}/);
  });

  test("reads 40 MB at a feedback address, twenty times at once, in bounded memory", async () => {
    const { poured, grownBy } = await pourTwentyTimes(FBL);
    expect(Math.min(...poured)).toBe(40 * MIB);
    expect(grownBy).toBeLessThan(200 * MIB);
  });

  /** @returns how much each got rid of, and what the process grew by */
  async function pourTwentyTimes(rcptTo: string): Promise<{ poured: number[]; grownBy: number }> {
    const before = process.memoryUsage().rss;
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 20);
    const poured = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const stranger = new Stranger();
        await stranger.open("", rcptTo);
        await stranger.say("DATA\r\n");
        const sent = await stranger.pour(40 * MIB);
        if (sent === 40 * MIB) stranger.socket.write("\r\n.\r\n");
        await eventually(
          async () => stranger.heard,
          (heard) => /^(?:552 5\.3\.4|452 4\.3\.1|250 .*stored)/m.test(heard) || stranger.socket.destroyed,
        );
        stranger.socket.destroy();
        return sent;
      }),
    );
    clearInterval(watch);
    return { poured, grownBy: most - before };
  }

  test.each([
    ["a report address", () => [reportAddress()]],
    ["one beside others: the smallest limit holds", () => [returnPath(900_001), reportAddress(), FBL]],
  ])("refuses 3 MiB at the end of the message to %s, and goes on", async (_, recipients) => {
    const stranger = new Stranger();
    await stranger.open("", ...recipients());
    await stranger.say("DATA\r\n");
    await stranger.pour(3 * MIB);
    expect(await stranger.say("\r\n.\r\n")).toMatch(/^552 5\.3\.4 /);
    expect(await stranger.say("NOOP\r\n")).toMatch(/^250 /);
    stranger.socket.destroy();
  });

  const LARGE = `${"0123456789".repeat(7)}\n`.padEnd(12 * MIB, "y\n");
  test.each([
    {
      what: "a bounce",
      ...{ event: "rebote_hard", column: "delivery_id", rcptTo: (id: number) => returnPath(id) },
      compose: (_id: number, email: string) => bounceOf(email, `Subject: Hello\n\n${LARGE}`),
    },
    {
      what: "a complaint",
      ...{ event: "queja", column: "about_delivery_id", rcptTo: () => FBL },
      compose: (id: number) => complaintOf("", `X-Delivery-Token: ${tokenFor(id)}`, LARGE),
    },
  ])("understands $what that brings a whole large message back, and keeps the first of it", async (one) => {
    const email = `large-${one.event}@example.net`;
    const id = await accept(email);
    const stranger = new Stranger();
    await stranger.open();
    await stranger.say("RSET\r\n");
    expect(await stranger.send(one.rcptTo(id), one.compose(id, email))).toMatch(/^250 /);
    stranger.socket.destroy();
    await eventually(
      () => eventsOf(email),
      (events) => events.includes(one.event),
    );
    const { octets } = await db()("inbound_messages").where(one.column, id).first("octets");
    expect(octets.length).toBe(MIB);
  });

  test("valid bounces are understood while strangers do their worst, and the database stays small", async () => {
    const sizeBefore = await tableOctets();
    const floodEndsAt = performance.now() + 12_000;
    let sent = 0;
    const flood = async (localAddress: string, isCostly: boolean) => {
      const stranger = new Stranger(localAddress);
      await stranger.open();
      await stranger.say("RSET\r\n");
      while (performance.now() < floodEndsAt && !stranger.socket.destroyed) {
        await stranger.send(FBL, isCostly ? COSTLY : STRANGE);
        sent += 1;
      }
      stranger.socket.destroy();
    };
    const flooding = Promise.all(Array.from({ length: 12 }, (_, n) => flood(`127.0.1.${n + 1}`, n < 3)));
    let slowestMs = 0;
    const mta = new Stranger("127.0.9.9");
    await mta.open();
    await mta.say("RSET\r\n");
    for (let n = 0; performance.now() < floodEndsAt - 1_000; n++) {
      const email = `meanwhile-${n}@example.net`;
      const id = await accept(email);
      const from = performance.now();
      expect(await mta.send(returnPath(id), bounceOf(email))).toMatch(/^250 /);
      await eventually(
        () => eventsOf(email),
        (events) => events.includes("rebote_hard"),
      );
      slowestMs = Math.max(slowestMs, performance.now() - from);
    }
    mta.socket.destroy();
    await flooding;
    expect(slowestMs).toBeLessThan(UNDERSTOOD_MS);
    expect(sent).toBeGreaterThan(0);
    expect((await tableOctets()) - sizeBefore).toBeLessThan(4 * MIB);
    expect((await listUnexplained(db())).length).toBeLessThanOrEqual(POLICY.unexplained.messages);
  });

  test("what is understood is kept while there is room, the newest of each class", async () => {
    for (const recipientClass of ["returnPath", "feedback"] as const) {
      const isFeedback = recipientClass === "feedback";
      const kept = { messages: 3, octets: 16 * MIB };
      await trimInboundMessages(db(), { recipientClass, kept });
      const left = db()("inbound_messages").whereNull("unexplained").where({ state: "applied" });
      const ids = await (isFeedback ? left.whereNull("delivery_id") : left.whereNotNull("delivery_id")).pluck("id");
      expect(ids.length).toBeLessThanOrEqual(3);
    }
    await trimInboundMessages(db(), { recipientClass: "returnPath", kept: { messages: 3, octets: 1 } });
    expect(await db()("inbound_messages").whereNull("unexplained").whereNotNull("delivery_id")).toEqual([]);
  });
});

/** Of the rows that are there, with what lies beside the table: what vacuum gives back to others is not counted. */
async function tableOctets(): Promise<number> {
  const { rows } = await db().raw("select coalesce(sum(length(octets)), 0)::float8 as octets from inbound_messages");
  return rows[0].octets;
}
