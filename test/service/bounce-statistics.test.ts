import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { groupBounces, readSeries } from "../../services/store/mail/events/statistics.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { onEachMachine } from "../support/spread-tables.ts";

// Bounces are few among events: who asks for them must not pay for the others.
const EVENTS = 50_000;
const BOUNCE_EVERY = 500;

let database: TestDatabase;
/** One session, so that its own statistics tell what it did. */
let db: Db;
let instanceId: number;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDb(database.url, { connections: 1, name: "test" });
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), {
    name: "t",
    host: "t.test",
    key: "k",
    archive: false,
    domains: [],
  });
  instanceId = (await findInstanceByName(db, "t"))!.id;
  await ensureEventMonths(db, [new Date()]);
  await db.raw(
    `insert into events (instance_id, at, kind, email, detail)
     select ?, now(), case when n % ${BOUNCE_EVERY} > 0 then 1 when n % ${2 * BOUNCE_EVERY} = 0 then 4 else 5 end,
       'r' || n || '@d' || n % 3 || '.example.net', '{"reason": "userunknown"}'
     from generate_series(1, ${EVENTS}) as n`,
    [instanceId],
  );
  await db.raw("analyze events");
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

/** On whichever machines the rows are, as soon as these tell of it. */
async function scansOfBounces(): Promise<number> {
  const counting = `
    select coalesce(sum(idx_scan), 0)::int as scans from pg_stat_user_indexes where indexrelid in (
      select inhrelid from pg_inherits where inhparent::regclass::text ~ '^events_bounce(s|_reason)(_[0-9]+)?$')`;
  return (await onEachMachine(db, counting)).reduce((sum, scans) => sum + scans, 0);
}

test("bounces of an instance are counted from an index of bounces alone", async () => {
  const now = Date.now();
  const period = { instanceId, from: new Date(now - 86_400_000), until: new Date(now + 60_000) };
  const before = await scansOfBounces();
  const half = EVENTS / BOUNCE_EVERY / 2;
  expect(await groupBounces(db, period, "reason")).toEqual([{ key: "userunknown", hard: half, soft: half }]);
  expect((await groupBounces(db, period, "destination")).map(({ key }) => key).sort()).toEqual([
    "d0.example.net",
    "d1.example.net",
    "d2.example.net",
  ]);
  await expect.poll(scansOfBounces).toBeGreaterThanOrEqual(before + 2);
});

test("days are those of UTC, whatever zone the database's sessions are in", async () => {
  await db.raw("set time zone 'Europe/Madrid'");
  const counted = { instance_id: instanceId, grain: "day", bucket: "2026-10-27T00:00:00Z", sent: 7 };
  const columns = await db("event_counts").columnInfo();
  const zeros = Object.keys(columns).filter((name) => !Object.hasOwn(counted, name));
  await db("event_counts").insert({ ...Object.fromEntries(zeros.map((name) => [name, 0])), ...counted });
  // Clocks go back on the 25th.
  const period = { from: new Date("2026-10-24T09:00:00Z"), until: new Date("2026-10-28T09:00:00Z") };
  const series = await readSeries(db, { instanceId, ...period }, "day");
  expect(series.map(({ at, sent }) => `${at.toISOString()} ${sent}`)).toEqual([
    "2026-10-24T00:00:00.000Z 0",
    "2026-10-25T00:00:00.000Z 0",
    "2026-10-26T00:00:00.000Z 0",
    "2026-10-27T00:00:00.000Z 7",
    "2026-10-28T00:00:00.000Z 0",
  ]);
  await db.raw("reset time zone");
});
