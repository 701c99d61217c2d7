import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import { acceptSends, type Send } from "../../services/operations/mail/accept-sends.ts";
import { recordOutcomes } from "../../services/operations/mail/outcomes.ts";
import { type Db, openDb, queryRows, type Transaction } from "../../services/platform/postgres/db.ts";
import { removeEvents } from "../../services/store/mail/contacts/contact-erasure-traces.ts";
import { resolveRecipients } from "../../services/store/mail/contacts/recipients.ts";
import { listCopyEvents } from "../../services/store/mail/events/event-copies.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";
import {
  extendLeases,
  loadDueDeliveries,
  lockPartitions,
  releasePartitions,
} from "../../services/store/mail/queue/queue-leases.ts";
import { acknowledgeStops, findStops } from "../../services/store/mail/queue/queue-stops.ts";
import { listBatches } from "../../services/store/mail/sends/batches.ts";
import { attemptFacts } from "../support/attempts.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

// What is done for a few messages reads a few rows, or at most a table once, on a deployment without statistics too, where
// the planner takes an instance for small.

/** Batches that statistics know of. */
const FEW = 1;
/** Batches after the statistics were made. */
const BATCHES = 1_000;
const WORKER = randomUUID();

let database: TestDatabase;
let instanceId: number;
beforeAll(async () => {
  ({ database, instanceId } = await makeQueue());
  for (const count of [FEW, BATCHES]) {
    await acceptOnes(database.db, instanceId, count);
    if (count === FEW) await database.db.raw("analyze");
  }
});
afterAll(() => database.drop());

