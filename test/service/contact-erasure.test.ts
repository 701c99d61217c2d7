import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend, type Send } from "../../services/operations/mail/accept-sends.ts";
import { eraseAddress, isNothing } from "../../services/operations/mail/contact-erasure.ts";
import { readAddressRecords } from "../../services/operations/mail/contact-export.ts";
import { recordBounces, recordComplaint } from "../../services/operations/mail/outcomes.ts";
import { sendDueReport } from "../../services/operations/mail/send-reports.ts";
import { beginAudit } from "../../services/store/console/audit.ts";
import { addFilter } from "../../services/store/mail/contacts/filters.ts";
import { addInboundMessages } from "../../services/store/mail/inbound/inbound.ts";
import { addSandboxMessages, countDeferral } from "../../services/store/mail/inbound/sandbox-messages.ts";
import { addReports } from "../../services/store/mail/queue/delivery-reports.ts";
import { QUEUE_CHANNEL } from "../../services/store/mail/queue/queue.ts";
import { withdrawBatch } from "../../services/store/mail/queue/queue-stops.ts";
import { cancelDelivery } from "../../services/store/mail/queue/single-deliveries.ts";
import { findBatch, readBatchProgress, setBatchCancelled } from "../../services/store/mail/sends/batches.ts";
import { saveTrackedLinks } from "../../services/store/mail/tracking/tracking.ts";
import { nextWebhookBatch } from "../../services/store/mail/tracking/webhooks.ts";
import { accepted } from "../support/accepted.ts";
import { attemptFacts } from "../support/attempts.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { queuedDeliveries } from "../support/spread-tables.ts";
import { storeOutcomes } from "../support/store-outcomes.ts";
import { findTraces } from "../support/traces.ts";
import { setWebhook } from "../support/webhooks.ts";

const SUBJECT = "josé.subject@bücher.example.net";
const SPELLINGS = [SUBJECT, "josé.subject@xn--bcher-kva.example.net"];
const OTHER = "other@example.org";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

test("erase leaves nothing of an address in the whole database, and everything of the others", async () => {
  await leaveTracesEverywhere();
  const before = await findTraces(api.db, SPELLINGS);
  for (const table of [
    "archived_messages",
    "console_audit",
    "contacts",
    "conversions",
    "deliveries",
    "events",
    "idempotency_keys",
    "inbound_messages",
    "messages",
    "sandbox_messages",
    "tracked_links",
    "webhook_batches",
    "whitelist",
  ]) {
    expect(before, table).toContain(table);
  }
  const held = await readAddressRecords(api.db, api.north.id, address(SUBJECT));
  expect(held.messages.length).toBeGreaterThanOrEqual(4);
  expect(held.returned).toHaveLength(2);

  const erased = await eraseAddress(api.db, api.north.id, address(SUBJECT));
  expect(erased.contacts).toBe(1);
  expect(await findTraces(api.db, SPELLINGS)).toEqual([]);

  const others = await readAddressRecords(api.db, api.north.id, address(OTHER));
  expect(others.contact).toBeDefined();
  expect(others.messages).toHaveLength(3);
  const left = await api.db("messages").orderBy("id").select("template", "octets");
  expect(left.find(({ octets }) => octets?.includes("To: "))?.octets.toString()).toBe(
    `From: a@example.org\r\nTo: other@example.org, ${"x".repeat(29)}@x.invalid\r\n\r\nHello\r\n`,
  );
  const told = await api.db("webhook_batches").first("body", "events");
  const { eventos } = JSON.parse(told.body);
  expect(eventos).toHaveLength(told.events);
  expect(new Set(eventos.map(({ email }: { email: string }) => email))).toEqual(new Set([OTHER, "copy@example.org"]));
});

