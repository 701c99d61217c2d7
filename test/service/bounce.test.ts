import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { MxSession } from "../../services/bounce/mx-session.ts";
import { loadInboundPolicy } from "../../services/bounce/policy.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import { makeBounceToken } from "../../services/core/mail/tokens.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import type { Observation, Observe } from "../../services/platform/observability/observation.ts";
import type { SmtpSession } from "../../services/platform/smtp/handlers.ts";
import { lockAddress } from "../../services/store/mail/contacts/contacts.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { playDialogue, readDialogue } from "../support/smtp-dialogue.ts";
import { listWaiting } from "../support/spread-tables.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { findTraces } from "../support/traces.ts";

const dataDir = makeDataDir();
let stack: MailStack;
let mx: string;
let campaign: number;
const observed: Observation[] = [];

beforeAll(async () => {
  stack = await startMailStack(Object.values(MAIL_SERVICES), {
    PALOMAR_DATA_DIR: dataDir,
  });
  const { observe } = stack.context;
  const noting: Observe = (observation) => {
    observed.push(observation);
    observe(observation);
  };
  Object.assign(stack.context, { observe: noting });
  mx = (await stack.run(startBounce)).addresses.mx!;
  campaign = await stack.addCampaign();
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

const DAY_MS = 86_400_000;
const tokenFor = (deliveryId: number, days = 30, keyRing = stack.context.keyRing) =>
  makeBounceToken(keyRing, { deliveryId, expiresAt: new Date(Date.now() + days * DAY_MS) });

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

function report(...block: [recipient: string, action: string, status: string, diagnostic: string]): string {
  return reportOfBlocks([block]);
}

function reportOfBlocks(
  blocks: readonly [recipient: string, action: string, status: string, diagnostic: string][],
): string {
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
${blocks
  .map(
    ([recipient, action, status, diagnostic]) => `
Final-Recipient: rfc822; ${recipient}
Action: ${action}
Status: ${status}
Diagnostic-Code: smtp; ${diagnostic}
`,
  )
  .join("")}
--cut--
`;
}

function complaintAbout(recipient: string, token: string, type = "Feedback-Type: abuse\n"): string {
  return `From: fbl@example.net
Subject: complaint
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary=cut

--cut
Content-Type: message/feedback-report

${type}User-Agent: x/1
Version: 1
Original-Rcpt-To: <${recipient}>

--cut
Content-Type: message/rfc822

From: a@sender.example.org
To: ${recipient}
X-Delivery-Token: ${token}

x
--cut--
`;
}

function validAddress(text: string): EmailAddress {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (!address.ok) throw new Error(address.error.message);
  return address.value;
}

it("takes return paths with a valid token and feedback addresses, and nothing else", () =>
  playDialogue(mx, readDialogue("mx-refuses"), {
    expired: tokenFor(1, -2),
    foreign: tokenFor(1, 30, KeyRing.ofSecret("another deployment's secret")),
    shouted: tokenFor(1).toUpperCase(),
  }));

describe("the MX session", () => {
  const session = (rcptTo: readonly string[]): SmtpSession<never> => ({
    id: "a",
    clientAddress: "192.0.2.1",
    helloName: "mta.example.net",
    secure: false,
    protocol: "ESMTP",
    user: undefined,
    mailFrom: "",
    rcptTo,
    smtpUtf8: false,
  });
  const stored = (deliveryId: number) => stack.context.db("inbound_messages").where({ delivery_id: deliveryId });

  it("stores a message once for each address, however often and in whatever case it is given", async () => {
    const mxSession = new MxSession(stack.context, () => {}, loadInboundPolicy());
    const [one, other] = [900_001, 900_002].map((id) => `${tokenFor(id)}@bounces.localhost`) as [string, string];
    const spellings = [one, one.toUpperCase(), other, one.replace("b+", "B+")];
    expect(await mxSession.message(Buffer.from("Subject: x\r\n\r\n"), session(spellings))).toMatchObject({ code: 250 });
    expect(await stored(900_001)).toHaveLength(1);
    expect(await stored(900_002)).toHaveLength(1);
  });

  it("puts off whoever floods a return path, and nobody else", async () => {
    const mxSession = new MxSession(stack.context, () => {}, loadInboundPolicy());
    const flooded = `${tokenFor(900_003)}@bounces.localhost`;
    for (let message = 0; message < 20; message += 1) {
      expect(await mxSession.rcptTo(flooded, session([]))).toBeUndefined();
      await mxSession.message(Buffer.from("Subject: x\r\n\r\n"), session([flooded]));
    }
    expect(await mxSession.rcptTo(flooded, session([]))).toMatchObject({ code: 450, enhancedStatus: "4.2.1" });
    expect(await mxSession.rcptTo(flooded, { ...session([]), clientAddress: "127.0.0.1" })).toBeUndefined();
    expect(await mxSession.rcptTo(`${tokenFor(900_004)}@bounces.localhost`, session([]))).toBeUndefined();
    expect(await mxSession.rcptTo("fbl@bounces.localhost", session([]))).toBeUndefined();
  });
});

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

  it("are told to the log by their delivery, without the recipient", async () => {
    const email = "unnamed@example.net";
    const token = await deliver(email);
    observed.length = 0;
    await sendBack(`${token}@bounces.localhost`, hardReport(email));
    await untilQuiet();
    const { id } = await stack.context.db("deliveries").where({ recipient: email }).first("id");
    const told = expect.objectContaining({
      kind: "inbound-applied",
      deliveryId: id,
      bounces: [{ hard: true, reason: "userunknown" }],
    });
    await expect.poll(() => observed).toContainEqual(told);
    expect(JSON.stringify(observed)).not.toContain(email);
  });

  it("count whatever characters the report writes into an address", async () => {
    const email = "odd@example.net";
    const token = await deliver(email);
    await sendBack(`${token}@bounces.localhost`, hardReport("odd\\x{0}\\x{D800}@example.net"));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote_hard"]);
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

  it("start the count anew after somebody followed a link, and after a machine did not", async () => {
    const { db } = stack.context;
    for (const machine of [false, true]) {
      const email = `reads-${machine}@example.net`;
      await sendBack(`${await deliver(email)}@bounces.localhost`, hardReport(email));
      await untilQuiet();
      const { id: contactId } = await db("contacts").where({ email }).first("id");
      const clicked = { kind: "clicked", at: new Date(), contactId, machine } as const;
      await recordEvents(db, [{ instanceId: stack.instanceId, ...clicked }]);
      await sendBack(`${await deliver(email)}@bounces.localhost`, hardReport(email));
      await untilQuiet();
      expect(await isInvalid(email)).toBe(machine);
    }
    await sendBack(
      `${await deliver("reads-false@example.net")}@bounces.localhost`,
      hardReport("reads-false@example.net"),
    );
    await untilQuiet();
    expect(await isInvalid("reads-false@example.net")).toBe(true);
  });

  it.each([
    ["another's success", "delivered", "2.0.0", "250 ok"],
    ["another's full mailbox", "failed", "5.2.2", "552 5.2.2 Mailbox full"],
  ])("go by what they say of the contact, beside %s", async (name, ...other) => {
    const email = `beside-${name.length}@example.net`;
    const blocks = [
      ["other@example.com", ...other],
      [email, "failed", "5.1.1", "550 5.1.1 User unknown"],
    ] as const;
    await sendBack(`${await deliver(email)}@bounces.localhost`, reportOfBlocks(blocks.map((block) => [...block])));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote_hard"]);
  });

  it("know the contact by the A-labels of its domain", async () => {
    const email = "one@ñandu.example";
    const blocks: [string, string, string, string][] = [
      ["other@example.com", "failed", "5.2.2", "552 5.2.2 Mailbox full"],
      ["One@xn--andu-fqa.example", "failed", "5.1.1", "550 5.1.1 User unknown"],
    ];
    await sendBack(`${await deliver(email)}@bounces.localhost`, reportOfBlocks(blocks));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote_hard"]);
  });

  it.each([
    ["a full mailbox", "failed", "5.2.2", "552 5.2.2 Mailbox full", ["envio", "rebote-soft"]],
    ["a block list", "failed", "5.7.1", "554 5.7.1 Client host blocked using a block list", ["envio", "rebote-soft"]],
    ["a delay", "delayed", "4.4.1", "connection timed out", ["envio"]],
    ["a success", "delivered", "2.0.0", "250 ok", ["envio"]],
    ["a failure whose status is a success", "failed", "2.0.0", "250 ok", ["envio", "rebote-soft"]],
  ])("tell %s", async (name, action, status, diagnostic, events) => {
    const email = `${name.replaceAll(" ", "-")}@example.net`;
    await sendBack(`${await deliver(email)}@bounces.localhost`, report(email, action, status, diagnostic));
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(events);
    expect(await isInvalid(email)).toBe(false);
  });

  it("of a delay count as failures where the message was given up", async () => {
    const email = "given-up@example.net";
    const told = report(email, "delayed", "4.4.7", "").replace("About your message.", `${email}: Envelope expired`);
    await sendBack(`${await deliver(email)}@bounces.localhost`, told);
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio", "rebote-soft"]);
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

  it("leave themselves to an erasure of their contact, which they wait for", async () => {
    const { db } = stack.context;
    const email = "erased@example.net";
    const token = await deliver(email);
    const about = await db("deliveries").where({ recipient: email }).pluck("id");
    await db.transaction(async (erasure) => {
      await lockAddress(erasure, stack.instanceId, email);
      await sendBack(`${token}@bounces.localhost`, hardReport(email));
      await eventually(
        () => listWaiting(db),
        (waiting) => waiting.some(({ wait_event }) => wait_event === "advisory"),
      );
      // Were the report's row held meanwhile, the two would wait for each other.
      expect(await erasure("inbound_messages").whereIn("delivery_id", about).forUpdate().noWait()).toHaveLength(1);
      await erasure("inbound_messages").whereIn("delivery_id", about).delete();
    });
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio"]);
  });

  it("that come after the erasure of whom they are about leave nothing of the address", async () => {
    const { db } = stack.context;
    const email = "late@example.net";
    const token = await deliver(email);
    expect(await findTraces(db, [email])).toContain("sandbox_messages");
    await eraseAddress(db, stack.instanceId, validAddress(email));
    await sendBack(`${token}@bounces.localhost`, hardReport(email));
    await sendBack(`${token}@bounces.localhost`, `From: ${email}\nSubject: hello\n\nWho are you?\n`);
    await sendBack("fbl@bounces.localhost", complaintAbout(email, token));
    await untilQuiet();
    expect(await findTraces(db, [email])).toEqual([]);
  });

  it("are not kept where their delivery is erased while they are applied", async () => {
    const { db } = stack.context;
    const email = "late@example.net";
    const token = await deliver(email);
    await db.transaction(async (erasure) => {
      await erasure("deliveries").where({ recipient: email }).delete();
      await sendBack(`${token}@bounces.localhost`, report(email, "delayed", "4.4.1", "timed out"));
      await eventually(
        async () => [...(await listWaiting(db)), ...(await db("inbound_messages").where({ state: "applied" }))],
        (found) => found.some((one) => one.wait_event !== undefined || one.octets.includes(email)),
      );
    });
    await untilQuiet();
    expect(await findTraces(db, [email])).not.toContain("inbound_messages");
  });
});

describe("a report of ten thousand recipients", () => {
  it("concerns the token's contact alone, who is not among the dead", async () => {
    const email = "one-of-many@example.net";
    const victim = "victim-1@example.net";
    await deliver(victim);
    const others = Array.from(
      { length: 10_000 },
      (_, index) => `Final-Recipient: rfc822; victim-${index}@example.net\nAction: failed\nStatus: 5.1.1\n`,
    );
    const named = `Final-Recipient: rfc822; ${email}\nAction: delayed\nStatus: 4.4.1\n`;
    const whole = report(email, "delayed", "4.4.1", "timed out");
    const crowd = whole.replace(/Final-Recipient:[\s\S]*?\n\n/, `${[named, ...others].join("\n")}\n`);
    await sendBack(`${await deliver(email)}@bounces.localhost`, crowd);
    await untilQuiet();
    expect(await eventsOf(email)).toEqual(["envio"]);
    expect(await eventsOf(victim)).toEqual(["envio"]);
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

  it.each([
    ["Feedback-Type: fraud\n", true],
    ["", true],
    ["Feedback-Type: virus\n", false],
    ["Feedback-Type: other\n", false],
    ["Feedback-Type: not-spam\n", false],
    ["Feedback-Type: auth-failure\n", false],
    ["Feedback-Type: dmarc\n", false],
  ])("are those of the types abuse and fraud, and those without one: %j", async (type, complains) => {
    const email = `feedback-${type.replace(/\W+/g, "")}@example.net`;
    const token = await deliver(email);
    await sendBack("fbl@bounces.localhost", complaintAbout(email, token, type));
    await sendBack(`${token}@bounces.localhost`, complaintAbout(email, token, type));
    await untilQuiet();
    expect((await eventsOf(email)).includes("queja")).toBe(complains);
    expect(await isInvalid(email)).toBe(complains);
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
    const forged = complaintAbout(email, "b+aaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbb");
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
      // Whoever speaks before the greeting is not listened to.
      socket.once("data", () => socket.end(randomBytes(1 + n * 700)));
      await new Promise((resolve) => socket.once("close", resolve));
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
