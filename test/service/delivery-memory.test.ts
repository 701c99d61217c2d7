import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { OctetBudget } from "../../services/delivery/octet-budget.ts";
import {
  accept,
  answeringOnDemand,
  beInstance,
  database,
  eventually,
  instanceId,
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

setUpDelivery();

describe("faults", () => {
  test("a message is loaded once there is memory for it, and once for all of its recipients", async () => {
    const file = { filename: "large.bin", content: Buffer.alloc(24 * 2 ** 20) };
    const loading = vi.spyOn(pg.Client.prototype, "query");
    const taking = vi.spyOn(OctetBudget.prototype, "take");
    stops.push(() => vi.restoreAllMocks());
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(2, "a.example.net"), "<p>Hi</p>", false, [file]));
    const loads = loading.mock.calls.flatMap(([statement], index) =>
      JSON.stringify(statement).includes("load-messages") ? [loading.mock.invocationCallOrder[index]!] : [],
    );
    expect(loads).toHaveLength(1);
    expect(taking.mock.calls[0]![0]).toBeGreaterThan(file.content.length);
    expect(taking.mock.invocationCallOrder[0]).toBeLessThan(loads[0]!);
    expect(recipientsOf(far)).toHaveLength(2);
  });

  test("what is to be archived takes its share of the memory until it is stored", async () => {
    const { db } = database;
    const far = await sink();
    let givenBack = 0;
    const { take } = OctetBudget.prototype;
    const taking = vi.spyOn(OctetBudget.prototype, "take").mockImplementation(async function (
      this: OctetBudget,
      octets,
      parties,
    ) {
      const giveBack = await take.call(this, octets, parties);
      return () => {
        givenBack += 1;
        giveBack();
      };
    });
    stops.push(() => taking.mockRestore());
    const eeid = await accept(["one@a.example.net"], "<p>Hi</p>", true);
    const blocker = await db.transaction();
    await blocker("deliveries").where({ instance_id: instanceId }).forUpdate().select("id");
    run(makeWorker(routes({ "a.example.net": far.port })));
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await untilLocked();
    expect([far.messages.length, givenBack]).toEqual([1, 0]);
    await blocker.commit();
    await untilSent(eeid);
    await expect.poll(() => givenBack).toBe(1);
  });
});

describe("a subject with a value in it", () => {
  test("is refused for whom it gets too long, and at once", async () => {
    const { db } = database;
    const far = await sink();
    const [long, short] = ["long@b.example.net", "short@b.example.net"];
    const eeid = await accept([long, short]);
    await db.raw(`update messages set template = jsonb_set(template, '{subject}', '"XYZBIGXYZ"') where eeid = ?`, eeid);
    for (const [recipient, length] of [[long, 10_001] as const, [short, 10_000] as const]) {
      const personal = JSON.stringify({ tags: { BIG: "ñ".repeat(length) } });
      await db("deliveries").where({ instance_id: instanceId, recipient }).update({ personal });
    }
    run(makeWorker(routes({ "b.example.net": far.port })));
    await untilSent(eeid);
    expect(recipientsOf(far)).toEqual([short]);
    const settled = await db("deliveries").where({ instance_id: instanceId, recipient: long }).first("reply");
    expect(settled).toEqual({ reply: "552 5.3.4 with the recipient's values the message is too large" });
  });
});