test("what brings a message back that went to several goes as well, whomever it is about", async () => {
  const { db, north } = api;
  const [gone, barred, rejected] = [
    "gone@shared.example.org",
    "barred@shared.example.org",
    "reject@shared.example.org",
  ];
  await db("contacts").insert({ ...contactRow(barred), invalid: true });
  const octets = `From: a@example.org\r\nTo: ${gone}, ${barred}, ${rejected}\r\n\r\nHello\r\n`;
  const { messageId, deliveries } = await send({
    recipients: [gone, barred, rejected],
    octets,
    mailFrom: "a@example.org",
  });
  const failure = { kind: "failure", state: "due", action: "failed", dsn: null, words: "550 5.1.1" } as const;
  const failed = {
    ...failure,
    instanceId: north.id,
    messageId,
    deliveryId: deliveries.get(rejected)!,
    recipient: rejected,
  };
  await db.transaction((transaction) => addReports(transaction, [failed]));
  const policy = { gatherSeconds: 0, recipientsPerReport: 10, reportsPerHour: 10, withheldAfterHours: 1 };
  const host = { hostname: "mail.example.org", giveUpHours: 1, now: new Date() };
  expect(await sendDueReport(db, { ...policy, returnedOctets: 10_000 }, host, north.id)).toMatchObject({
    outcome: "sent",
  });
  const complaint = { mailFrom: "", clientAddress: null, deliveryId: null, feedbackAddress: "fbl@bounces.localhost" };
  await addInboundMessages(db, [{ ...complaint, octets: Buffer.from(octets) }]);
  await db("inbound_messages")
    .where({ octets: Buffer.from(octets) })
    .update({ state: "applied", about_delivery_id: deliveries.get(rejected)! });
  const outcome = { ...delivered(rejected, deliveries.get(rejected)!), state: "refused" as const };
  const { eeid } = await db("messages").where({ id: messageId }).first("eeid");
  const archived = { eeid, recipientKey: rejected, octets: Buffer.from(octets) };
  await db.transaction((transaction) =>
    storeOutcomes(transaction, [{ ...outcome, archived }], { hardBouncesToInvalidate: 2 }),
  );
  const held = ["archived_messages", "contacts", "inbound_messages", "messages"];
  for (const who of [gone, barred]) expect(await findTraces(db, [who])).toEqual(expect.arrayContaining(held));
  const reports = () => db("messages").where({ is_report: true, instance_id: north.id });
  expect((await reports())[0].octets.includes(gone)).toBe(true);

  await eraseAddress(db, north.id, address(gone));
  expect(await findTraces(db, [gone])).toEqual([]);
  expect(await reports()).toHaveLength(1);
});

test.each([
  ["invalid", { invalid: true }],
  ["unsubscribed", { unsubscribed_at: new Date(0) }],
  ["unsubscribed from the campaign", {}],
])(
  "a message names nobody any more who was among its recipients, though nothing was sent to them: %s",
  async (barred, as) => {
    const { db, north } = api;
    const [gone, other] = ["barred@unsent.example.org", "other@unsent.example.org"];
    const [{ id }] = await db("contacts").insert({ ...contactRow(gone), ...as }, ["id"]);
    if (barred === "unsubscribed from the campaign") {
      await db.raw(
        "insert into campaigns (numid, id, instance_id, type, name) overriding system value values (1, gen_random_uuid(), ?, 'normal', 'n')",
        [north.id],
      );
      const objection = { contact_id: id, campaign_numid: 1, at: new Date(0) };
      await db("campaign_unsubscriptions").insert({ instance_id: north.id, ...objection });
    }
    const octets = `From: a@example.org\r\nTo: ${gone}, ${other}\r\n\r\nHello\r\n`;
    const { deliveries } = await send({ recipients: [gone, other], octets });
    expect([...deliveries.keys()]).toEqual([other]);
    const copied = { html: `<p>${gone}</p>`, to: gone, cc: [other] };
    const copy = await send({ recipients: [gone], copies: [other], template: copied });
    await send({ recipients: [other], copies: [gone], template: { html: "x", to: other, cc: [gone] } });
    await eraseAddress(db, north.id, address(gone));
    expect(await findTraces(db, [gone])).toEqual([]);
    expect(
      await db("deliveries")
        .whereIn("id", [...deliveries.values()])
        .pluck("state"),
    ).toEqual(["queued"]);
    expect(
      await db("deliveries")
        .whereIn("id", [...copy.deliveries.values()])
        .pluck("state"),
    ).toEqual(["cancelled"]);
  },
);

