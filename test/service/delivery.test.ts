import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { mostUnnoted, scaleOf } from "../../services/delivery/policy.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { isSpread } from "../../services/store/mail/by-instance.ts";
import { holdDestination, releaseDestination } from "../../services/store/mail/queue/queue-destinations.ts";
import { findBatch } from "../../services/store/mail/sends/batches.ts";
import {
  accept,
  database,
  eventually,
  failures,
  holdBatch,
  instanceId,
  makeWorker,
  numbered,
  recipientsOf,
  resumeBatch,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import type { SmtpSink } from "../support/smtp-sink.ts";
import { hoursBefore } from "../support/spread-tables.ts";

setUpDelivery();

describe("the worker", () => {
  test("reuses sessions, and no more of them than the policy allows", async () => {
    const far = await sink();
    const groups = { default: { connections: 3, messagesPerConnection: 50, messagesPerMinute: null } };
    run(makeWorker(routes({ "a.example.net": far.port }), { groups }));
    await untilSent(await accept(numbered(600, "a.example.net")));
    expect(new Set(recipientsOf(far)).size).toBe(600);
    expect(far.messages).toHaveLength(600);
    expect(far.sessions()).toBeGreaterThanOrEqual(12);
    expect(far.sessions()).toBeLessThanOrEqual(15);
    expect(failures).toEqual([]);
  });

  test("gives every recipient a return path of its own", async () => {
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(20, "a.example.net")));
    const returnPaths = new Set(far.messages.map(({ mailFrom }) => mailFrom));
    expect(returnPaths.size).toBe(20);
    for (const path of returnPaths) expect(path).toMatch(/^b\+[a-z2-7]+\.[a-z2-7]{24}@bounces\.example\.org$/);
  });

  test("shares a queue with others: nobody gets anything twice", async () => {
    const far = await sink();
    const findRoute = routes({ "a.example.net": far.port, "b.example.net": far.port });
    for (let i = 0; i < 3; i++) run(makeWorker(findRoute));
    const emails = [...numbered(800, "a.example.net"), ...numbered(800, "b.example.net")];
    await untilSent(await accept(emails));
    expect(recipientsOf(far).sort()).toEqual([...emails].sort());
  });

  test("stops in the midst of a batch, and another one finishes it", async () => {
    let asked = 0;
    let goOn = () => {};
    const stopping = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const far = await sink({
      onRcptTo: (_address, _session, done) => {
        asked += 1;
        // Whatever the worker does before it is told to stop, the batch is not over.
        if (asked > 100) void stopping.then(() => done());
        else done();
      },
    });
    const findRoute = routes({ "a.example.net": far.port });
    const first = makeWorker(findRoute);
    first.start();
    const eeid = await accept(numbered(1_000, "a.example.net"));
    await eventually(
      async () => far.messages.length,
      (count) => count > 50,
    );
    const stopped = first.stop();
    goOn();
    await stopped;
    const stoppedAt = far.messages.length;
    expect(stoppedAt).toBeLessThan(1_000);
    run(makeWorker(findRoute));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(1_000);
    expect(new Set(recipientsOf(far)).size).toBe(1_000);
  });
});

test("a clock that jumps by days loses nothing and gives nothing up", async () => {
  const DAY_MS = 86_400_000;
  let calls = 0;
  const clock = { nowMs: () => Date.now() + [0, 10, -10][calls++ % 3]! * DAY_MS };
  const refusals = new Set<string>();
  const greylisting = await sink({
    onRcptTo: ({ address }, _session, done) => {
      if (refusals.has(address)) return done();
      refusals.add(address);
      done(Object.assign(new Error("4.7.1 come back later"), { responseCode: 451 }));
    },
  });
  const eeid = await accept(numbered(60, "grey.example.net"));
  run(makeWorker(routes({ "grey.example.net": greylisting.port }), {}, [1], { clock }));
  await untilSent(eeid);
  expect(new Set(recipientsOf(greylisting)).size).toBe(60);
  expect(recipientsOf(greylisting)).toHaveLength(60);
});

