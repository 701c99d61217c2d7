import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { interpret } from "../../services/operations/mail/interpret.ts";
import { listInstanceDomains, setInstanceSettings } from "../../services/store/mail/instances/instances.ts";
import { holdDestination, releaseDestination } from "../../services/store/mail/queue/queue-destinations.ts";
import { listBatches } from "../../services/store/mail/sends/batches.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { queuedDeliveries, sameInstance } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

// Submission, queue, delivery, sandbox, its reports, bounce worker, and the reports that follow from all of it.
let stack: MailStack;
let submissions: string;
let numid: number;
let apikey: string;

beforeAll(async () => {
  stack = await startMailStack([...Object.values(MAIL_SERVICES), startBounce], { PALOMAR_RETRY_SECONDS: "1" });
  submissions = (await stack.run(startSubmission)).addresses.submissions!;
  numid = await stack.addCampaign();
  apikey = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
});

interface Submission {
  readonly from?: string;
  readonly to: readonly string[];
  readonly dsn?: {
    readonly id?: string;
    readonly return?: string;
    readonly notify?: string;
    readonly recipient?: string;
  };
  readonly text?: string;
}

async function submit({ from = `info@${TEST_DOMAIN}`, to, dsn, text = "Hi" }: Submission): Promise<string> {
  const [host, port] = submissions.split(":") as [string, string];
  const transport = createTransport({
    ...{ host, port: Number(port), secure: true, tls: { rejectUnauthorized: false } },
    auth: { user: `test-${numid}`, pass: apikey },
  });
  const message = { from: `Info <info@${TEST_DOMAIN}>`, subject: "Grüße", text, messageId: `<m@${TEST_DOMAIN}>` };
  const info = await transport.sendMail({
    ...message,
    envelope: { from, to: [...to] },
    ...(dsn ? { dsn } : {}),
  } as object);
  transport.close();
  return /^250 2\.6\.0 (\S+) queued$/.exec((info as { response: string }).response)![1]!;
}

const reportsTo = (address: string, count = 1) =>
  eventually(
    () => stack.inbox(address),
    (found) => found.length >= count,
  );
const statesOf = (eeid: string) =>
  stack.context
    .db("delivery_reports")
    .join("messages", sameInstance("messages.id", "delivery_reports.message_id"))
    .where({ eeid })
    .orderBy("delivery_reports.id")
    .pluck("state");

