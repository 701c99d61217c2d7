import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BounceWorker } from "../../services/bounce/worker.ts";
import { registerMessageCommand } from "../../services/cli/commands/message.ts";
import { start as startConsole } from "../../services/console/main.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { hashPassword } from "../../services/core/password.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { addUser } from "../../services/store/console/users.ts";
import { removeSendingLimit, setSendingLimit } from "../../services/store/mail/guard/sending-limits.ts";
import { addInboundMessages } from "../../services/store/mail/inbound/inbound.ts";
import {
  holdDestination,
  releaseDestination,
  retryDestination,
} from "../../services/store/mail/queue/queue-destinations.ts";
import { accepted } from "../support/accepted.ts";
import { callApi } from "../support/api-client.ts";
import { runCommand } from "../support/command.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let base: string;
let campaign: number;
const PASSWORD = "a password for tests";

beforeAll(async () => {
  stack = await startMailStack(undefined, { PALOMAR_CONSOLE_LISTEN: "127.0.0.1:0" });
  const { db, keyRing } = stack.context;
  const other = { name: "other", host: "other.test", key: "key-of-other", archive: false, domains: [] };
  await addTestInstance(db, keyRing, other);
  const passwordHash = await hashPassword(PASSWORD);
  await addUser(db, { login: "ana", role: "instance", scope: "test", passwordHash });
  await addUser(db, { login: "eve", role: "instance", scope: "other", passwordHash });
  await addUser(db, { login: "root", role: "operator", scope: null, passwordHash });
  const { addresses } = await stack.run(startConsole);
  base = `${addresses.console}/admin/v1`;
  campaign = await stack.addCampaign({ asunto: "Confirmación de su pedido" });
  // Nothing of what waits here is to be tried.
  await holdDestination(db, "held.example.net", "root");
});
afterAll(() => stack.stop());

function as(login: string) {
  const headers = { Authorization: `Basic ${Buffer.from(`${login}:${PASSWORD}`).toString("base64")}` };
  return (method: string, path: string, body?: unknown) => callApi(method, base + path, headers, body);
}
const ana = (method: string, path: string) => as("ana")(method, `/instances/test${path}`);

async function find(search: Readonly<Record<string, string>>): Promise<string[]> {
  const { status, body } = await ana("GET", `/messages?${new URLSearchParams(search)}`);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.messages.map(({ recipient }: { recipient: string }) => recipient);
}

/** @returns the batch's id */
async function send(emails: readonly string[], more: object = {}): Promise<string> {
  const answer = await stack.call("POST", "/envio/send_many_inline/", {
    campana_id: campaign,
    email: true,
    contactos: emails.map((email) => ({ email })),
    html: "<p>Hello</p>",
    ...more,
  });
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body.eeid;
}

async function storyOf(recipient: string, isReady: (story: { state: string }) => boolean = () => true) {
  const found = await ana("GET", `/messages?recipient=${encodeURIComponent(recipient)}`);
  const [{ id }] = found.body.messages;
  const { body } = await eventually(
    () => ana("GET", `/messages/${id}`),
    ({ body: story }) => isReady(story),
  );
  return body;
}

/** A program's own message, as submission accepts it. */
async function submit(recipient: string, subject: string, messageId: string): Promise<string> {
  const address = validateAddress(recipient, { allowSmtputf8: false });
  if (!address.ok) throw new Error(recipient);
  const lines = [
    `From: App <App@${TEST_DOMAIN}>`,
    `To: ${recipient}`,
    `Subject: ${subject}`,
    `Message-ID: ${messageId}`,
  ];
  const outcome = await stack.context.db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId: stack.instanceId,
      campaignNumid: campaign,
      creator: "smtp",
      content: { kind: "finished", octets: Buffer.from(`${lines.join("\r\n")}\r\n\r\nHello\r\n`) },
      senderDomain: TEST_DOMAIN,
      sender: `app@${TEST_DOMAIN}`,
      recipients: [{ address: address.value }],
      copies: [],
      archive: false,
    }),
  );
  return accepted(outcome).eeid;
}