test("time for which mail was paused or its destination held is no time in the queue", async () => {
  const { db } = database;
  const refused = new Set<string>();
  const greylisting = await sink({
    onRcptTo: ({ address }, _session, done) => {
      if (refused.has(address)) return done();
      refused.add(address);
      done(Object.assign(new Error("4.7.1 come back later"), { responseCode: 451 }));
    },
  });
  const paused = await accept(["one@paused.example.net"]);
  const forgotten = await accept(["one@forgotten.example.net"]);
  const held = await accept(["one@held.example.net"]);
  const untried = await accept(["one@untried.example.net"]);
  const both = await accept(["one@both.example.net"]);
  await holdBatch(paused);
  await holdBatch(both);
  await holdDestination(db, "held.example.net", "operator");
  // Age goes by the database's clock: as if it had been 100 hours ago, an hour before the pause.
  await db.raw(`update messages set created_at = ${hoursBefore("created_at", 100)} where eeid = any(?)`, [
    [paused, forgotten, held, untried, both],
  ]);
  await db.raw("update partitions set taken_at = now() - interval '100 hours' where eeid = any(?)", [
    [paused, forgotten, held, both],
  ]);
  await db.raw("update destination_holds set held_at = held_at - interval '99 hours'");
  await releaseDestination(db, "held.example.net");
  await db.raw(`update batches set held_at = ${hoursBefore("held_at", 99)} where held_at is not null`);
  // The one after the other: 99 hours more pass, for which the destination is held.
  await holdDestination(db, "both.example.net", "operator");
  await resumeBatch(both);
  await db.raw(`update messages set created_at = ${hoursBefore("created_at", 99)} where eeid = ?`, [both]);
  await db.raw(`update partitions set taken_at = ${hoursBefore("taken_at", 99)} where eeid = ?`, [both]);
  await db.raw("update destination_holds set held_at = held_at - interval '99 hours'");
  await releaseDestination(db, "both.example.net");
  await resumeBatch(paused);
  const names = ["paused", "forgotten", "held", "untried", "both"].map((name) => `${name}.example.net`);
  run(makeWorker(routes(Object.fromEntries(names.map((name) => [name, greylisting.port])))));
  const batches = [paused, forgotten, held, untried, both];
  await Promise.all(batches.map(untilSent));
  expect(recipientsOf(greylisting).sort()).toEqual([
    "one@both.example.net",
    "one@held.example.net",
    "one@paused.example.net",
    "one@untried.example.net",
  ]);
  const refusals = await Promise.all(batches.map(async (eeid) => (await findBatch(db, instanceId, eeid))!.refused));
  expect(refusals).toEqual([0, 1, 0, 0, 0]);
});

test("an address that is erased between two attempts is in no later one", async () => {
  const { db } = database;
  const gone = validateAddress("gone@b.example.net", { allowSmtputf8: true });
  if (!gone.ok) throw new Error(gone.error.message);
  const attempts: string[] = [];
  const far: SmtpSink = await sink({
    onData: (stream, _session, done) => {
      const octets: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => octets.push(chunk));
      stream.on("end", async () => {
        attempts.push(Buffer.concat(octets).toString("latin1"));
        if (attempts.length > 1) return done(null);
        await eraseAddress(db, instanceId, gone.value);
        await worker.heedNotice(); // as the notice has it do
        done(Object.assign(new Error("4.2.0 later"), { responseCode: 451 }));
      });
    },
  });
  const worker = makeWorker(routes({ "a.example.net": far.port }));
  await accept(["stays@a.example.net", "gone@b.example.net"], "<p>Or ask gone@b.example.net</p>");
  run(worker);
  await eventually(
    async () => attempts.length,
    (count) => count === 2,
  );
  expect(attempts[0]).toContain("gone@b.example.net");
  expect(attempts[1]).not.toContain("gone@b.example.net");
});

test("no more leaves without a note of it than a crash may repeat", async () => {
  const { db } = database;
  const far = await sink();
  const bounds = { lanes: 4, flushMs: 40, flushOutcomes: 5 };
  const scale = scaleOf(bounds, await isSpread(db));
  // On Citus a quarter of the lanes is taken ahead.
  const partitions = (await isSpread(db)) ? 1.25 * scale.lanes : scale.lanes;
  await accept(numbered(300, "unnoted.example.net"));
  const worker = makeWorker(routes({ "unnoted.example.net": far.port }), bounds);
  await db.transaction(async (transaction) => {
    // Nothing can be noted meanwhile, and everything be read.
    await transaction.raw("lock table deliveries in share mode");
    run(worker);
    await eventually(
      async () => far.messages.length,
      (count) => count >= 2 * scale.flushOutcomes,
    );
    await sleep(300);
    expect(far.messages.length).toBeLessThanOrEqual(mostUnnoted(scale, partitions));
  });
  await eventually(
    async () => far.messages.length,
    (count) => count === 300,
  );
});
