import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSends, type Send } from "../../services/operations/mail/accept-sends.ts";
import { recordOutcomes } from "../../services/operations/mail/outcomes.ts";
import { queryRows, type Transaction } from "../../services/platform/postgres/db.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";
import { extendLeases, loadDueDeliveries, releasePartitions } from "../../services/store/mail/queue/queue-leases.ts";
import { acknowledgeStops, findStops } from "../../services/store/mail/queue/queue-stops.ts";
import { listBatches } from "../../services/store/mail/sends/batches.ts";
import { attemptFacts } from "../support/attempts.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

// What is done for a few messages reads a few rows, or at most a table once, on a deployment without statistics too, where
// the planner takes an instance for small.

/** What statistics know of, */
const FEW = 1;
/** and what came after them. */
const BATCHES = 1_000;
const WORKER = randomUUID();

let database: TestDatabase;
let instanceId: number;
beforeAll(async () => {
  database = await createTestDatabase();
  const { db } = database;
  await db.raw(
    `create function queue_rows_read() returns bigint volatile return (
       select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables
       where relname ~ '^(batches|messages|partitions|deliveries)(_[0-9]+|)$')`,
  );
  for (const table of ["batches", "messages", "partitions", "deliveries"])
    await db.raw("alter table ?? set (autovacuum_enabled = false)", [table]);
  const instance = { name: "t", host: "t.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), instance);
  instanceId = (await findInstanceByName(db, "t"))!.id;
  for (const count of [FEW, BATCHES]) {
    await db.transaction((transaction) =>
      acceptSends(
        transaction,
        Array.from({ length: count }, (_, n) => toOne(n)),
      ),
    );
    if (count === FEW) await db.raw("analyze");
  }
});
afterAll(() => database.drop());

function toOne(number: number): Send {
  const address = validateAddress(`r${number}@d${number % 20}.example.net`, { allowSmtputf8: false });
  if (!address.ok) throw new Error(address.error.message);
  return {
    ...{ instanceId, campaignNumid: 1, creator: "smtp", archive: false, copies: [] },
    ...{ senderDomain: "example.org", sender: "info@example.org", recipients: [{ address: address.value }] },
    content: { kind: "finished", octets: Buffer.from("Subject: hello\r\n\r\n") },
  };
}

/** Rows of the queue that a step reads, as the machine counts them that has the instance. */
async function reads(transaction: Transaction, step: () => Promise<unknown>): Promise<number> {
  const look = async () => {
    const [row] = await queryRows<{ read: number }>(
      transaction,
      "select queue_rows_read() as read from instance_domains where instance_id = $1",
      [instanceId],
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
    const request = {
      ...{ workerId: WORKER, leaseSeconds: 60, now: new Date().toISOString(), barred: [], before: "" },
      ...{ room: new Map(), partitionsPerDestination: 1, unfinished: [] },
      asks: [{ instanceId, share: 5, lots: 12, after: "", isNew: false }],
    };
    const leased: number[] = [];
    await count("lease", async () => {
      for (const { partitions } of await leasePartitions(transaction, request)) {
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
