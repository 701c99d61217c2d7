import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { SMTPServerSession } from "smtp-server";
import { describe, expect, test } from "vitest";
import { QueueTurns } from "../../services/delivery/queue-turns.ts";
import { assignPools } from "../../services/store/mail/queue/pool-assignments.ts";
import {
  accept,
  database,
  eventually,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  untilSent,
} from "../support/delivery.ts";
import { LOOK_REQUEST } from "../support/look-request.ts";

setUpDelivery();

const unlimited = { connections: null, messagesPerMinute: null };
const pool = (...addresses: string[]) => ({
  ...unlimited,
  addresses: addresses.map((address) => ({ address, weight: 1 })),
});
/** Campaign 2 has an address of its own. */
const POLICY = {
  pools: { default: pool("127.0.0.9"), other: pool("127.0.0.10") },
  poolOf: [{ instance: "test", campaign: 2, pool: "other" }],
};
const LONG = [3_600];

/** Refuses who speaks from these addresses, as who wants less of them does. */
const refusing = (...addresses: string[]) =>
  sink({
    onMailFrom: (_address, { remoteAddress }: SMTPServerSession, done) => {
      if (!addresses.includes(remoteAddress)) return done();
      done(Object.assign(new Error("4.7.28 unusual rate of mail"), { responseCode: 421 }));
    },
  });

const backOffs = () => database.db("destination_backoffs").orderBy("source").pluck("source");

describe("a destination that refuses one source", () => {
  test("is left alone by that one only: mail of another pool goes on", async () => {
    const far = await refusing("127.0.0.9");
    run(makeWorker(routes({ "big.example.net": far.port }), POLICY, LONG));
    const refused = await accept(numbered(30, "big.example.net"));
    await eventually(backOffs, (sources) => sources.length > 0);
    await untilSent(await accept(["one@big.example.net"], "<p>Hi</p>", false, [], 2));
    expect(await backOffs()).toEqual(["127.0.0.9"]);
    // What comes now is not even tried from there.
    const later = await accept(["later@big.example.net"]);
    await untilSent(await accept(["two@big.example.net"], "<p>Hi</p>", false, [], 2));
    expect(recipientsOf(far)).toEqual(["one@big.example.net", "two@big.example.net"]);
    const states = () =>
      database.db("partitions").whereIn("eeid", [refused, later]).orderBy("id").select("state", "pool", "taken_at");
    await expect.poll(states).toMatchObject([
      { state: "deferred", pool: "" },
      { state: "ready", pool: "", taken_at: null },
    ]);
  });

  test("takes the same mail from another address of the pool", async () => {
    const far = await refusing("127.0.0.9");
    run(
      makeWorker(routes({ "big.example.net": far.port }), {
        pools: { default: pool("127.0.0.9", "127.0.0.10") },
        poolOf: [],
      }),
    );
    await untilSent(await accept(numbered(250, "big.example.net")));
    expect(new Set(recipientsOf(far)).size).toBe(250);
    expect(far.messages).toHaveLength(250);
  });
});

test("one that is dead, or has no way to it, is left alone by every address of the pool at once", async () => {
  run(
    makeWorker(
      routes({ "dead.example.net": 1 }),
      { pools: { default: pool("127.0.0.9", "127.0.0.10") }, poolOf: [] },
      LONG,
    ),
  );
  await accept(numbered(5, "dead.example.net"));
  await eventually(backOffs, (sources) => sources.length === 2);
  expect(await backOffs()).toEqual(["127.0.0.10", "127.0.0.9"]);
  await eventually(
    () => database.db("deliveries").where({ state: "queued", attempts: 1 }),
    (tried) => tried.length === 5,
  );
});

test("the words of one that is left alone are kept as far as they can be read", async () => {
  const far = createServer((socket) => {
    socket.on("error", () => {}).write(`451-4.3.2 not\0now\r\n451 4.3.2 ${"x".repeat(10_000)}\r\n`);
  });
  await once(far.listen(0, "127.0.0.1"), "listening");
  stops.push(() => void far.close());
  run(makeWorker(routes({ "busy.example.net": (far.address() as AddressInfo).port }), {}, LONG));
  await accept(["one@busy.example.net"]);
  await eventually(
    () => database.db("destination_backoffs").pluck("reason"),
    (reasons) => reasons.length > 0,
  );
  const [reason] = await database.db("destination_backoffs").pluck<string[]>("reason");
  expect(reason).toMatch(/^451 4\.3\.2 not now x+$/);
  expect(reason).toHaveLength(1_000);
  const replies = () => database.db("deliveries").where({ attempts: 1 }).pluck("reply");
  expect(await eventually(replies, (stored) => stored.length > 0)).toEqual([reason]);
});

describe("the lease statement", () => {
  const lease = (sources: Record<string, string[]>) =>
    new QueueTurns(database.db, new Map(Object.entries(sources))).look({
      ...LOOK_REQUEST,
      workerId: "00000000-0000-0000-0000-000000000001",
    });
  const backOff = (source: string, destination = "big.example.net") =>
    database.db("destination_backoffs").insert({
      destination,
      source,
      until: database.db.raw("now() + interval '1 hour'"),
      reason: "no",
    });

  test("passes over a pool whose sources are all in trouble, and no other", async () => {
    await assignPools(database.db, [{ instance: "test", campaignNumid: 2, pool: "other" }]);
    await accept(["a@big.example.net"]);
    await accept(["b@big.example.net"], "<p>Hi</p>", false, [], 2);
    await backOff("192.0.2.1");
    await backOff("192.0.2.3");
    const sources = { "": ["192.0.2.1"], other: ["192.0.2.2", "192.0.2.3"] };
    const { taken } = await lease(sources);
    expect(taken.map(({ pool, resting }) => [pool, [...resting.keys()].sort()])).toEqual([
      ["other", ["192.0.2.1", "192.0.2.3"]],
    ]);
    await backOff("*");
    await database.db("partitions").update({ state: "ready", lease_owner: null });
    expect((await lease(sources)).taken).toEqual([]);
  });

  test("gives every pool of a destination its turn, and goes on after the last", async () => {
    await assignPools(database.db, [{ instance: "test", campaignNumid: 2, pool: "other" }]);
    for (let message = 0; message < 6; message += 1) {
      await accept(["a@big.example.net"]);
      await accept(["b@big.example.net"], "<p>Hi</p>", false, [], 2);
    }
    const { taken } = await lease({ "": ["system"], other: ["192.0.2.2"] });
    expect(taken.filter(({ pool }) => pool === "other")).toHaveLength(4);
    expect(taken).toHaveLength(8);
  });
});

test("what is queued follows when an instance gets another pool", async () => {
  await accept(numbered(3, "big.example.net"));
  const poolsNow = () => database.db("partitions").pluck("pool");
  await assignPools(database.db, [{ instance: "test", campaignNumid: null, pool: "bulk" }]);
  expect(await poolsNow()).toEqual(["bulk"]);
  await accept(["new@big.example.net"]);
  expect(await poolsNow()).toEqual(["bulk", "bulk"]);
  await assignPools(database.db, []);
  expect(await poolsNow()).toEqual(["", ""]);
});
