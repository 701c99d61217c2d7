import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSends, type Send } from "../../services/operations/mail/accept-sends.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { resolveRecipients } from "../../services/store/mail/contacts/recipients.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";
import { lockPartitions, releasePartitions } from "../../services/store/mail/queue/queue-leases.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

/** So often a prepared statement has run before PostgreSQL keeps its plan. */
const UNTIL_KEPT = 6;
const SENDS = 2_000;
const WORKER = randomUUID();

let database: TestDatabase;
/** As delivery opens it, of one connection. */
let db: Db;
let instanceId: number;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDb(database.url, { connections: 1, name: "delivery", byIndex: true });
  for (const table of ["batches", "messages", "partitions", "deliveries", "contacts"])
    await database.db.raw("alter table ?? set (autovacuum_enabled = false)", [table]);
  const instance = { name: "t", host: "t.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(database.db, KeyRing.ofSecret("a secret for tests only"), instance);
  instanceId = (await findInstanceByName(database.db, "t"))!.id;
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

describe.skipIf(inject("citusWorkers").length > 0)("plans made while there was nothing (Citus plans by itself)", () => {
  test("read a few rows when there are thousands", async () => {
    for (let n = 0; n < UNTIL_KEPT; n++) await work(`early${n}`);
    for (let first = 0; first < SENDS; first += 500) {
      const sends = Array.from({ length: 500 }, (_, n) => toOne(`r${first + n}@d${n % 20}.example.net`));
      await database.db.transaction((transaction) => acceptSends(transaction, sends));
    }
    expect(await rowsRead(() => work("late"))).toBeLessThan(SENDS / 5);
  });
});

test("the settings are of pools that ask for them, and of none behind a pooler", async () => {
  const pooled = openDb(database.url, { connections: 1, name: "pooled", byIndex: true, pooled: true });
  const settingsOf = (pool: Db) =>
    queryRows(pool, "select current_setting('enable_seqscan') as scan, current_setting('jit') as jit");
  expect(await settingsOf(db)).toEqual([{ scan: "off", jit: "off" }]);
  expect(await settingsOf(pooled)).toMatchObject([{ scan: "on" }]);
  await pooled.destroy();
});

/** What comes together by some connections, and a look of a worker. */
async function work(name: string): Promise<void> {
  const recipients = Array.from({ length: 9 }, (_, n) => ({ address: addressOf(`${name}.${n}@example.net`) }));
  await resolveRecipients(db, instanceId, [{ campaignNumid: 1, recipients }]);
  const asked = await leasePartitions(db, {
    ...{ workerId: WORKER, leaseSeconds: 60, now: new Date().toISOString(), barred: [], before: "" },
    ...{ room: new Map(), partitionsPerDestination: 1, unfinished: [] },
    asks: [{ instanceId, share: 5, lots: 12, after: "", isNew: false }],
  });
  const keys = asked.flatMap(({ partitions }) => partitions.map(({ id }) => ({ instanceId, id })));
  await db.transaction(async (transaction) => {
    const now = await beginWork(transaction, [instanceId]);
    await lockPartitions(transaction, keys);
    const releases = keys.map(({ id: partitionId }) => ({ instanceId, partitionId, putOffSeconds: 0 }));
    await releasePartitions(transaction, WORKER, releases, now);
  });
}

/** Of the queue and of contacts, by the connection that works. */
async function rowsRead(step: () => Promise<void>): Promise<number> {
  const look = async () => {
    await queryRows(db, "select pg_stat_force_next_flush()");
    const [row] = await queryRows<{ read: number }>(
      db,
      `select (select sum(seq_tup_read) from pg_stat_user_tables where relname = any($1))
         + (select sum(idx_tup_read) from pg_stat_user_indexes where relname = any($1)) as read`,
      [["batches", "messages", "partitions", "deliveries", "contacts"]],
    );
    return Number(row!.read);
  };
  const before = await look();
  await step();
  return (await look()) - before;
}

function addressOf(email: string) {
  const address = validateAddress(email, { allowSmtputf8: false });
  if (!address.ok) throw new Error(address.error.message);
  return address.value;
}

function toOne(email: string): Send {
  return {
    ...{ instanceId, campaignNumid: 1, creator: "smtp", archive: false, copies: [] },
    ...{ senderDomain: "example.org", sender: "info@example.org", recipients: [{ address: addressOf(email) }] },
    content: { kind: "finished", octets: Buffer.from("Subject: hello\r\n\r\n") },
  };
}