describe("a failure", () => {
  it("is told at once, for all recipients together, with what the client said", async () => {
    const from = `failure@${TEST_DOMAIN}`;
    const to = ["reject+1@one.example.net", "reject+2@two.example.net", "taken@three.example.net"];
    const eeid = await submit({
      from,
      to,
      dsn: { id: "env+1 x", return: "headers", notify: "failure", recipient: "rfc822;old+x@example.org" },
    });
    // Nothing is told of a message that somebody else has in hand: so the one failure waits for the other.
    await stack.context.db.transaction(async (transaction) => {
      await transaction("messages").where({ instance_id: stack.instanceId, eeid }).forNoKeyUpdate().select("id");
      await eventually(
        () => statesOf(eeid),
        (states) => states.length === 2,
      );
    });
    const [report] = await reportsTo(from);
    const text = report!.octets.toString("utf8");
    expect(text).toMatch(/^DKIM-Signature: /m);
    expect(text).toMatch(/^Auto-Submitted: auto-replied\r$/m);
    expect(text).toMatch(/^Reporting-MTA: dns; /m);
    expect(text).toMatch(/^Original-Envelope-Id: env\+1 x\r$/m);
    expect(text).toMatch(/^Original-Recipient: rfc822; old\+x@example.org\r$/m);
    expect(text).toMatch(/^Final-Recipient: rfc822; reject\+1@one.example.net\r$/m);
    expect(text).toMatch(/^Final-Recipient: rfc822; reject\+2@two.example.net\r$/m);
    expect(text).not.toContain("taken@three.example.net\r\nAction");
    expect(text).toMatch(/^Content-Type: text\/rfc822-headers\r$/m);
    expect(text).toMatch(/^In-Reply-To: <m@sender.example.org>\r$/m);
    expect(text).not.toMatch(/^X-Delivery-Token:/m);
    const finding = await interpret(report!.octets);
    expect(finding).toMatchObject({ kind: "dsn" });
    // In the order in which they failed.
    const told = finding.results.map(({ recipient, action, status, hard }) => ({ recipient, action, status, hard }));
    expect(told.sort((a, b) => (a.recipient < b.recipient ? -1 : 1))).toEqual(
      ["reject+1@one.example.net", "reject+2@two.example.net"].map((recipient) => ({
        ...{ recipient, action: "failed", status: "5.1.1", hard: true },
      })),
    );
    const [row] = await stack.context.db("sandbox_messages").where({ rcpt_to: from });
    expect(row.mail_from).toBe("");
    const [key] = await listInstanceDomains(stack.context.db, stack.instanceId);
    const resolver = async () => [[key!.dkimRecord]];
    const { results } = await dkimVerify(report!.octets, { resolver } as object);
    expect(results[0]!.status.result).toBe("pass");
  });

  it("brings the message back where the client asks for it and it is small enough", async () => {
    const from = `full@${TEST_DOMAIN}`;
    await submit({
      from,
      to: ["reject+1@example.net"],
      dsn: { return: "full", notify: "failure" },
      text: "remember me",
    });
    const text = (await reportsTo(from))[0]!.octets.toString("utf8");
    expect(text).toMatch(/^Content-Type: message\/rfc822\r$/m);
    expect(text).toContain("remember me");
    await submit({ from, to: ["reject+1@example.net"], dsn: { return: "full" }, text: "large ".repeat(60_000) });
    const large = (await reportsTo(from, 2))[1]!.octets.toString("utf8");
    expect(large).toMatch(/^Content-Type: text\/rfc822-headers\r$/m);
    expect(large.length).toBeLessThan(10_000);
  });

  it("is told to nobody who does not want it, and to who says nothing only where the instance says so", async () => {
    const from = `silent@${TEST_DOMAIN}`;
    const never = await submit({ from, to: ["reject+1@never.example.net"], dsn: { notify: "never" } });
    const success = await submit({ from, to: ["reject+1@never.example.net"], dsn: { notify: "success" } });
    const nothing = await submit({ from, to: ["reject+1@never.example.net"] });
    await setInstanceSettings(stack.context.db, stack.instanceId, { failureReports: true, language: "es" });
    const always = await submit({ from, to: ["reject+1@always.example.net"] });
    const [report] = await reportsTo(from);
    await setInstanceSettings(stack.context.db, stack.instanceId, { failureReports: false, language: "en" });
    expect(report!.subject).toBe("No se ha podido entregar su mensaje");
    expect(report!.octets.toString("utf8")).toContain("reject+1@always.example.net");
    expect(await statesOf(always)).toContain("told");
    for (const eeid of [never, success, nothing]) expect(await statesOf(eeid)).not.toContain("told");
    expect(await stack.inbox(from)).toHaveLength(1);
  });

  it("is told of recipients that nothing is sent to", async () => {
    const from = `left-out@${TEST_DOMAIN}`;
    const gone = "gone@left.example.net";
    await submit({ from, to: [gone] });
    await stack.context.db("contacts").where({ email: gone }).update({ invalid: true });
    await submit({ from, to: [gone], dsn: { notify: "failure" } });
    const [report] = await reportsTo(from);
    expect((await interpret(report!.octets)).results[0]).toMatchObject({
      recipient: gone,
      action: "failed",
      status: "5.7.1",
    });
  });

  it("that mail systems further on report later is told once", async () => {
    const from = `later@${TEST_DOMAIN}`;
    const eeid = await submit({ from, to: ["bounce+1@later.example.net"], dsn: { notify: "failure,success" } });
    const reports = await reportsTo(from, 2);
    const results = await Promise.all(reports.map(async ({ octets }) => (await interpret(octets)).results[0]!));
    const told = Object.fromEntries(results.map((result) => [result.action, result.status]));
    const ofFailure = reports
      .map(({ octets }) => octets.toString("utf8"))
      .find((text) => /^Action: failed/m.test(text))!;
    expect(told).toEqual({ relayed: expect.stringMatching(/^2\./), failed: "5.1.1" });
    expect(await statesOf(eeid)).toEqual(["told", "told"]);
    const [, type, words] = ofFailure.match(/^Diagnostic-Code: (\S+); (.*)\r$/m)!;
    expect([type, words]).toEqual(["smtp", expect.stringMatching(/^550 5\.1\.1 /)]);
    const kept = await stack.context
      .db("delivery_reports")
      .where({ kind: "failure", recipient: "bounce+1@later.example.net", words })
      .select("reported");
    expect(kept).toEqual([{ reported: { status: "5.1.1", diagnosticType: "smtp" } }]);
  });
});