test("what others got, and are to get, from a mailbox that had unsubscribed stays, and what only speaks of somebody", async () => {
  const { db, north } = api;
  const [author, spoken, other] = ["info@example.org", "spoken@unsent.example.org", "other@unsent.example.org"];
  await db("contacts").insert(
    [author, spoken].map((email) => ({ ...contactRow(email), unsubscribed_at: new Date(0) })),
  );
  const octets = `From: ${author}\r\nReply-To: ${author}\r\nTo: ${other}\r\n\r\nAs ${spoken} says.\r\n`;
  const submitted = await send({ recipients: [other], octets });
  const written = await send({ recipients: [other], template: { html: `<p>As ${spoken} says.</p>`, to: other } });
  const contentOf = ({ messageId }: { messageId: number }) =>
    db("messages").where({ id: messageId }).first("octets", "template");
  const before = [await contentOf(submitted), await contentOf(written)];
  for (const email of [author, spoken]) await eraseAddress(db, north.id, address(email));
  expect([await contentOf(submitted), await contentOf(written)]).toEqual(before);
});

test("a message whose recipients are still being gathered stays, for those who are to come", async () => {
  const { eeid, messageId } = await send({ recipients: ["first@example.org"], template: { html: "x" } });
  await api.db("batches").where({ eeid }).update({ gathering: true });
  await eraseAddress(api.db, api.north.id, address("first@example.org"));
  expect(await api.db("messages").where({ id: messageId })).toHaveLength(1);
});

test("mail that waits is counted without those who were erased, and without what went with theirs", async () => {
  const [first, other, copy] = ["first@waits.example.org", "other@waits.example.org", "copy@waits.example.org"];
  await send({ recipients: [first, other], template: { html: "x" } });
  await send({ recipients: [first], copies: [copy], template: { html: "x", to: first, cc: [copy] } });
  const counted = async () => {
    const partitions = await api.db("partitions").where({ destination: "waits.example.org" }).pluck("recipients");
    return partitions.reduce((sum, recipients) => sum + recipients, 0);
  };
  expect(await counted()).toBe(4);
  await eraseAddress(api.db, api.north.id, address(first));
  expect(await counted()).toBe(1);
});

test("reports about sender domains, and what waits, stay: the name in them may be a reporter's to other instances", async () => {
  const { db, north } = api;
  const reporter = address("noreply-dmarc@reporter.test");
  const named = { mailFrom: "", clientAddress: "192.0.2.1", octets: Buffer.from(`From: ${reporter.text}\r\n\r\n`) };
  const report = { ...named, deliveryId: null, feedbackAddress: "r+token@bounces.localhost", isReport: true };
  const complaint = { ...named, deliveryId: null, feedbackAddress: "fbl@bounces.localhost" };
  await addInboundMessages(db, [report, report, report, complaint, complaint]);
  const rows = db("inbound_messages").whereLike("feedback_address", "%@bounces.localhost");
  const ids = await rows.clone().orderBy("id", "desc").limit(5).pluck("id");
  const [sample, , applied, quarantined] = ids;
  await db("inbound_messages").where({ id: sample }).update({ state: "applied", unexplained: "not-ours" });
  await db("inbound_messages").where({ id: applied }).update({ state: "applied" });
  await db("inbound_messages").where({ id: quarantined }).update({ state: "quarantined" });

  expect(isNothing(await eraseAddress(db, north.id, reporter))).toBe(true);
  expect(await rows.clone().whereIn("id", ids).orderBy("id", "desc").pluck("id")).toEqual(ids.slice(1));
  await db("inbound_messages").whereIn("id", ids).delete();
});

test("workers are told to look anew only of what is queued, or was changed", async () => {
  const { db, north } = api;
  const notices: string[] = [];
  const listener = await db.client.acquireConnection();
  listener.on("notification", ({ payload }: { payload: string }) => notices.push(payload));
  await listener.query(`listen ${QUEUE_CHANNEL}`);
  try {
    await send({ recipients: ["told@example.org"], template: { html: "x" } });
    // What has been told by now comes before the answer.
    await listener.query("select 1");
    notices.length = 0;
    await eraseAddress(db, north.id, address("nobody@example.org"));
    await eraseAddress(db, north.id, address("told@example.org"));
    await expect.poll(() => notices).toEqual(["stop"]);
  } finally {
    await listener.query(`unlisten ${QUEUE_CHANNEL}`);
    await db.client.releaseConnection(listener);
  }
});

