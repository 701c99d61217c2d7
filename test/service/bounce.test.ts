import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { makeBounceToken } from "../../services/core/mail/tokens.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { playDialogue, readDialogue } from "../support/smtp-dialogue.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const dataDir = makeDataDir();
let stack: MailStack;
let mx: string;
let campaign: number;

beforeAll(async () => {
  stack = await startMailStack(Object.values(MAIL_SERVICES), {
    PALOMAR_DATA_DIR: dataDir,
  });
  mx = (await stack.run(startBounce)).addresses.mx!;
  campaign = await stack.addCampaign();
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

const DAY_MS = 86_400_000;
const tokenFor = (deliveryId: string, days = 30, secret = stack.context.secret) =>
  makeBounceToken(secret, { deliveryId, expiresAt: new Date(Date.now() + days * DAY_MS) });

/** Sends to a quiet mailbox and waits until it is there. @returns the return path's token, as the far side saw it */
async function deliver(email: string): Promise<string> {
  const before = (await stack.inbox(email)).length;
  const sent = await stack.call("POST", "/envio/send_one_inline/", {
    campana_id: campaign,
    email: true,
    contacto: { email },
    html: "<p>Hello</p>",
  });
  expect(sent.body.sent).toBe(1);
  const inbox = await eventually(
    () => stack.inbox(email),
    (found) => found.length > before,
  );
  return /^X-Delivery-Token: (\S+)/m.exec(inbox.at(-1)!.octets.toString("latin1"))![1]!;
}

async function sendBack(rcptTo: string, message: string): Promise<void> {
  const [host, port] = mx.split(":") as [string, string];
  const transport = createTransport({ host, port: Number(port), tls: { rejectUnauthorized: false } });
  await transport.sendMail({ envelope: { from: "", to: [rcptTo] }, raw: message.replaceAll(/\r?\n/g, "\r\n") });
  transport.close();
}

const eventsOf = async (email: string): Promise<string[]> =>
  (await stack.call("GET", `/contacto/${encodeURIComponent(email)}`)).body.contacto.eventos.map(
    ({ evento }: { evento: string }) => evento,
  );
const isInvalid = async (email: string): Promise<boolean> =>
  (await stack.call("GET", `/contacto/${encodeURIComponent(email)}`)).body.contacto.invalido;
const untilQuiet = () =>
  eventually(
    async () => (await stack.context.db("inbound_messages").whereIn("state", ["waiting", "leased"])).length,
    (left) => left === 0,
  );

function report(recipient: string, action: string, status: string, diagnostic: string): string {
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
Action: ${action}
Status: ${status}
Diagnostic-Code: smtp; ${diagnostic}

--cut--
`;
}

it("takes return paths with a valid token and feedback addresses, and nothing else", () =>
  playDialogue(mx, readDialogue("mx-refuses"), {
    expired: tokenFor("1", -2),
    foreign: tokenFor("1", 30, "another deployment's secret"),
    shouted: tokenFor("1").toUpperCase(),
  }));

describe("delivery reports", () => {
  const hardReport = (email: string) => report(email, "failed", "5.1.1", "550 5.1.1 User unknown");

  it("make a contact invalid after two hard bounces of different messages", async () => {
    const email = "dead@example.net";
    const first = await deliver(email);
    await sendBack(`${first}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote_hard"]);
    // The same message bouncing again is no second message.
    await sendBack(`${first.toUpperCase()}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote_hard"]);
    expect(await isInvalid(email)).toBe(false);
    const second = await deliver(email);
    await sendBack(`${second}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    expect(await isInvalid(email)).toBe(true);
    expect((await eventsOf(email)).sort()).toEqual(["envio", "envio", "invalidacion", "rebote_hard", "rebote_hard"]);
  });

  it("start the count anew after a revalidation", async () => {
    const email = "back@example.net";
    await sendBack(`${await deliver(email)}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    await stack.call("GET", `/revalidar/${email}`);
    await sendBack(`${await deliver(email)}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    expect(await isInvalid(email)).toBe(false);
  });

  it.each([
    ["a full mailbox", "failed", "5.2.2", "552 5.2.2 Mailbox full", ["envio", "rebote-soft"]],
    ["a block list", "failed", "5.7.1", "554 5.7.1 Client host blocked using a block list", ["envio", "rebote-soft"]],
    ["a delay", "delayed", "4.4.1", "connection timed out", ["envio"]],
    ["a success", "delivered", "2.0.0", "250 ok", ["envio"]],
  ])("tell %s", async (name, action, status, diagnostic, events) => {
    const email = `${name.replaceAll(" ", "-")}@example.net`;
    await sendBack(`${await deliver(email)}@bounces.localhost`, report(email, action, status, diagnostic));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(events);
    expect(await isInvalid(email)).toBe(false);
  });

  it("concern the token's contact, whatever address they name", async () => {
    const email = "forwards@example.net";
    const victim = "innocent@example.net";
    await deliver(victim);
    for (let message = 0; message < 2; message++) {
      await sendBack(`${await deliver(email)}@bounces.localhost`, hardReport(victim));
    }
    await untilQuiet();
    expect(await isInvalid(victim)).toBe(false);
    expect(await isInvalid(email)).toBe(true);
  });
});

describe("complaints", () => {
  it("come back through the feedback address and invalidate at once", async () => {
    stack.setAddress("mx", mx);
    const email = "complaint+1@example.net";
    await deliver(email);
    await eventually(
      () => isInvalid(email),
      (invalid) => invalid,
    );
    expect(await eventsOf(email)).toEqual(expect.arrayContaining(["envio", "queja", "invalidacion"]));
  });

  it("do not touch a whitelisted contact's validity", async () => {
    const email = "complaint+2@example.net";
    await stack.call("POST", `/whitelist/${email}`);
    await deliver(email);
    await eventually(
      () => eventsOf(email),
      (events) => events.includes("queja"),
    );
    expect(await isInvalid(email)).toBe(false);
  });

  it("without our token change nothing", async () => {
    const email = "named@example.net";
    await deliver(email);
    const forged = `From: fbl@example.net
Subject: complaint
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary=cut

--cut
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: x/1
Version: 1
Original-Rcpt-To: <${email}>

--cut
Content-Type: message/rfc822

From: a@sender.example.org
To: ${email}
X-Delivery-Token: b+aaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbb

x
--cut--
`;
    await sendBack("fbl@bounces.localhost", forged);
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio"]);
  });
});

it("an automatic reply or ordinary mail to a return path changes nothing", async () => {
  const email = "away@example.net";
  const token = await deliver(email);
  const away = `From: ${email}\nSubject: Out of office\nAuto-Submitted: auto-replied\n\nI am away.\n`;
  await sendBack(`${token}@bounces.localhost`, away);
  await sendBack(`${token}@bounces.localhost`, `From: ${email}\nSubject: hello\n\n550 5.1.1 is a funny number.\n`);
  await untilQuiet();
  expect(await eventsOf(email)).toEqual(["envio"]);
});

it("survives random octets and broken MIME", async () => {
  const [host, port] = mx.split(":") as [string, string];
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const socket = connect(Number(port), host);
      socket.on("error", () => {});
      socket.write(randomBytes(1 + n * 700));
      await sleep(50);
      socket.destroy();
    }),
  );
  const token = await deliver("mime@example.net");
  const nested = Array.from({ length: 1_000 }, (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`);
  for (const message of [nested.join(""), `Content-Type: text/plain; charset=x-none\n\n${"\xff".repeat(1_000)}`]) {
    await sendBack(`${token}@bounces.localhost`, message);
  }
  await untilQuiet();
  expect(await eventsOf("mime@example.net")).toEqual(["envio"]);
  expect(stack.failures).toEqual([]);
});