describe("a message is found", () => {
  test("at once, by what its sender knows of it", async () => {
    const sent = ["one@example.com", "two@example.com"];
    const eeid = await send(sent);
    expect((await find({ id: eeid })).sort()).toEqual(sent);
    expect(await find({ recipient: "one@example.com" })).toEqual(["one@example.com"]);
    expect((await find({ domain: "EXAMPLE.com" })).sort()).toEqual(sent);
    expect((await find({ campaign: String(campaign), domain: "example.com" })).sort()).toEqual(sent);
    expect((await find({ subject: "confirmacion PEDIDO", domain: "example.com" })).sort()).toEqual(sent);
    expect((await find({ sender: TEST_DOMAIN, domain: "example.com" })).sort()).toEqual(sent);
    expect(await find({ sender: `info@${TEST_DOMAIN}`, recipient: "two@example.com" })).toEqual(["two@example.com"]);
    expect(await find({ subject: "pedid", domain: "example.com" })).toEqual([]);
    expect(await find({ sender: "info@elsewhere.example" })).toEqual([]);
    expect(await find({ creator: "smtp", domain: "example.com" })).toEqual([]);
    const soon = new Date(Date.now() + 60_000).toISOString();
    const before = new Date(Date.now() - 60_000).toISOString();
    expect((await find({ from: before, until: soon, domain: "example.com" })).sort()).toEqual(sent);
    expect((await find({ from: before, until: soon })).length).toBeGreaterThanOrEqual(2);
    expect(await find({ from: soon })).toEqual([]);
    expect(await find({ until: before, domain: "example.com" })).toEqual([]);
  });

  test("by the Message-ID, the return path and the token that it left with", async () => {
    const eeid = await send(["left@example.com"]);
    await storyOf("left@example.com", ({ state }) => state === "delivered");
    const { octets } = await stack.newestOf(eeid, "left@example.com");
    const text = octets.toString("latin1");
    const [, messageId] = /^Message-ID: (\S+)/im.exec(text)!;
    const [, token] = /^X-Delivery-Token: (\S+)/m.exec(text)!;
    for (const id of [messageId!, messageId!.slice(1, -1), token!, `${token}@bounces.localhost`]) {
      expect(await find({ id })).toEqual(["left@example.com"]);
    }
  });

  test("by the Message-ID that a program gave it, encoded words of its subject, and who submitted it", async () => {
    const messageId = "<order-77.1234@app.example.org>";
    const eeid = await submit("buyer@example.com", "=?utf-8?q?Su_pedido_n=C3=BAmero?= 77", messageId);
    expect(await find({ id: messageId })).toEqual(["buyer@example.com"]);
    expect(await find({ id: messageId.slice(1, -1) })).toEqual(["buyer@example.com"]);
    expect(await find({ id: eeid })).toEqual(["buyer@example.com"]);
    expect(await find({ subject: "numero 77" })).toEqual(["buyer@example.com"]);
    expect(await find({ sender: `App@${TEST_DOMAIN}` })).toEqual(["buyer@example.com"]);
    expect(await find({ creator: "smtp" })).toEqual(["buyer@example.com"]);
    const story = await storyOf("buyer@example.com");
    expect(story).toMatchObject({ message_id: messageId, subject: "Su pedido número 77", creator: "smtp" });
  });

  test("by what was replied, why, and from where it left", async () => {
    await send(["reject+hard@example.com", "fine@example.com"]);
    const story = await storyOf("reject+hard@example.com", ({ state }) => state === "bounced");
    const [attempt] = story.attempt_list;
    expect(attempt).toMatchObject({ attempt: 1, outcome: "bounced" });
    expect(attempt.path).toMatchObject({ address: "127.0.0.1", source: "127.0.0.1" });
    expect(story.events.map(({ kind }: { kind: string }) => kind)).toContain("hard-bounce");
    expect(await find({ reason: attempt.reason, domain: "example.com" })).toEqual(["reject+hard@example.com"]);
    expect(await find({ reason: attempt.reason })).toEqual(["reject+hard@example.com"]);
    expect(await find({ state: "bounced" })).toEqual(["reject+hard@example.com"]);
    const words = attempt.reply.replace(/[^a-z ]/gi, " ").trim();
    expect(await find({ reply: words })).toEqual(["reject+hard@example.com"]);
    expect(await find({ reply: words, recipient: "fine@example.com" })).toEqual([]);
    expect(await find({ source: "127.0.0.1", recipient: "reject+hard@example.com" })).toHaveLength(1);
    expect((await find({ source: "127.0.0.1" })).length).toBeGreaterThan(2);
    expect(await find({ source: "192.0.2.1" })).toEqual([]);
  });

  test("page by page, each once, and all of them as CSV", async () => {
    const emails = Array.from({ length: 25 }, (_, index) => `p${index}@pages.example.net`);
    await send(emails);
    for (const search of ["", "domain=pages.example.net&", "subject=pedido&", `campaign=${campaign}&`]) {
      const seen: string[] = [];
      for (let after = ""; ; ) {
        const { body } = await ana("GET", `/messages?${search}limit=7${after && `&after=${after}`}`);
        seen.push(...body.messages.map(({ recipient }: { recipient: string }) => recipient));
        if (body.next === null) break;
        after = body.next;
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.filter((email) => email.endsWith("@pages.example.net")).sort()).toEqual([...emails].sort());
    }
    const csv = await ana("GET", "/messages/export?domain=pages.example.net");
    expect(csv.body.split("\r\n")).toHaveLength(27);
    expect((await ana("GET", "/messages?after=nonsense")).status).toBe(400);
  });
});

