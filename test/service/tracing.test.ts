import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import type { Send } from "../../services/operations/mail/accept-sends.ts";
import { SendQueue } from "../../services/operations/mail/send-queue.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { inSpan, startTracing } from "../../services/platform/observability/tracing.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { loadMessages } from "../../services/store/mail/sends/messages.ts";
import { findTraceParent } from "../../services/store/mail/sends/trace-parents.ts";
import { inTransaction } from "../../services/store/transactions.ts";
import { accepted } from "../support/accepted.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { queuedDeliveries } from "../support/spread-tables.ts";
import { type CollectedSpan, startTraceCollector, type TraceCollector } from "../support/trace-collector.ts";

let database: TestDatabase;
let collector: TraceCollector;
/** Opened while traces are made. */
let db: Db;
let stop: (() => Promise<void>) | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
  collector = await startTraceCollector();
  const config = loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  if (!config.ok) throw new Error(config.error.join());
  stop = await startTracing(config.value, "mail-api", () => {});
  db = openDb(database.url, { connections: 4, name: "test" });
});
afterAll(async () => {
  await stop?.();
  await collector.close();
  await db.destroy();
  await database.drop();
});

/** Runs something in a span; @returns the spans beneath that, oldest first */
async function spansOf(name: string, run: () => Promise<unknown>): Promise<CollectedSpan[]> {
  await inSpan(name, {}, async () => run());
  const { traceId, spanId } = await collector.find((span) => span.name === name);
  return collector.spans.filter((span) => span.traceId === traceId && span.spanId !== spanId);
}

test("a transaction is a span that names its statements, and a statement without one is a span of its own", async () => {
  const spans = await spansOf("reads and writes", async () => {
    await queryRows(db, "select name from instances where name = $1", ["secret-value-1"], { name: "find-instance" });
    await inTransaction(db, async (transaction) => {
      await transaction("resellers").where({ name: "secret-value-2" }).select("id");
      await queryRows(transaction, "update companies set name = $1 where name = $2", ["secret-value-3", "x"]);
      await transaction.transaction((savepoint) => queryRows(savepoint, "select 1"));
    });
    await db("companies").where({ name: "secret-value-4" }).delete();
  });
  expect(spans.map(({ name, events }) => [name, events])).toEqual([
    ["find-instance", []],
    [
      "database transaction",
      [
        "select resellers",
        "update companies",
        expect.stringMatching(/^savepoint/),
        "select",
        expect.stringMatching(/^release/),
      ],
    ],
    ["delete companies", []],
  ]);
  for (const { attributes, failed } of spans) {
    expect(attributes).toMatchObject({ "db.system.name": "postgresql" });
    expect(failed).toBe(false);
  }
  expect(collector.bodies.join()).not.toContain("secret-value");
});

test("what fails is said by its SQLSTATE, and what is rolled back is no failure by itself", async () => {
  const spans = await spansOf("fails", async () => {
    await expect(queryRows(db, "select 1 / 0 from companies")).rejects.toThrow("division");
    await expect(
      inTransaction(db, (transaction) => transaction.raw("select secret_column from companies")),
    ).rejects.toThrow();
    await expect(inTransaction(db, () => Promise.reject(new Error("thought better of it")))).rejects.toThrow("better");
  });
  expect(spans.map(({ name, failed, attributes }) => [name, failed, attributes["error.type"]])).toEqual([
    ["select companies", true, "22012"],
    ["database transaction", true, "42703"],
    ["database transaction", false, undefined],
  ]);
  expect(collector.bodies.join()).not.toContain("secret_column");
});

test("statements of nobody's span, and of one that has ended, are in no trace", async () => {
  let after: Promise<unknown> = Promise.resolve();
  const spans = await spansOf("ends early", async () => {
    after = new Promise((resolve) => setImmediate(resolve)).then(() => queryRows(db, "select 1 from companies"));
  });
  await after;
  await queryRows(db, "select 1 from companies");
  await spansOf("the next one", async () => {});
  expect(spans).toEqual([]);
  expect(collector.spans.filter(({ name, failed }) => name === "select companies" && !failed)).toEqual([]);
});

test("a message knows the span that it was accepted in, and so does whatever comes back for it", async () => {
  const { db: untraced } = database;
  await addTestInstance(untraced, KeyRing.ofSecret("a secret for tests only"), {
    ...{ name: "t", host: "t.test", key: "k", archive: false, domains: [] },
  });
  const instanceId = (await findInstanceByName(untraced, "t"))!.id;
  const sends = new SendQueue(db);
  const accept = (content: Send["content"]) => {
    const address = validateAddress("someone@example.net", { allowSmtputf8: false });
    if (!address.ok) throw new Error(address.error.message);
    return sends.accept({
      ...{ instanceId, campaignNumid: 1, creator: "api", senderDomain: "sender.example.org", content },
      sender: "a@sender.example.org",
      ...{ recipients: [{ address: address.value }], copies: [], archive: false },
    });
  };
  const octets = Buffer.from("Subject: x\r\n\r\n");
  const tracking = { places: [], links: { a: "http://example.org/" } };
  const from = { name: "", address: "a@sender.example.org" };
  const template = { from, subject: "x", html: "x", unsubscribe: false };
  const contents: Send["content"][] = [
    { kind: "finished", octets },
    { kind: "finished", octets, tracking },
    { kind: "template", template, attachments: [] },
  ];
  // At the same time: they share transactions, and each keeps its own span.
  const eeids = await Promise.all(
    contents.map((content, n) => inSpan(`accept ${n}`, {}, async () => accepted(await accept(content)).eeid)),
  );
  eeids.push(accepted(await accept(contents[0]!)).eeid);

  const rows = await queuedDeliveries(untraced).select(
    "deliveries.id",
    "partitions.message_id",
    "partitions.eeid",
    "partitions.instance_id",
  );
  const messages = await loadMessages(
    untraced,
    rows.map((row) => ({ id: row.message_id, instanceId: row.instance_id })),
  );
  for (const [n, eeid] of eeids.entries()) {
    const { id, message_id } = rows.find((row) => row.eeid === eeid);
    const span = n < contents.length ? await collector.find(({ name }) => name === `accept ${n}`) : undefined;
    const traceParent = span && `00-${span.traceId}-${span.spanId}-01`;
    expect(await findTraceParent(untraced, id)).toBe(traceParent);
    expect(messages.get(message_id)).toMatchObject({ traceParent, content: contents[n] ?? contents[0]! });
  }
  expect(await findTraceParent(untraced, 0)).toBeUndefined();
  await collector.find(({ name, events }) => name === "database transaction" && events.includes("open-batches"));
});
