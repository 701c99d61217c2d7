import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { sentence } from "../../services/core/sentences.ts";
import { acceptSends } from "../../services/operations/mail/accept-sends.ts";
import { endInstanceHold, markInstanceHeld } from "../../services/store/mail/guard/holds.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { holdDestination, releaseDestination } from "../../services/store/mail/queue/queue-destinations.ts";
import { countHeldInstances, readOutcomeStatus, readQueueStatus } from "../../services/store/status.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

const MINUTES = 30;
const RECIPIENT = "ana@example.net";

let database: TestDatabase;
let instanceId: number;
beforeAll(async () => {
  database = await createTestDatabase();
  const instance = { name: "t", host: "t.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(database.db, KeyRing.ofSecret("a secret for tests only"), instance);
  instanceId = (await findInstanceByName(database.db, "t"))!.id;
});
afterAll(() => database.drop());
beforeEach(async () => {
  const { db } = database;
  await db("batches").delete();
  const address = validateAddress(RECIPIENT, { allowSmtputf8: false });
  if (!address.ok) throw new Error(RECIPIENT);
  await db.transaction((transaction) =>
    acceptSends(transaction, [
      {
        ...{ instanceId, campaignNumid: 1, creator: "smtp", archive: false, copies: [] },
        ...{ senderDomain: "example.org", sender: "info@example.org", recipients: [{ address: address.value }] },
        content: { kind: "finished", octets: Buffer.from("Subject: hello\r\n\r\n") },
      },
    ]),
  );
  const hourAgo = new Date(Date.now() - 3_600_000);
  await db("partitions").update({ due_at: hourAgo, modified_at: hourAgo });
});

const isReady = async () => {
  const { partitions, readySeconds } = await readQueueStatus(database.db);
  return { ready: partitions.ready, held: partitions.held, isLate: readySeconds > 3_000 };
};
const READY = { ready: 1, held: 0, isLate: true };
const HELD = { ready: 0, held: 1, isLate: false };

test("what is ready of an instance that is held does not wait for anybody, and does again when it is released", async () => {
  const { db } = database;
  expect([await isReady(), await countHeldInstances(db)]).toEqual([READY, { guard: 0, operator: 0 }]);
  const reason = sentence("guard-by-hand", { reason: "stolen key" });
  await db.transaction((transaction) => markInstanceHeld(transaction, instanceId, { reason, by: "guard" }));
  expect([await isReady(), await countHeldInstances(db)]).toEqual([HELD, { guard: 1, operator: 0 }]);
  await db.transaction((transaction) => endInstanceHold(transaction, instanceId));
  await db.transaction((transaction) => markInstanceHeld(transaction, instanceId, { reason, by: "ana" }));
  expect([await isReady(), await countHeldInstances(db)]).toEqual([HELD, { guard: 0, operator: 1 }]);
  await db.transaction((transaction) => endInstanceHold(transaction, instanceId));
  expect(await isReady()).toEqual(READY);
});

test("so it is with what goes to a destination that is held", async () => {
  const { db } = database;
  await holdDestination(db, "example.net", "ana");
  expect(await isReady()).toEqual(HELD);
  await releaseDestination(db, "example.net");
  expect(await isReady()).toEqual(READY);
});

test("recipients who were put off lately are told from those who wait for a pace, and settled ones are counted", async () => {
  const { db } = database;
  const outcomes = () => readOutcomeStatus(db, MINUTES);
  expect(await outcomes()).toEqual({ minutes: MINUTES, settled: 0, putOff: 0 });
  await db("deliveries").update({ attempts: 1 });
  const partition = { state: "deferred", taken_at: new Date() };
  await db("partitions").update({ ...partition, modified_at: new Date() });
  expect(await outcomes()).toMatchObject({ putOff: 1 });
  await db("partitions").update({ paced_by: JSON.stringify({ provider: "gmail", sources: [], isPlanned: false }) });
  expect(await outcomes()).toMatchObject({ putOff: 0 });
  await db("partitions").update({ paced_by: null, modified_at: new Date(Date.now() - 3_600_000) });
  expect(await outcomes()).toMatchObject({ putOff: 0 });
  const row = (minutesAgo: number, tried: number) => ({
    ...{ instance_id: instanceId, tried },
    minute: new Date(Date.now() - minutesAgo * 60_000),
  });
  await db("outcome_counts").insert([row(50, 1), row(20, 20)]);
  await db("outcome_deltas").insert([row(1, 300)]);
  expect(await outcomes()).toMatchObject({ settled: 320 });
});