test("a report to a sender is nobody's message, whatever it is sought by", async () => {
  const { db } = stack.context;
  const to = `reporter@${TEST_DOMAIN}`;
  const eeid = await submit(to, "Your message could not be delivered", "<report@example.org>");
  const found = async () => [...(await find({ id: eeid })), ...(await find({ recipient: to })), ...(await find({}))];
  expect((await found()).filter((recipient) => recipient === to)).toHaveLength(3);
  const [{ id }] = (await ana("GET", `/messages?recipient=${to}`)).body.messages;
  await db("messages").where({ eeid }).update({ is_report: true });
  expect((await found()).filter((recipient) => recipient === to)).toEqual([]);
  expect((await ana("GET", `/messages/${id}`)).status).toBe(404);
});

describe("what waits", () => {
  test("says why, is tried again, and can be taken back once", async () => {
    const eeid = await send(["a@held.example.net", "b@held.example.net"]);
    const story = await storyOf("a@held.example.net");
    expect(story).toMatchObject({ state: "queued", attempt_list: [], archived: false });
    expect(story.destination_held).not.toBeNull();
    expect((await find({ state: "queued" })).sort()).toEqual(["a@held.example.net", "b@held.example.net"]);
    expect((await ana("POST", `/messages/${story.id}/retry`)).status).toBe(200);
    expect((await ana("POST", `/messages/${story.id}/cancel`)).body).toMatchObject({ state: "cancelled" });
    const again = await ana("POST", `/messages/${story.id}/cancel`);
    expect(again).toMatchObject({ status: 409 });
    expect(await find({ state: "cancelled" })).toEqual(["a@held.example.net"]);
    const cancelled = await storyOf("a@held.example.net");
    expect(cancelled.events.at(-1)).toEqual({
      ...{ at: cancelled.finished, kind: "cancelled", machine: false, reason: "", words: "" },
    });
    const shown = await runCommand(registerMessageCommand, stack.context, ["message", "show", "test", `${story.id}`]);
    expect(shown.lines.join("\n").split("\n").at(-1)).toBe(`${cancelled.finished}  cancelled`);
    const { db } = stack.context;
    await releaseDestination(db, "held.example.net");
    await storyOf("b@held.example.net", ({ state }) => state === "delivered");
    expect(await stack.inbox("a@held.example.net")).toEqual([]);
    const { body } = await ana("GET", `/batches/${eeid}`);
    expect(body).toMatchObject({ destinatarios: 1, entregados: 1, en_cola: 0 });
    const { body: log } = await as("root")("GET", "/audit");
    expect(log.audit.map(({ action }: { action: string }) => action)).toContain("message.cancel");
  });

  test("for the pace of its provider, or for a plan of a new address, says so and until when", async () => {
    const { db } = stack.context;
    await holdDestination(db, "held.example.net", "root");
    await send(["paced@held.example.net"]);
    const { id } = await storyOf("paced@held.example.net");
    const wait = async (pacedBy: object | null, seconds: number) => {
      await db.raw(
        `update partitions set state = 'deferred', due_at = now() + make_interval(secs => ?), paced_by = ?
         where id = (select partition_id from deliveries where id = ?)`,
        [seconds, pacedBy && JSON.stringify(pacedBy), id],
      );
      const { paced_until, paced_by, paced_provider } = (await ana("GET", `/messages/${id}`)).body;
      return [paced_until !== null && Date.parse(paced_until) > Date.now(), paced_by, paced_provider];
    };
    const byProvider = { provider: "gmail", sources: ["192.0.2.1"], isPlanned: false };
    expect(await wait(byProvider, 3_000)).toEqual([true, "provider", "gmail"]);
    expect(await wait({ ...byProvider, isPlanned: true }, 3_000)).toEqual([true, "warm-up", "gmail"]);
    expect(await wait(byProvider, -1)).toEqual([false, null, null]);
    expect(await wait(null, 3_000)).toEqual([false, null, null]);
    await ana("POST", `/messages/${id}/cancel`);
    await releaseDestination(db, "held.example.net");
  });

  test("what somebody is sending cannot be taken back", async () => {
    const { db } = stack.context;
    await holdDestination(db, "held.example.net", "root");
    await send(["c@held.example.net"]);
    const { id } = await storyOf("c@held.example.net");
    await db.raw(
      `update partitions set state = 'leased', lease_until = now() + interval '1 hour'
       where id = (select partition_id from deliveries where id = ?)`,
      [id],
    );
    expect((await ana("POST", `/messages/${id}/cancel`)).status).toBe(409);
    expect((await ana("GET", `/messages/${id}`)).body).toMatchObject({ state: "queued", sending: true });
  });

  test("for a sending limit says so, and neither its customer nor an operator can send it before its time", async () => {
    const { db } = stack.context;
    const hour = 3_600_000;
    const unlimited = { scope: "instance" as const, subject: "", perHour: null, perDay: null, over: "wait" as const };
    await setSendingLimit(db, stack.instanceId, { ...unlimited, perHour: 1 });
    try {
      // Three, as the clock may strike meanwhile.
      await send(["now@limited.example.net"]);
      await send(["soon@limited.example.net"]);
      await send(["later@limited.example.net"]);
      const story = await storyOf("later@limited.example.net");
      const goesOnAt = Date.parse(story.next_attempt);
      expect(goesOnAt % hour).toBe(0);
      expect(goesOnAt).toBeGreaterThan(Date.parse(story.accepted));
      expect(story).toMatchObject({ state: "queued", waits_for_limit: true, paused: null });
      const { body: list } = await ana("GET", "/messages?recipient=later@limited.example.net");
      expect(list.messages).toMatchObject([{ waits_for_limit: true, next_attempt: story.next_attempt }]);
      const refused = await ana("POST", `/messages/${story.id}/retry`);
      const time = `${story.next_attempt.slice(0, 19)}Z`;
      expect(refused).toMatchObject({ status: 409, body: { code: "message-waits-for-limit", values: { time } } });
      await retryDestination(db, "limited.example.net");
      expect(await storyOf("later@limited.example.net")).toMatchObject({ waits_for_limit: true, attempts: 0 });
      expect((await ana("POST", `/messages/${story.id}/cancel`)).status).toBe(200);
    } finally {
      await removeSendingLimit(db, stack.instanceId, unlimited);
    }
  });
});

