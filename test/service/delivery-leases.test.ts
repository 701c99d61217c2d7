import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";
import { releasePartitions, wakePartitions } from "../../services/store/mail/queue/queue-leases.ts";
import {
  accept,
  answeringOnDemand,
  database,
  eventually,
  instanceId,
  jumpingTime,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  untilLocked,
  untilOnTheWire,
  untilSent,
} from "../support/delivery.ts";
import { openStatementGate, type StatementGate } from "../support/statement-gate.ts";

setUpDelivery();

describe("faults", () => {
  test("what a dead worker held goes to another when its lease ends", async () => {
    const far = await sink();
    const eeid = await accept(numbered(10, "a.example.net"));
    const [taken] = await leasePartitions(database.db, {
      workerId: randomUUID(),
      asks: [{ instanceId, share: 10, queues: 100, after: "", isNew: false, goesAhead: true, aheadAfter: "" }],
      leaseSeconds: 2,
      now: new Date().toISOString(),
      ...{ suspended: [], end: "", slots: new Map(), unfinished: [] },
      slotsPerQueue: 10,
    });
    expect(taken!.partitions).toHaveLength(1);
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(10);
  });

  test("what workers are lost over again and again rests, longer each time, until one has done with it", async () => {
    const { db } = database;
    const eeid = await accept(["one@a.example.net"]);
    const own = () => db("partitions").where({ eeid });
    const { id } = await own().first("id");
    const lose = async () => {
      await own().update({ state: "leased", lease_owner: randomUUID(), lease_until: db.raw("now()") });
      await wakePartitions(db, [instanceId], 1_000);
      // When it was taken back is when its rest began.
      return own().first("state", "lost_leases", db.raw("extract(epoch from due_at - modified_at)::float8 as rest"));
    };
    expect(await lose()).toMatchObject({ state: "ready", lost_leases: 1 });
    for (const [index, rest] of [5, 10, 20, 40].entries()) {
      const lost = await lose();
      expect(lost).toMatchObject({ state: "deferred", lost_leases: index + 2 });
      expect(lost.rest).toBeGreaterThan(rest - 1);
      expect(lost.rest).toBeLessThan(2 * rest);
    }
    await own().update({ lost_leases: 100 });
    const { rest } = await lose();
    expect(rest).toBeGreaterThan(3_599);
    expect(rest).toBeLessThan(7_200);

    const workerId = randomUUID();
    const putOff = async (putOffSeconds: number) => {
      await own().update({
        state: "leased",
        lease_owner: workerId,
        lease_until: db.raw("now() + interval '1 minute'"),
      });
      await db.transaction(async (transaction) => {
        const now = await beginWork(transaction, [instanceId]);
        await releasePartitions(transaction, workerId, [{ instanceId, partitionId: id, putOffSeconds }], now);
      });
      return own().first("lost_leases");
    };
    // Nobody has tried it.
    expect(await putOff(60)).toEqual({ lost_leases: 101 });
    const far = await sink();
    await own().update({ due_at: db.raw("now()") });
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(eeid);
    expect(recipientsOf(far)).toEqual(["one@a.example.net"]);
    expect(await own().first("lost_leases")).toEqual({ lost_leases: 0 });
  });

  test("what a worker took and could not read goes on when its lease ends, however busy the worker is", async () => {
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    const ports = { "slow.example.net": slow.port, "a.example.net": far.port };
    const { gate, db } = await databaseThroughGate();
    const worker = run(makeWorker(routes(ports), { leaseSeconds: 8 }, [1], { db }));
    stops.push(() => answers[0]?.());
    // A lane that is not done before the end of the test.
    await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    const lost = gate.breakAt("load-due-deliveries");
    const eeid = await accept(numbered(10, "a.example.net"));
    worker.wake();
    await untilSent(eeid);
    expect(lost.hasCome()).toBe(true);
    expect(recipientsOf(far).sort()).toEqual(numbered(10, "a.example.net").sort());
  });

  test("a lost partition is not taken again while its message is on the wire, or its outcome not stored", async () => {
    const { db } = database;
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    run(makeWorker(routes({ "slow.example.net": slow.port, "a.example.net": far.port })));
    stops.push(() => answers[0]?.());
    const eeid = await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    const stateOf = () => db("partitions").where({ eeid }).pluck("state");
    // As `wakePartitions` does with what is not prolonged in time.
    await db("partitions").where({ eeid }).update({ state: "ready", lease_owner: null, lease_until: null });
    // The look that finds this one finds the lost one as well.
    await untilSent(await accept(["one@a.example.net"]));
    expect(await stateOf()).toEqual(["ready"]);

    const blocker = await db.transaction();
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await blocker("deliveries")
      .where({ instance_id: instanceId, recipient: "one@slow.example.net" })
      .forUpdate()
      .select("id");
    answers[0]!();
    await untilLocked();
    await accept(["two@a.example.net"]);
    await eventually(
      async () => far.messages.length,
      (count) => count === 2,
    );
    expect(await stateOf()).toEqual(["ready"]);
    await blocker.commit();
    await untilSent(eeid);
    expect(answers).toHaveLength(1);
  });

  test("a partition whose recipients come to be known after its lease is left to who has it then", async () => {
    const { db } = database;
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    const jump = jumpingTime();
    const { gate, db: gated } = await databaseThroughGate();
    const ports = { "slow.example.net": slow.port, "a.example.net": far.port };
    run(makeWorker(routes(ports), {}, [1], { db: gated }));
    stops.push(() => answers[0]?.());
    const held = await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    const loading = gate.stopNext("load-due-deliveries");
    stops.push(() => loading.letGo());
    const eeid = await accept(["one@a.example.net"]);
    await eventually(
      async () => loading.hasCome(),
      (hasCome) => hasCome,
    );
    await db("partitions").where({ eeid }).update({ lease_owner: randomUUID() });
    jump(60_000);
    // Then the worker's leases are certain again.
    const leaseUntil = async () => (await db("partitions").where({ eeid: held }).first("lease_until")).lease_until;
    for (let prolonged = 0; prolonged < 2; prolonged += 1) {
      const before = await leaseUntil();
      await eventually(leaseUntil, (until) => until > before);
    }
    loading.letGo();
    await untilSent(await accept(["two@a.example.net"]));
    expect(recipientsOf(far)).toEqual(["two@a.example.net"]);
  });

  test("a message that was made ready for longer than its lease lasts does not leave", async () => {
    const far = await sink();
    const known = routes({ "slow.example.net": far.port, "a.example.net": far.port });
    let letGo: (() => void) | undefined;
    const isKnown = new Promise<void>((resolve) => {
      stops.push(resolve);
      letGo = resolve;
    });
    let isAsked = false;
    const findRoute: FindRoute = async (destination) => {
      if (destination === "slow.example.net") {
        isAsked = true;
        await isKnown;
      }
      return known(destination);
    };
    const jump = jumpingTime();
    run(makeWorker(findRoute));
    const eeid = await accept(["one@slow.example.net"]);
    await eventually(
      async () => isAsked,
      (asked) => asked,
    );
    await database.db("partitions").where({ eeid }).update({ lease_owner: randomUUID() });
    jump(60_000);
    letGo!();
    await untilSent(await accept(["two@a.example.net"]));
    expect(recipientsOf(far)).toEqual(["two@a.example.net"]);
  });
});

/** The test's database for a worker of its own, by a way on which its statements can be met. */
async function databaseThroughGate(): Promise<{ gate: StatementGate; db: Db }> {
  const gate = await openStatementGate(database.url);
  stops.push(() => gate.close());
  const db = openDb(gate.url, { connections: 20, name: "test through a gate" });
  stops.push(() => db.destroy());
  return { gate, db };
}