const isSpread = inject("citusWorkers").length > 0;
const skipNote = isSpread ? " (skipped: on Citus locks are waited for at the workers)" : "";

test.skipIf(isSpread)(`nobody is gone while a partition counts them still${skipNote}`, async () => {
  const { db, north } = api;
  const gone = address("gone@counted.example.org");
  const { deliveries } = await send({ recipients: [gone.text, "stays@counted.example.org"], template: { html: "x" } });
  const held = await db.transaction();
  await held("partitions").where({ destination: "counted.example.org" }).forUpdate();
  const erasing = eraseAddress(db, north.id, gone);
  const waiting = "datname = current_database() and wait_event_type = 'Lock'";
  await expect.poll(() => db("pg_stat_activity").whereRaw(waiting).pluck("pid")).toHaveLength(1);
  expect(await db("deliveries").whereIn("id", [...deliveries.values()])).toHaveLength(2);
  await held.rollback();
  await erasing;
  expect(await db("deliveries").whereIn("id", [...deliveries.values()])).toHaveLength(1);
  expect(await db("partitions").where({ destination: "counted.example.org" }).pluck("recipients")).toEqual([1]);
});

test("what names another address, of which the erased one is a part, stays", async () => {
  const { db, north } = api;
  const [gone, longer, further, named] = [
    "ana@part.example.org",
    "mariana@part.example.org",
    "ana@part.example.org.ar",
    "named@part.example.org",
  ];
  const octets = `From: a@example.org\r\nTo: ${longer}, ${further}\r\n\r\nHello\r\n`;
  const { eeid, messageId, deliveries } = await send({ recipients: [gone, longer, further, named], octets });
  const archived = new Map([
    [gone, octets],
    [longer, octets],
    [further, `To: ${further}\r\n\r\n\u00ab${longer}\u00bb`],
    [named, `To: ${named}\r\n\r\n<a href=3D"https://example.org/?who=3D${gone}">`],
  ]);
  await db.transaction((transaction) =>
    storeOutcomes(
      transaction,
      [...deliveries].map(([recipient, deliveryId]) => ({
        ...delivered(recipient, deliveryId),
        archived: { eeid, recipientKey: recipient, octets: Buffer.from(archived.get(recipient)!) },
      })),
      { hardBouncesToInvalidate: 2 },
    ),
  );
  const returned = { mailFrom: "", clientAddress: null, feedbackAddress: null };
  await addInboundMessages(
    db,
    [longer, further, named].map((recipient) => ({
      ...{ ...returned, deliveryId: deliveries.get(recipient)! },
      octets: Buffer.from(`Final-Recipient: rfc822; ${recipient}\r\nTo: ${recipient === named ? gone : longer}\r\n`),
    })),
  );
  const links = new Map([longer, gone].map((who, index) => [`${index}123456789ab`, `https://example.org/?who=${who}`]));
  await saveTrackedLinks(db, { id: messageId, instanceId: north.id }, { links, hidden: new Set() });
  await addSandboxMessages(
    db,
    [longer, gone].map((rcptTo) => ({
      ...{ mailFrom: "b+token@bounces.localhost", rcptTo, sender: "info@example.org", subject: "x" },
      ...{ octets: Buffer.from(`To: ${rcptTo}\r\n\r\n`), outcome: "accepted" as const, reportDue: false },
    })),
  );
  const about = { role: "instance", scope: "north" } as const;
  const called = { actor: "ana", address: "192.0.2.9", action: "mail.post", detail: {}, about };
  for (const who of [longer, gone]) await beginAudit(db, { ...called, object: `whitelist/${who}` }, new Date());

  await eraseAddress(db, north.id, address(gone));
  const keptOf = (table: string, column: string) =>
    db(table)
      .whereIn(column, [...deliveries.values()])
      .pluck(column);
  expect((await keptOf("archived_messages", "delivery_id")).sort()).toEqual(
    [deliveries.get(longer), deliveries.get(further)].sort(),
  );
  expect((await keptOf("inbound_messages", "delivery_id")).sort()).toEqual(
    [deliveries.get(longer), deliveries.get(further)].sort(),
  );
  expect(await db("tracked_links").where({ message_id: messageId }).pluck("target")).toEqual([
    `https://example.org/?who=${longer}`,
  ]);
  expect(await db("sandbox_messages").whereIn("rcpt_to", [longer, gone]).pluck("rcpt_to")).toEqual([longer]);
  const objects = await db("console_audit").whereLike("object", "whitelist/%").orderBy("id").pluck("object");
  expect(objects).toEqual([`whitelist/${longer}`, "whitelist/xxxxxxxxxx@x.invalid"]);
});