describe("what came back about a message", () => {
  const octets = (to: string) =>
    Buffer.from(
      [
        "From: mailer-daemon@mta.example.net",
        "MIME-Version: 1.0",
        "Content-Type: multipart/report; report-type=delivery-status; boundary=cut",
        ...["", "--cut", "Content-Type: text/plain; charset=utf-8", "", "Buzón \xff: unknown", "--cut"],
        "Content-Type: message/delivery-status",
        ...["", "Reporting-MTA: dns; mta.example.net", ""],
        ...[`Final-Recipient: rfc822; ${to}`, "Action: failed", "Status: 5.1.1", "", "--cut--", ""],
      ].join("\r\n"),
      "latin1",
    );

  test("is in its story, and is shown as it was received, to whom the message is shown", async () => {
    const recipient = "disputed@example.com";
    await send([recipient, "neighbour@example.com"]);
    const { id, reports } = await storyOf(recipient, ({ state }) => state === "delivered");
    expect(reports).toEqual([]);
    const { id: neighbour } = await storyOf("neighbour@example.com");
    const message = { feedbackAddress: null, mailFrom: "", clientAddress: "192.0.2.1", octets: octets(recipient) };
    await addInboundMessages(stack.context.db, [{ ...message, deliveryId: id }]);
    const worker = new BounceWorker(stack.context);
    const story = await eventually(
      () => storyOf(recipient),
      (told) => told.reports.length > 0 && told.events.length > 1,
    );
    await worker.stop();
    const [report] = story.reports;
    expect(story.reports).toMatchObject([{ kind: "dsn", from: "", octets: message.octets.length }]);
    expect(story.events.map(({ kind }: { kind: string }) => kind)).toContain("hard-bounce");

    const fetchAs = (login: string, path: string) => {
      const headers = { Authorization: `Basic ${Buffer.from(`${login}:${PASSWORD}`).toString("base64")}` };
      return fetch(`${base}/instances/${path}/reports/${report.id}`, { headers });
    };
    for (const login of ["ana", "root"]) {
      const shown = await fetchAs(login, `test/messages/${id}`);
      expect(shown.headers.get("content-type")).toContain("message/rfc822");
      expect(Buffer.from(await shown.arrayBuffer())).toEqual(message.octets);
    }
    expect((await fetchAs("ana", `test/messages/${neighbour}`)).status).toBe(404);
    expect((await fetchAs("eve", `other/messages/${id}`)).status).toBe(404);
    expect((await fetchAs("eve", `test/messages/${id}`)).status).toBe(404);

    const command = (...words: string[]) => runCommand(registerMessageCommand, stack.context, ["message", ...words]);
    expect((await command("show", "test", String(id))).lines.join("\n")).toMatch(
      new RegExp(`Z {2}report ${report.id} came back: dsn from <>, ${message.octets.length} octets`),
    );
    const { json } = await command("report", "test", String(id), String(report.id));
    expect(json).toEqual([{ id: report.id, message: message.octets.toString("base64") }]);
    await expect(command("report", "other", String(id), String(report.id))).rejects.toThrow("other has no report");
  });
});

