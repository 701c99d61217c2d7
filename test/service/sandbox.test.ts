import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readBounceToken } from "../../services/core/mail/tokens.ts";
import { interpret } from "../../services/operations/mail/interpret.ts";
import { listSandboxMessages } from "../../services/store/mail/inbound/sandbox-messages.ts";
import { type MailStack, startMailStack } from "../support/mail-stack.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let mx: SmtpSink;
let campaign: number;

beforeAll(async () => {
  mx = await startSmtpSink();
  stack = await startMailStack();
  stack.setAddress("mx", mx.address);
  campaign = await stack.addCampaign();
});
afterAll(async () => {
  await stack.stop();
  await mx.close();
  expect(stack.failures).toEqual([]);
});

async function send(email: string): Promise<string> {
  const { body } = await stack.call("POST", "/envio/send_one_inline", {
    campana_id: campaign,
    email: true,
    contacto: { email },
    html: "<p>Hi</p>",
  });
  expect(body).toMatchObject({ status: "ok", sent: 1 });
  return body.eeid;
}

const untilSent = (eeid: string) =>
  eventually(
    async () => (await stack.call("GET", `/eeid_info/${eeid}`)).body.envio_efectivo,
    (batch) => batch.estado === "enviado",
  );

const reportFor = (rcptTo: string) =>
  eventually(
    async () => mx.messages.find(({ octets }) => octets.includes(rcptTo)),
    (report) => report !== undefined,
  );

test("survives random octets", async () => {
  const [host, port] = (await stack.context.addressOf("sandbox")).split(":");
  const hurl = (octets: Buffer) =>
    new Promise<void>((resolve) => {
      const socket = connect(Number(port), host);
      // Whoever speaks before the greeting is not listened to.
      socket.once("data", () => socket.end(octets));
      socket.on("error", () => resolve());
      socket.on("close", () => resolve());
    });
  const noise = Array.from({ length: 40 }, (_, i) => {
    const dialogue = i % 2 === 0 ? "EHLO x\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n" : "";
    return Buffer.concat([Buffer.from(dialogue), randomBytes(20_000), Buffer.from("\r\n.\r\n")]);
  });
  await Promise.all(noise.map(hurl));
  const eeid = await send("after@two.example.net");
  await untilSent(eeid);
  expect(await stack.inbox("after@two.example.net")).toHaveLength(1);
});

test("a client that leaves within a message is no failure of ours", async () => {
  const [host, port] = (await stack.context.addressOf("sandbox")).split(":");
  const socket = connect(Number(port), host);
  let replies = "";
  socket.on("data", (chunk) => {
    replies += chunk;
    if (replies === String(chunk)) socket.write("EHLO x\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n");
    if (/^354 /m.test(replies)) socket.end("Subject: half of it\r\n");
  });
  await new Promise((resolve) => socket.once("close", resolve));
  expect(replies).toMatch(/^354 /m);
  // afterAll looks at what was observed.
  await untilSent(await send("left@two.example.net"));
});

