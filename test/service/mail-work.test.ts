import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { openDb, type Transaction } from "../../services/platform/postgres/db.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import {
  beginWork,
  haveLookedAt,
  listWork,
  putOffWork,
  wakeInstances,
} from "../../services/store/mail/queue/mail-work.ts";
import { accepted } from "../support/accepted.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { listWaiting } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";
import { openStatementGate } from "../support/statement-gate.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
let database: TestDatabase;
let instanceId: number;

beforeAll(async () => {
  database = await createTestDatabase(4);
  const instance = { name: "test", host: "mail.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(database.db, KEY_RING, instance);
  instanceId = (await findInstanceByName(database.db, "test"))!.id;
});
afterAll(() => database.drop());
beforeEach(async () => {
  for (const table of ["deliveries", "partitions", "messages", "batches", "mail_work"])
    await database.db(table).delete();
});

async function send(transaction: Transaction): Promise<void> {
  const address = validateAddress("reader@example.net", { allowSmtputf8: false });
  if (!address.ok) throw new Error(address.error.message);
  accepted(
    await acceptSend(transaction, {
      ...{ instanceId, campaignNumid: 1, creator: "smtp", copies: [], archive: false },
      ...{ senderDomain: "example.org", sender: "info@example.org", recipients: [{ address: address.value }] },
      content: { kind: "finished", octets: Buffer.from("From: info@example.org\r\nMessage-ID: <1@x>\r\n\r\nHi\r\n") },
    }),
  );
}

const isDue = async () => (await listWork(database.db)).instanceIds.includes(instanceId);
const nextAt = async () =>
  (await database.db("mail_work").where({ instance_id: instanceId }).first("next_at"))?.next_at;
const beDue = () => database.db.transaction((transaction) => haveLookedAt(transaction, [instanceId]));

test("an instance without mail is not looked at, and one with new mail is from its commit on", async () => {
  expect(await isDue()).toBe(false);
  await database.db.transaction(async (transaction) => {
    await send(transaction);
    expect(await isDue()).toBe(false);
  });
  expect(await isDue()).toBe(true);
  expect(await putOffWork(database.db, [instanceId])).toEqual([instanceId]);
});

test("new mail of an instance that is to be looked at anyway writes nothing, and waits for nobody", async () => {
  await beDue();
  const version = async () => (await database.db("mail_work").first(database.db.raw("ctid::text as place"))).place;
  const before = await version();
  await database.db.transaction(async (one) => {
    await send(one);
    await database.db.transaction(send);
  });
  expect(await version()).toBe(before);
});

test("mail that is not committed yet is not put off", async () => {
  await beDue();
  await database.db.transaction(async (transaction) => {
    await send(transaction);
    expect(await putOffWork(database.db, [instanceId])).toEqual([instanceId]);
  });
  expect(await isDue()).toBe(true);
  await database.db("partitions").update({ state: "finished" });
  expect(await putOffWork(database.db, [instanceId])).toEqual([]);
  expect(await isDue()).toBe(false);
});

test("mail that is queued while somebody puts the next look off is looked at", async () => {
  await beDue();
  const gate = await openStatementGate(database.url);
  const db = openDb(gate.url, { connections: 1, name: "gate" });
  try {
    const looking = gate.stopNext("find-next-mail-work");
    const putting = putOffWork(db, [instanceId]);
    await eventually(
      async () => looking.hasCome(),
      (hasCome) => hasCome,
    );
    const sending = database.db.transaction(send);
    await eventually(
      () => listWaiting(database.db),
      (waiting) => waiting.some(({ wait_event }) => wait_event === "advisory"),
    );
    looking.letGo();
    expect(await putting).toEqual([]);
    await sending;
    expect(await isDue()).toBe(true);
  } finally {
    await db.destroy();
    gate.close();
  }
});

test("the next look is when something is due, or a lease ends, and once an hour", async () => {
  const { db } = database;
  await db.transaction(send);
  const at = new Date(Date.now() + 60_000);
  await db("partitions").update({ state: "deferred", due_at: at });
  expect(await putOffWork(db, [instanceId])).toEqual([]);
  expect(await nextAt()).toEqual(at);
  await db("partitions").update({ state: "leased", lease_until: new Date(at.getTime() + 1_000) });
  expect(await putOffWork(db, [instanceId])).toEqual([]);
  expect(await nextAt()).toEqual(new Date(at.getTime() + 1_000));
  await db("partitions").update({ state: "finished" });
  expect(await putOffWork(db, [instanceId])).toEqual([]);
  const idleMs = (await nextAt())!.getTime() - Date.now();
  expect(idleMs).toBeGreaterThan(3_500_000);
  expect(idleMs).toBeLessThan(3_700_000);
  // What is due by then is due for whoever wakes it, and no later.
  await db.transaction(async (transaction) => {
    await beginWork(transaction, [instanceId]);
    await wakeInstances(transaction, [{ instanceId, at }]);
    await wakeInstances(transaction, [{ instanceId, at: new Date(at.getTime() + 5_000) }]);
  });
  expect(await nextAt()).toEqual(at);
});

test("an instance that was removed is forgotten", async () => {
  const { db } = database;
  await db.transaction((transaction) => haveLookedAt(transaction, [instanceId + 1]));
  expect(await putOffWork(db, [instanceId + 1])).toEqual([]);
  expect(await db("mail_work").where({ instance_id: instanceId + 1 })).toEqual([]);
});