test("a mailbox of the sandbox that put the address off forgets it", async () => {
  const email = "defer+gone@example.org";
  await send({ recipients: [email], template: { html: "x" } });
  await countDeferral(api.db, "b+token@bounces.localhost", email);
  await eraseAddress(api.db, api.north.id, address(email));
  expect(await findTraces(api.db, [email])).toEqual([]);
});

test("an outcome that comes after the erasure leaves nothing of the address", async () => {
  const { db, north } = api;
  const email = "flying@example.org";
  const { eeid, deliveries } = await send({ recipients: [email], template: { html: "x" } });
  await eraseAddress(db, north.id, address(email));
  for (const state of ["queued", "refused", "delivered"] as const) {
    const outcome = { ...delivered(email, deliveries.get(email)!), state, retryInSeconds: 60 };
    const archived = { eeid, recipientKey: email, octets: Buffer.from(`To: ${email}\r\n\r\n`) };
    const bounce = { hard: true, detail: { reply: `550 ${email} unknown` } };
    // What was on the wire has come to the sandbox meanwhile.
    await addSandboxMessages(db, [
      {
        ...{ mailFrom: "b+token@bounces.localhost", rcptTo: email, sender: "info@example.org", subject: "x" },
        ...{ octets: Buffer.from(`To: ${email}\r\n\r\n`), outcome: "accepted", reportDue: false },
      },
    ]);
    await countDeferral(db, "b+token@bounces.localhost", email);
    await db.transaction((transaction) =>
      storeOutcomes(transaction, [{ ...outcome, archived, ...(state === "refused" ? { bounce } : {}) }], {
        hardBouncesToInvalidate: 1,
      }),
    );
    expect(await findTraces(db, [email]), state).toEqual([]);
  }
});

type Step =
  | "deliver"
  | "refuse"
  | "discard"
  | "cancel"
  | `erase-${"queued" | "delivered" | "refused" | "discarded" | "cancelled"}`;
const ORDERS: readonly (readonly Step[])[] = [
  [
    ...(["deliver", "refuse", "discard", "erase-queued", "cancel"] as const),
    ...(["erase-cancelled", "erase-discarded", "erase-delivered", "erase-refused"] as const),
  ],
  ["discard", "cancel", "erase-discarded", "discard"],
  ["discard", "erase-discarded", "deliver", "erase-delivered", "cancel", "erase-cancelled", "discard"],
  ["erase-queued", "cancel", "erase-cancelled", "erase-cancelled"],
  ["deliver", "deliver", "refuse", "erase-delivered", "erase-refused", "discard", "discard", "cancel", "cancel"],
];