describe("mailboxes of the sandbox", () => {
  test.each(["bounce+1@two.example.net", "BOUNCE+x@two.example.net"])(
    "%s reports 5.1.1 to the return path",
    async (email) => {
      const eeid = await send(email);
      await untilSent(eeid);
      const report = (await reportFor(email))!;
      expect(report.mailFrom).toBe("");
      const [localPart = "", domain] = report.rcptTo[0]!.split("@");
      expect(domain).toBe("bounces.localhost");
      expect(readBounceToken(stack.context.keyRing, localPart, new Date()).ok).toBe(true);
      const finding = await interpret(report.octets);
      expect(finding).toMatchObject({
        kind: "dsn",
        results: [{ recipient: email, action: "failed", status: "5.1.1", reason: "userunknown", hard: true }],
      });
    },
  );

  test("full+ reports 5.2.2", async () => {
    await send("full+1@two.example.net");
    const finding = await interpret((await reportFor("full+1@two.example.net"))!.octets);
    expect(finding).toMatchObject({ kind: "dsn", results: [{ status: "5.2.2", reason: "mailboxfull", hard: false }] });
  });

  test("complaint+ reports abuse to the feedback address, the original enclosed", async () => {
    await send("complaint+1@two.example.net");
    const report = (await reportFor("complaint+1@two.example.net"))!;
    expect(report.rcptTo).toEqual(["fbl@bounces.localhost"]);
    const finding = await interpret(report.octets);
    expect(finding).toMatchObject({ kind: "arf", feedbackType: "abuse" });
    const token = finding.original?.headers.get("x-delivery-token") ?? "";
    expect(readBounceToken(stack.context.keyRing, token, new Date()).ok).toBe(true);
    expect(finding.original?.headers.get("return-path")).toContain(token);
  });

  test("reject+ refuses in the session: counted, and a hard bounce", async () => {
    const eeid = await send("reject+1@two.example.net");
    const batch = await untilSent(eeid);
    expect(batch.salidas_con_error).toBe(1);
    const [contact] = batch.contactos;
    expect(contact.eventos.map(({ eventos }: { eventos: string }) => eventos)).toEqual(["envio", "rebote_hard"]);
    expect(await stack.inbox("reject+1@two.example.net")).toEqual([]);
  });

  test("defer+ takes the third attempt", async () => {
    const eeid = await send("Defer+1@two.example.net");
    const batch = await untilSent(eeid);
    expect(batch.salidas_con_error).toBe(0);
    expect(batch.contactos[0].eventos).toHaveLength(1);
    expect(await stack.inbox("Defer+1@two.example.net")).toHaveLength(1);
    const [delivery] = await stack.context.db("deliveries").where({ recipient: "Defer+1@two.example.net" });
    expect(delivery).toMatchObject({ attempts: 3, state: "delivered" });
  });

  test("two refusals in the session invalidate the contact, and then a send counts nobody", async () => {
    for (let i = 0; i < 2; i++) await untilSent(await send("reject+2@two.example.net"));
    const contact = async () => (await stack.call("GET", "/contacto/reject%2B2@two.example.net")).body.contacto;
    expect(await contact()).toMatchObject({ invalido: true });
    const { body } = await stack.call("POST", "/envio/send_one_inline", {
      campana_id: campaign,
      email: true,
      contacto: { email: "reject+2@two.example.net" },
      html: "<p>Hi</p>",
    });
    expect(body.sent).toBe(0);
    const events = (await contact()).eventos.map(({ evento }: { evento: string }) => evento);
    expect(events).toEqual(["envio", "rebote_hard", "envio", "rebote_hard", "invalidacion", "unknown"]);
  });

  test("a whitelisted contact keeps its bounces and stays valid", async () => {
    await stack.call("POST", "/whitelist/reject%2B3@two.example.net");
    for (let i = 0; i < 3; i++) await untilSent(await send("reject+3@two.example.net"));
    const { contacto } = (await stack.call("GET", "/contacto/reject%2B3@two.example.net")).body;
    expect(contacto.invalido).toBe(false);
    expect(contacto.eventos).toHaveLength(6);
  });
});

test("shows who a message is from, and not whom its author's name looks like", async () => {
  const [host, port] = (await stack.context.addressOf("sandbox")).split(":");
  const transport = createTransport({ host, port: Number(port), ignoreTLS: true });
  const names = {
    disguised: "=?utf-8?q?=3Cy=40other.example.org=3E?=",
    long: `${"=?utf-8?q?=C3=B1?=\r\n ".repeat(200)}`,
  };
  for (const [who, name] of Object.entries(names)) {
    await transport.sendMail({
      envelope: { from: "x@own.example.org", to: `${who}@two.example.net` },
      raw: `From: ${name} <x@own.example.org>\r\nSubject: x\r\n\r\nx\r\n`,
    });
  }
  transport.close();
  const messages = await listSandboxMessages(stack.context.db, { limit: 10_000 });
  for (const who of Object.keys(names)) {
    expect(messages.find(({ rcptTo }) => rcptTo === `${who}@two.example.net`)?.sender).toBe("x@own.example.org");
  }
});