describe("another customer, with a session that is good", () => {
  const eve = (method: string, path: string) => as("eve")(method, `/instances/other${path}`);

  test("sees nothing of it, by whatever it is asked for, and changes nothing", async () => {
    const eeid = await send(["secret@example.com"]);
    const story = await storyOf("secret@example.com", ({ state }) => state === "delivered");
    const { octets } = await stack.newestOf(eeid, "secret@example.com");
    const [, messageId] = /^Message-ID: (\S+)/im.exec(octets.toString("latin1"))!;
    const searches = [
      { id: eeid },
      { id: String(story.id) },
      { id: messageId! },
      { recipient: "secret@example.com" },
      { domain: "example.com" },
      { subject: "pedido" },
      { sender: TEST_DOMAIN },
      { campaign: String(campaign) },
      { state: "delivered" },
      { state: "bounced" },
      { reason: "userunknown" },
      { reply: "ok" },
      { source: "127.0.0.1" },
      {},
    ];
    for (const search of searches) {
      const { body } = await eve("GET", `/messages?${new URLSearchParams(search as Record<string, string>)}`);
      expect(body).toEqual({ messages: [], next: null });
    }
    expect((await eve("GET", `/messages/${story.id}`)).status).toBe(404);
    for (const verb of ["retry", "cancel"]) {
      expect((await eve("POST", `/messages/${story.id}/${verb}`)).status).toBe(404);
    }
    for (const path of ["/messages", "/messages/export", `/messages/${story.id}`]) {
      expect((await as("eve")("GET", `/instances/test${path}`)).status).toBe(404);
    }
    expect((await eve("GET", "/messages/export")).body.split("\r\n")).toHaveLength(2);
  });
});

test("of who is erased nothing is found, nor of the name in a subject that others got", async () => {
  const { db } = stack.context;
  await submit("gone@example.com", "For gone@example.com alone", "<gone@example.com.1@app.example.org>");
  await storyOf("gone@example.com", ({ state }) => state === "delivered");
  const address = validateAddress("gone@example.com", { allowSmtputf8: false });
  if (!address.ok) throw new Error("no address");
  await eraseAddress(db, stack.instanceId, address.value);
  expect(await find({ recipient: "gone@example.com" })).toEqual([]);
  expect(await find({ subject: "alone" })).toEqual([]);
  expect(await find({ id: "<gone@example.com.1@app.example.org>" })).toEqual([]);
  for (const table of ["attempt_results", "delivery_attempts", "messages", "deliveries"]) {
    const { rows } = await db.raw(`select count(*)::int as left from ${table} t where t::text like '%gone@%'`);
    expect(rows).toEqual([{ left: 0 }]);
  }
});

test.each(["'; drop table messages; --", "%", "\\", "😀", "a:* & b | !c", "<", "b+aa.aaaaaaaaaaaaaaaaaaaaaaaa"])(
  "%j is looked for, and nothing else",
  async (text) => {
    for (const name of ["id", "recipient", "domain", "sender", "subject", "reply", "source", "creator"]) {
      const answer = await ana("GET", `/messages?${new URLSearchParams({ [name]: text })}`);
      expect(answer.status).toBe(200);
    }
  },
);

test.each(["%", "---", "*", "?!", "😀"])("a subject of %j alone is nobody's, in exports neither", async (subject) => {
  expect((await find({})).length).toBeGreaterThan(0);
  expect(await find({ subject })).toEqual([]);
  const csv = await ana("GET", `/messages/export?${new URLSearchParams({ subject })}`);
  expect(csv.status).toBe(200);
  expect(String(csv.body).trim().split("\n")).toHaveLength(1);
});