test.each(ORDERS.map((steps) => [steps.join(", "), steps] as const))("a batch counts truly: %s", async (_, steps) => {
  const { db, north } = api;
  const people = Array.from({ length: 6 }, (_, index) => `p${index}@${steps.length}${index % 2}.counts.example.org`);
  const { eeid, deliveries } = await send({ recipients: people, template: { html: "x" } });
  const of = new Map<string, string[]>([["queued", [...people]]]);
  const move = (from: string, to: string) => {
    const person = of.get(from)!.shift()!;
    of.set(to, [...(of.get(to) ?? []), person]);
    return person;
  };
  const expected = { recipients: people.length, delivered: 0, refused: 0, queued: people.length, cancelled: 0 };
  const settle = async (state: "delivered" | "refused") => {
    const person = move("queued", state);
    const { partition_id: id } = await db("deliveries")
      .where({ id: deliveries.get(person)! })
      .first("partition_id");
    await db("partitions").where({ id }).update({ taken_at: db.fn.now() });
    await db.transaction((transaction) =>
      storeOutcomes(transaction, [{ ...delivered(person, deliveries.get(person)!), state }], {
        hardBouncesToInvalidate: 2,
      }),
    );
    expected[state] += 1;
    expected.queued -= 1;
  };
  const takeOff = () => {
    expected.recipients -= 1;
    expected.queued -= 1;
  };
  for (const step of steps) {
    if (step === "deliver") await settle("delivered");
    else if (step === "refuse") await settle("refused");
    else if (step === "discard") {
      const isQueued = of.get("queued")!.length > 0;
      const person = isQueued ? move("queued", "discarded") : of.get("cancelled")![0]!;
      expect(await cancelDelivery(db, north.id, deliveries.get(person)!)).toBe(isQueued ? "done" : "settled");
      if (isQueued) takeOff();
    } else if (step === "cancel") {
      await setBatchCancelled(db, north.id, eeid);
      await withdrawBatch(db, { instanceId: north.id, eeid });
      of.set("cancelled", [...(of.get("cancelled") ?? []), ...of.get("queued")!.splice(0)]);
      expected.cancelled += expected.queued;
      expected.queued = 0;
    } else {
      const state = step.slice("erase-".length);
      await eraseAddress(db, north.id, address(of.get(state)!.shift()!));
      if (state === "queued") takeOff();
    }
    expect(await readBatchProgress(db, north.id, eeid), step).toMatchObject(expected);
    expect(await findBatch(db, north.id, eeid), step).toMatchObject({
      recipients: expected.recipients,
      refused: expected.refused,
    });
  }
});

const delivered = (recipient: string, deliveryId: number) => ({
  ...{ instanceId: api.north.id, deliveryId, recipient, state: "delivered" as const, attempts: 1 },
  ...{ reply: `250 ${recipient} ok`, attempt: attemptFacts() },
});

test("an erasure and the outcomes of the same messages at the same time end well", async () => {
  for (let round = 0; round < 3; round++) {
    const people = Array.from({ length: 20 }, (_, index) => `p${index}.${round}@example.org`);
    await send({ recipients: people, template: { html: "x" } });
    const deliveries: { id: number; recipient: string }[] = await api
      .db("deliveries")
      .whereIn("recipient", people)
      .select("id", "recipient");
    const refuse = (order: typeof deliveries) =>
      api.db.transaction((transaction) =>
        storeOutcomes(
          transaction,
          order.map(({ id, recipient }) => ({
            instanceId: api.north.id,
            deliveryId: id,
            recipient,
            state: "refused" as const,
            attempts: 1,
            reply: "550 5.1.1",
            attempt: attemptFacts({ code: 550, status: "5.1.1" }),
            bounce: { hard: true, detail: {} },
          })),
          { hardBouncesToInvalidate: 1 },
        ),
      );
    // None waits for another in a circle: a refusal that was given up would be rejected here.
    await Promise.all([
      refuse(deliveries.slice(0, 10)),
      ...people.map((email) => eraseAddress(api.db, api.north.id, address(email))),
      refuse(deliveries.slice(10).toReversed()),
    ]);
    expect(await api.db("deliveries").whereIn("recipient", people)).toEqual([]);
  }
});