/** An instance that nothing was sent from, in a database that makes no statistics by itself. */
async function makeQueue(): Promise<{ readonly database: TestDatabase; readonly instanceId: number }> {
  const made = await createTestDatabase();
  const { db } = made;
  await db.raw(
    `create function queue_rows_read() returns bigint volatile return (
       select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables
       where relname ~ '^(batches|messages|partitions|deliveries|contacts|events_[0-9]{4}_[0-9]{2})(_[0-9]+|)$')`,
  );
  for (const table of ["batches", "messages", "partitions", "deliveries", "contacts"])
    await db.raw("alter table ?? set (autovacuum_enabled = false)", [table]);
  const instance = { name: "t", host: "t.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), instance);
  return { database: made, instanceId: (await findInstanceByName(db, "t"))!.id };
}

/** Accepts messages to one recipient each. */
async function acceptOnes(db: Db, instanceId: number, count: number): Promise<void> {
  const sends = Array.from(
    { length: count },
    (_, n): Send => ({
      ...{ instanceId, campaignNumid: 1, creator: "smtp", archive: false, copies: [] },
      ...{ senderDomain: "example.org", sender: "info@example.org", recipients: [recipient(`r${n}@d${n % 20}`)] },
      content: { kind: "finished", octets: Buffer.from("Subject: hello\r\n\r\n") },
    }),
  );
  await db.transaction((transaction) => acceptSends(transaction, sends));
}

function recipient(name: string) {
  const address = validateAddress(`${name}.example.net`, { allowSmtputf8: false });
  if (!address.ok) throw new Error(address.error.message);
  return { address: address.value };
}

/** Five partitions of an instance. */
function fiveOf(instanceId: number) {
  return {
    ...{ workerId: WORKER, leaseSeconds: 60, now: new Date().toISOString(), suspended: [] },
    ...{ slots: new Map(), slotsPerQueue: 1, unfinished: [] },
    asks: [{ instanceId, share: 5, queues: 12, after: "", isNew: false, goesAhead: true, aheadAfter: "" }],
  };
}

/** Rows of the queue and of contacts that a step reads, as the machine counts them that has the instance. */
async function reads(transaction: Transaction, step: () => Promise<unknown>, ofInstance = instanceId): Promise<number> {
  const look = async () => {
    const [row] = await queryRows<{ read: number }>(
      transaction,
      "select queue_rows_read() as read from instance_domains where instance_id = $1",
      [ofInstance],
    );
    return row!.read;
  };
  const before = await look();
  await step();
  return (await look()) - before;
}

test("steps of a worker that takes five partitions of a thousand", async () => {
  await database.db.transaction(async (transaction) => {
    const counted = new Map<string, number>();
    const count = async (name: string, step: () => Promise<unknown>) =>
      counted.set(name, await reads(transaction, step));
    const leased: number[] = [];
    await count("lease", async () => {
      for (const { partitions } of await leasePartitions(transaction, fiveOf(instanceId))) {
        leased.push(...partitions.map(({ id }) => id));
      }
    });
    const keys = leased.map((id) => ({ instanceId, id }));
    let due: Awaited<ReturnType<typeof loadDueDeliveries>> = [];
    await count("load", async () => (due = await loadDueDeliveries(transaction, keys)));
    expect(due).toHaveLength(5);
    await count("prolong", () => extendLeases(transaction, WORKER, 60, keys));
    await count("find stops", () => findStops(transaction, WORKER, [instanceId], []));
    await count("stop", () => acknowledgeStops(transaction, WORKER, keys));
    const now = await beginWork(transaction, [instanceId]);
    const outcomes = due.map(({ id: deliveryId, recipient }) => ({
      ...{ instanceId, deliveryId, recipient, state: "delivered" as const, attempts: 1, reply: "250 ok" },
      attempt: attemptFacts(),
    }));
    await count("store", () => recordOutcomes(transaction, { now }, outcomes, { hardBouncesToInvalidate: 2 }));
    const releases = leased.map((partitionId) => ({ instanceId, partitionId, putOffSeconds: 0 }));
    await count("give back", () => releasePartitions(transaction, WORKER, releases, now));
    expect(await transaction("partitions").where({ state: "finished" })).toHaveLength(5);
    for (const [name, read] of counted) expect(read, name).toBeLessThan(2 * BATCHES);
  });
});

test("a page of an instance's batches, once statistics know them", async () => {
  await database.db.raw("analyze");
  await database.db.transaction(async (transaction) => {
    let page: Awaited<ReturnType<typeof listBatches>> = [];
    const list = (before?: string) => listBatches(transaction, instanceId, { limit: 5, ...(before && { before }) });
    expect(await reads(transaction, async () => (page = await list()))).toBeLessThan(100);
    expect(page).toHaveLength(5);
    expect(await reads(transaction, async () => (page = await list(page.at(-1)!.eeid)))).toBeLessThan(100);
    expect(page).toHaveLength(5);
  });
});

test("of an instance's events, and of its copies', an erasure reads those of the address alone", async () => {
  const { db } = database;
  const month = new Date("2026-02-10T00:00:00Z");
  await ensureEventMonths(db, [month]);
  const [subject, contactId] = [recipient("subject@copies").address, 1_000_000];
  const add = (count: number, columns: string, values: string) =>
    db.raw(
      `insert into events (instance_id, at, kind, ${columns}) select ?, ?::timestamptz, 0, ${values} from generate_series(1, ${count}) n`,
      [instanceId, month],
    );
  await add(5 * BATCHES, "email", "'other' || n || '@copies.example.net'");
  await add(5 * BATCHES, "contact_id", `${contactId} + n`);
  await add(3, "contact_id", `${contactId}`);
  await add(2, "email", "'subject@Copies.example.net'");
  await db.transaction(async (transaction) => {
    const remove = (id: number | null, address: EmailAddress) =>
      removeEvents(transaction, { instanceId, contactId: id, address, spellings: [] });
    let removed = 0;
    expect(await reads(transaction, async () => (removed = await remove(contactId, subject)))).toBeLessThan(100);
    expect(removed).toBe(5);
    expect(await reads(transaction, () => remove(null, recipient("nobody@copies").address))).toBeLessThan(100);
    expect(await reads(transaction, () => listCopyEvents(transaction, instanceId, subject))).toBeLessThan(100);
  });
});

/** So often a prepared statement has run before PostgreSQL keeps its plan. */
const UNTIL_KEPT = 6;

describe.skipIf(inject("citusWorkers").length > 0)("delivery's connections (a Citus plans by itself)", () => {
  test("a plan that was made while there was nothing reads a few rows when there are thousands", async () => {
    const queue = await makeQueue();
    const db = openDb(queue.database.url, { connections: 1, name: "delivery", byIndex: true });
    const work = (name: string) =>
      db.transaction((transaction) => resolveAndLease(transaction, queue.instanceId, name));
    for (let n = 0; n < UNTIL_KEPT; n++) await work(`early${n}`);
    await acceptOnes(queue.database.db, queue.instanceId, 2 * BATCHES);
    expect(await work("late")).toBeLessThan((2 * BATCHES) / 5);
    await db.destroy();
    await queue.database.drop();
  });

  test("finds what goes ahead among thousands of others, by a plan that was made while there was nothing", async () => {
    const queue = await makeQueue();
    const db = openDb(queue.database.url, { connections: 1, name: "delivery", byIndex: true });
    const lease = () =>
      db.transaction(async (transaction) => {
        let ahead: boolean[] = [];
        const step = async () => {
          const looked = await leasePartitions(transaction, fiveOf(queue.instanceId));
          ahead = looked.flatMap(({ partitions }) => partitions.map(({ goesAhead }) => goesAhead));
        };
        return { read: await reads(transaction, step, queue.instanceId), ahead };
      });
    for (let n = 0; n < UNTIL_KEPT; n++) await lease();
    await acceptOnes(queue.database.db, queue.instanceId, 2 * BATCHES);
    await queue.database.db("partitions").whereNot({ destination: "d7.example.net" }).update({ goes_ahead: false });
    const { read, ahead } = await lease();
    expect(ahead.filter(Boolean)).toHaveLength(1);
    expect(read).toBeLessThan(200);
    await db.destroy();
    await queue.database.drop();
  });

  test("have their settings, and behind a pooler none", async () => {
    const settingsOf = async (options: { readonly pooled: boolean }) => {
      const db = openDb(database.url, { ...options, connections: 1, name: "delivery", byIndex: true });
      const rows = await queryRows(
        db,
        `select current_setting('enable_seqscan') as scan, current_setting('jit') as jit,
           current_setting('enable_material') as material`,
      );
      await db.destroy();
      return rows;
    };
    expect(await settingsOf({ pooled: false })).toEqual([{ scan: "off", jit: "off", material: "off" }]);
    expect(await settingsOf({ pooled: true })).toMatchObject([{ scan: "on", material: "on" }]);
  });
});

/** What comes together by some connections, and a look of a worker. @returns the rows read */
function resolveAndLease(transaction: Transaction, ofInstance: number, name: string): Promise<number> {
  const step = async () => {
    const recipients = Array.from({ length: 9 }, (_, n) => recipient(`${name}.${n}@d${n}`));
    await resolveRecipients(transaction, ofInstance, [{ campaignNumid: 1, recipients }]);
    const looked = await leasePartitions(transaction, fiveOf(ofInstance));
    const keys = looked.flatMap(({ partitions }) => partitions.map(({ id }) => ({ instanceId: ofInstance, id })));
    const now = await beginWork(transaction, [ofInstance]);
    await lockPartitions(transaction, keys);
    const releases = keys.map(({ id: partitionId }) => ({ instanceId: ofInstance, partitionId, putOffSeconds: 0 }));
    await releasePartitions(transaction, WORKER, releases, now);
  };
  return reads(transaction, step, ofInstance);
}