describe("a success", () => {
  it("is `relayed` where the far side offers no reports", async () => {
    const from = `success@${TEST_DOMAIN}`;
    await submit({
      from,
      to: ["one@success.example.net"],
      dsn: { notify: "success,failure", return: "full", id: "e1" },
    });
    const [report] = await reportsTo(from);
    const text = report!.octets.toString("utf8");
    expect(text).toMatch(/^Action: relayed\r$/m);
    // RFC 3461 §4.3: RET is about failures.
    expect(text).toMatch(/^Content-Type: text\/rfc822-headers\r$/m);
  });
});

describe("a report", () => {
  it("is no batch, no contact and no event of anybody", async () => {
    const from = `nobody@${TEST_DOMAIN}`;
    await submit({ from, to: ["reject+1@quiet.example.net"], dsn: { notify: "failure" } });
    await reportsTo(from);
    const { db } = stack.context;
    const { report_message_id } = await db("delivery_reports")
      .where({ recipient: "reject+1@quiet.example.net" })
      .first();
    const { eeid } = await db("messages").where({ id: report_message_id }).first();
    expect((await stack.call("GET", `/eeid_info/${eeid}`)).status).toBe(404);
    expect(await db("contacts").where({ email: from })).toEqual([]);
    expect(await db("events").where({ eeid })).toEqual([]);
    const batches = await listBatches(db, stack.instanceId, { limit: 1_000 });
    expect(batches.map((batch) => batch.eeid)).not.toContain(eeid);
  });

  it("that cannot be delivered is the end of it", async () => {
    const from = `reject+sender@${TEST_DOMAIN}`;
    await submit({ from, to: ["reject+1@end.example.net"], dsn: { notify: "failure" } });
    const { db } = stack.context;
    const ended = await eventually(
      async () =>
        queuedDeliveries(db)
          .join("messages", sameInstance("messages.id", "partitions.message_id"))
          .where({ is_report: true, recipient: from })
          .select("deliveries.state", "bounce", "messages.eeid"),
      ([row]) => row?.state === "refused",
    );
    expect(ended).toMatchObject([{ state: "refused", bounce: null }]);
    expect(await db("events").where({ eeid: ended[0].eeid })).toEqual([]);
    expect(await db("delivery_reports").where({ recipient: from })).toEqual([]);
  });

  it("goes to no domain that the instance has lost", async () => {
    const { db } = stack.context;
    const domain = "lost.example.org";
    await db.raw(
      "insert into instance_domains select instance_id, ?, dkim_selector, dkim_key_sealed, dkim_record from instance_domains limit 1",
      [domain],
    );
    const from = `info@${domain}`;
    await holdDestination(db, "lost.example.net", "operator");
    const eeid = await submit({
      from,
      to: ["defer+1@lost.example.net", "reject+1@lost.example.net"],
      dsn: { notify: "failure" },
    });
    await db("instance_domains").where({ domain }).delete();
    await releaseDestination(db, "lost.example.net");
    await eventually(
      () => statesOf(eeid),
      (states) => states.includes("withheld") || states.includes("told"),
    );
    expect(await statesOf(eeid)).toContain("withheld");
    expect(await stack.inbox(from)).toEqual([]);
  });
});