/** Everything that the product stores of somebody, by the functions that store it. */
async function leaveTracesEverywhere(): Promise<void> {
  const { db, keyRing, north } = api;
  await setWebhook(db, keyRing, north.id, "https://hook.example.net/");
  const alone = await send({ recipients: [SUBJECT], template: { html: `<p>Hello ${SUBJECT}</p>` } });
  await send({ recipients: [SUBJECT, OTHER], template: { html: "<p>Hello XYZEMAILXYZ</p>" } });
  const withCopy = await send({
    recipients: [OTHER],
    copies: [SUBJECT],
    template: {
      html: `<p>Ask ${SUBJECT}</p>`,
      globals: { HELP: `Ask ${SUBJECT}`, SHOP: "Corner" },
      to: OTHER,
      cc: [SUBJECT],
    },
  });
  await send({ recipients: [SUBJECT], copies: ["copy@example.org"], template: { html: "x", to: SUBJECT, cc: [] } });
  await send({
    recipients: [OTHER, SUBJECT],
    octets: `From: a@example.org\r\nTo: ${OTHER}, ${SPELLINGS[1]}\r\n\r\nHello\r\n`,
  });
  const ofCopy = { id: withCopy.messageId, instanceId: north.id };
  const links = new Map([["0123456789ab", `https://example.org/?who=${SUBJECT}`]]);
  await saveTrackedLinks(db, ofCopy, { links, hidden: new Set() });

  const deliveryId = alone.deliveries.get(SUBJECT)!;
  const at = new Date();
  await db.transaction(async (transaction) => {
    await storeOutcomes(
      transaction,
      [...alone.deliveries, ...withCopy.deliveries].map(([recipient, id]) => ({
        instanceId: north.id,
        deliveryId: id,
        recipient,
        state: "delivered" as const,
        attempts: 1,
        reply: `250 ${recipient} ok`,
        attempt: attemptFacts(),
        archived: { eeid: withCopy.eeid, recipientKey: recipient, octets: Buffer.from(`Cc: ${SUBJECT}\r\n\r\nx`) },
      })),
      { hardBouncesToInvalidate: 2 },
    );
    await recordBounces(
      transaction,
      [
        {
          instanceId: north.id,
          deliveryId,
          hard: true,
          at,
          detail: { reason: "userunknown", reply: `550 ${SUBJECT} unknown` },
        },
      ],
      {
        hardBouncesToInvalidate: 1,
      },
    );
    await recordComplaint(transaction, { instanceId: api.north.id, deliveryId, at, detail: {} });
  });
  const contactId = await db("contacts").where({ email: SUBJECT }).first("id");
  await db("conversions").insert({
    instance_id: north.id,
    reference: SUBJECT,
    contact_id: contactId.id,
    delivery_id: deliveryId,
    at,
  });
  const report = { mailFrom: "", clientAddress: "192.0.2.1", octets: Buffer.from(`Final-Recipient: ${SUBJECT}`) };
  await addInboundMessages(db, [
    { ...report, deliveryId, feedbackAddress: null },
    { ...report, deliveryId: null, feedbackAddress: "fbl@bounces.localhost" },
    { ...report, deliveryId: null, feedbackAddress: "fbl@bounces.localhost" },
    { ...report, deliveryId: withCopy.deliveries.get(OTHER)!, feedbackAddress: null },
  ]);
  const [identified] = await db("inbound_messages").whereNotNull("feedback_address").orderBy("id").limit(1);
  await db("inbound_messages").where({ id: identified.id }).update({ state: "applied", about_delivery_id: deliveryId });
  await db("inbound_messages")
    .whereNotNull("feedback_address")
    .whereNull("about_delivery_id")
    .update({ state: "applied", unexplained: "not-ours" });
  await addSandboxMessages(db, [
    {
      mailFrom: "b+token@bounces.localhost",
      rcptTo: SPELLINGS[1]!,
      sender: "info@example.org",
      subject: "x",
      octets: Buffer.from(`To: ${SUBJECT}\r\n\r\n`),
      outcome: "accepted",
      reportDue: false,
    },
  ]);
  await db("idempotency_keys").insert({
    instance_id: north.id,
    key: `welcome-${SUBJECT}`,
    body_hash: Buffer.alloc(32),
    answer: "{}",
  });
  await beginAudit(
    db,
    {
      actor: "ana",
      address: "192.0.2.9",
      action: "mail.post",
      object: `north /v1/whitelist/${SUBJECT}`,
      detail: { email: SUBJECT },
      about: { role: "instance", scope: "north" },
    },
    at,
  );
  await db("whitelist").insert({ instance_id: north.id, email_key: address(SUBJECT).key });
  await addFilter(db, north.id, { name: "everybody", condition: { all: [] } });
  await nextWebhookBatch(db, north.id, 1_000, (events) =>
    JSON.stringify({ instancia: "north", eventos: events.map(({ email }) => ({ evento: "envio", email })) }),
  );
  // Of a contact that is invalid by now: an event that waits in `webhook_events`.
  await send({ recipients: [SUBJECT], template: { html: "later" } });
}