describe("a short template with room for a long value many times", () => {
  test("is refused for who has such a value, and at once", async () => {
    const { db } = database;
    const far = await sink();
    const [long, short] = ["long@a.example.net", "short@a.example.net"];
    const eeid = await accept([long, short], "XYZBIGXYZ".repeat(3_000));
    for (const [recipient, length] of [[long, 50_000] as const, [short, 5] as const]) {
      const personal = JSON.stringify({ tags: { BIG: "<".repeat(length) } });
      await db("deliveries").where({ instance_id: instanceId, recipient }).update({ personal });
    }
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(eeid);
    expect(recipientsOf(far)).toEqual([short]);
    const settled = await db("deliveries").where({ instance_id: instanceId, recipient: long }).first("state", "reply");
    expect(settled).toEqual({
      state: "refused",
      reply: "552 5.3.4 with the recipient's values the message is too large",
    });
  });

  test("takes its part of the memory where it can be composed", async () => {
    const taking = vi.spyOn(OctetBudget.prototype, "take");
    stops.push(() => taking.mockRestore());
    const far = await sink();
    const eeid = await accept(["one@a.example.net"], "XYZBIGXYZ".repeat(30));
    const personal = JSON.stringify({ tags: { BIG: "<".repeat(50_000) } });
    await database.db("deliveries").where({ instance_id: instanceId }).update({ personal });
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(eeid);
    expect(recipientsOf(far)).toHaveLength(1);
    expect(Math.max(...taking.mock.calls.map(([octets]) => octets))).toBeGreaterThan(far.messages[0]!.octets.length);
  });
});

/** Composing it takes 40,000 octets and some. */
const LARGE = `<p>${"x".repeat(10_000)}</p>`;

describe("a far side that misbehaves", () => {
  test("that stalls with all the memory for large messages does not hold up small ones", async () => {
    const { far: stalled, answers } = await answeringOnDemand();
    const good = await sink();
    const names = Array.from({ length: 20 }, (_, index) => `stalled${index}.example.net`);
    const ports = { ...Object.fromEntries(names.map((name) => [name, stalled.port])), "good.example.net": good.port };
    const worker = makeWorker(routes(ports), { lanes: 8, waitingLanes: 0, composingOctets: 200_000 });
    const large = await accept(
      names.map((name) => `one@${name}`),
      LARGE,
      true,
    );
    run(worker);
    stops.push(() => answers.forEach((done) => void done()));
    await eventually(
      async () => answers.length,
      (count) => count === 2,
    );
    await untilSent(await accept(numbered(20, "good.example.net")));
    const answering = setInterval(() => answers.splice(0).forEach((done) => void done()), 50);
    stops.push(() => clearInterval(answering));
    await untilSent(large);
  });

  test("that stalls with large messages of one instance does not hold up those of another", async () => {
    const { far: stalled, answers } = await answeringOnDemand();
    const good = await sink();
    const names = Array.from({ length: 20 }, (_, index) => `stalled${index}.example.net`);
    const ports = { ...Object.fromEntries(names.map((name) => [name, stalled.port])), "good.example.net": good.port };
    run(makeWorker(routes(ports), { composingOctets: 100_000 }));
    stops.push(() => answers.forEach((done) => void done()));
    await accept(
      names.map((name) => `one@${name}`),
      LARGE,
    );
    await untilOnTheWire(answers);
    await beInstance("other");
    await untilSent(await accept(numbered(5, "good.example.net"), LARGE));
    expect(answers).toHaveLength(1);
  });

  test("that ends sessions over which nothing came for a while gets what waited for memory over another one", async () => {
    const { far: stalled, answers } = await answeringOnDemand();
    const ended: string[] = [];
    let first: string | undefined;
    const impatient = await sink({
      onConnect: ({ id }, done) => {
        first ??= id;
        done();
      },
      onMailFrom: (_address, { id }, done) => {
        if (id !== first) return done();
        ended.push(id);
        done(Object.assign(new Error("4.4.2 idle for too long"), { responseCode: 421 }));
      },
    });
    const ports = { "stalled.example.net": stalled.port, "impatient.example.net": impatient.port };
    const held = await accept(["one@stalled.example.net"], LARGE);
    run(makeWorker(routes(ports), { composingOctets: 40_000 }));
    await untilOnTheWire(answers);
    const eeid = await accept(["one@impatient.example.net"], LARGE);
    await eventually(
      async () => first,
      (id) => id !== undefined,
    );
    await sleep(2_000);
    answers[0]!();
    await Promise.all([held, eeid].map(untilSent));
    expect(ended).toEqual([first]);
    expect(await database.db("deliveries").pluck("attempts")).toEqual([1, 1]);
  });
});