test("who is erased while a call to them is being accepted is not queued", async () => {
  const { db, north } = api;
  const [gone, stays] = ["late@example.org", "stays@example.org"];
  const call = async (firstName: string) =>
    accepted(
      await db.transaction((transaction) =>
        acceptSend(transaction, {
          ...{ instanceId: north.id, campaignNumid: 1, creator: "api", copies: [], archive: false },
          ...{ senderDomain: "example.org", sender: "info@example.org" },
          content: { kind: "finished", octets: Buffer.from("Subject: x\r\n\r\n") },
          recipients: [{ address: address(gone) }, { address: address(stays), firstName }],
        }),
      ),
    );
  const locks = async (granted: boolean) => {
    const ofThis =
      "locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())";
    return (await db.raw(`select from pg_locks where ${ofThis} and granted = ?`, [granted])).rows.length;
  };
  await call("One");
  // The call stands before it has queued anybody, as somebody has locked one of its recipients.
  const held = await db.transaction();
  await held("contacts").where({ instance_id: north.id, email: stays }).forUpdate();
  const calling = call("Two");
  await expect.poll(() => locks(true)).toBeGreaterThan(0);
  const erasing = eraseAddress(db, north.id, address(gone));
  await expect.poll(() => locks(false)).toBe(1);
  await held.rollback();
  await calling;
  await erasing;
  expect(await findTraces(db, [gone])).toEqual([]);
});

interface TestSend {
  readonly recipients: readonly string[];
  readonly copies?: readonly string[];
  readonly template?: {
    readonly html: string;
    readonly globals?: Readonly<Record<string, string>>;
    readonly to?: string;
    readonly cc?: readonly string[];
  };
  readonly octets?: string;
  /** Whoever is told what becomes of it. */
  readonly mailFrom?: string;
}

const contactRow = (email: string) => ({
  ...{ instance_id: api.north.id, email, email_key: email },
});

async function send({ recipients, copies = [], template, octets, mailFrom }: TestSend) {
  const mailbox = (email: string) => ({ name: "", address: email });
  const content: Send["content"] =
    octets !== undefined
      ? { kind: "finished", octets: Buffer.from(octets) }
      : {
          kind: "template",
          attachments: [],
          template: {
            from: mailbox("info@example.org"),
            subject: "x",
            unsubscribe: false,
            html: template!.html,
            ...(template!.globals && { globals: template!.globals }),
            ...(template!.to === undefined ? {} : { to: mailbox(template!.to) }),
            ...(template!.cc === undefined ? {} : { cc: template!.cc.map(mailbox) }),
          },
        };
  const outcome = await api.db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId: api.north.id,
      campaignNumid: 1,
      creator: "api",
      senderDomain: "example.org",
      sender: "info@example.org",
      content,
      recipients: recipients.map((email) => ({ address: address(email) })),
      copies: copies.map((email) => ({ address: address(email), role: "cc" })),
      archive: true,
      dsn: mailFrom === undefined ? undefined : { mailFrom, international: false, returns: "full" as const },
    }),
  );
  const { eeid } = accepted(outcome);
  const rows = await queuedDeliveries(api.db)
    .where({ eeid })
    .select("deliveries.id", "deliveries.recipient", "message_id");
  return {
    eeid,
    messageId: (rows[0]?.message_id ?? 0) as number,
    deliveries: new Map(rows.map(({ recipient, id }) => [recipient as string, id as number])),
  };
}

function address(text: string): EmailAddress {
  const valid = validateAddress(text, { allowSmtputf8: true });
  if (!valid.ok) throw new Error(valid.error.message);
  return valid.value;
}
