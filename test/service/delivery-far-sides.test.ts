import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ok } from "../../services/core/result.ts";
import { scaleOf } from "../../services/delivery/policy.ts";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import { isSpread } from "../../services/store/mail/by-instance.ts";
import {
  accept,
  beInstance,
  database,
  eventually,
  failures,
  makeWorker,
  numbered,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  TIMEOUTS,
  untilSent,
} from "../support/delivery.ts";
import { queuedDeliveries } from "../support/spread-tables.ts";

setUpDelivery();

describe("a far side that misbehaves", () => {
  const queued = async (eeid: string) =>
    queuedDeliveries(database.db)
      .where({ eeid, "deliveries.state": "queued" })
      .select("deliveries.attempts", "deliveries.reply", "deliveries.bounce");

  test("that answers 421 for ever is asked seldom, keeps its mail, and delays nobody", async () => {
    let asked = 0;
    const busy = await sink({
      onConnect: (_session, done) => {
        asked += 1;
        done(Object.assign(new Error("4.3.2 too busy, come back later"), { responseCode: 421 }));
      },
    });
    const good = await sink();
    const busyEeid = await accept(numbered(300, "busy.example.net"));
    const goodEeid = await accept(numbered(50, "good.example.net"));
    run(makeWorker(routes({ "busy.example.net": busy.port, "good.example.net": good.port }), {}, [2]));
    await untilSent(goodEeid);
    await eventually(
      () => queued(busyEeid),
      (rows) => rows.every(({ attempts }) => attempts >= 2),
    );
    const askedBefore = asked;
    const rows = await queued(busyEeid);
    expect(rows).toHaveLength(300);
    expect(rows.every(({ bounce, reply }) => bounce === null && reply.includes("421"))).toBe(true);
    // A session for each partition and round, however many rounds there were, not one for each recipient.
    const attempts = rows.reduce((sum, row) => sum + row.attempts, 0);
    expect(askedBefore).toBeLessThan(attempts / 10);
    expect(failures).toEqual([]);
  });

  /** Composing it takes 40,000 octets and some. */
  const LARGE = `<p>${"x".repeat(10_000)}</p>`;

  /** Takes connections and says nothing. */
  async function silentServer() {
    const connections = new Set<Socket>();
    const server = createServer((socket) => connections.add(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const end = () => {
      server.close();
      for (const socket of connections) socket.destroy();
    };
    return { port: (server.address() as AddressInfo).port, connections, end };
  }

  test("that never answers takes no lane from others, and no memory for its messages", async () => {
    const dead = await Promise.all(Array.from({ length: 12 }, silentServer));
    const good = await sink();
    const ports = Object.fromEntries(dead.map(({ port }, index) => [`dead${index}.example.net`, port]));
    const findRoute = routes({ ...ports, "good.example.net": good.port });
    const worker = makeWorker(findRoute, { lanes: 4, composingOctets: 100_000 });
    await accept(
      Object.keys(ports).map((name) => `one@${name}`),
      LARGE,
    );
    run(worker);
    for (const { end } of dead) stops.push(end);
    await eventually(
      async () => dead.every(({ connections }) => connections.size > 0),
      (areReached) => areReached,
    );
    await untilSent(await accept(numbered(20, "good.example.net"), LARGE));
  });

  test("that never answers gets no more sessions for that, however many destinations are behind it", async () => {
    const { port, connections, end } = await silentServer();
    const names = Array.from({ length: 40 }, (_, index) => `dead${index}.example.net`);
    const bounds = { lanes: 4, flushMs: 40, flushOutcomes: 64 };
    const { lanes } = scaleOf(bounds, await isSpread(database.db));
    const worker = makeWorker(routes(Object.fromEntries(names.map((name) => [name, port]))), bounds);
    await accept(names.map((name) => `one@${name}`));
    run(worker);
    stops.push(end);
    await eventually(
      async () => connections.size,
      (count) => count >= 1.5 * lanes,
    );
    await sleep(4_000);
    expect(connections.size).toBe(1.5 * lanes);
  });

  test("that answers again after a stall lets new mail through before all that had waited", async () => {
    const far = await sink();
    let isStalled = true;
    const findRoute: FindRoute = async (destination) => {
      while (isStalled) await sleep(50);
      const peer = { host: "127.0.0.1", port: far.port, name: "localhost", tls: "never" } as const;
      return ok({ key: destination, peers: [peer] });
    };
    const names = Array.from({ length: 30 }, (_, index) => `d${index}.example.net`);
    const waited = await accept(names.flatMap((name) => numbered(40, name)));
    run(makeWorker(findRoute, { lanes: 4 }));
    await eventually(
      () => database.db("partitions").where({ state: "leased" }),
      (leased) => leased.length === names.length,
    );
    isStalled = false;
    await untilSent(await accept(["one@a.example.net"]));
    expect(far.messages.length).toBeLessThan(names.length * 40);
    await untilSent(waited);
    expect(far.messages).toHaveLength(names.length * 40 + 1);
  });

  test("that answers again, slowly, after a stall leaves lanes to another instance at once", async () => {
    let taken = 0;
    const slow = await sink({
      onData: (stream, _session, done) => {
        stream.resume();
        stream.on("end", () => {
          taken += 1;
          setTimeout(done, 500);
        });
      },
    });
    let takenByThen = 0;
    const good = await sink({
      onMailFrom: (_address, _session, done) => {
        takenByThen = taken;
        done();
      },
    });
    let isStalled = true;
    const findRoute: FindRoute = async (destination) => {
      while (isStalled && destination !== "good.example.net") await sleep(50);
      const port = destination === "good.example.net" ? good.port : slow.port;
      return ok({ key: destination, peers: [{ host: "127.0.0.1", port, name: "localhost", tls: "never" }] });
    };
    const names = Array.from({ length: 40 }, (_, index) => `d${index}.example.net`);
    await accept(names.flatMap((name) => numbered(40, name)));
    run(makeWorker(findRoute, { lanes: 16 }));
    await eventually(
      () => database.db("partitions").where({ state: "leased" }),
      (leased) => leased.length >= 20,
    );
    isStalled = false;
    await eventually(
      async () => taken,
      (count) => count >= 20,
    );
    await beInstance("other");
    const eeid = await accept(["one@good.example.net"]);
    const before = taken;
    await untilSent(eeid);
    // Without giving way, those that are under way end first: 40 messages each.
    expect(takenByThen - before).toBeLessThan(16 * 20);
  });

  test("that takes the message and never answers is tried again, and holds up nobody else", async () => {
    let stall = true;
    const slow = await sink({
      onData: (stream, _session, done) => {
        stream.resume();
        stream.on("end", () => {
          if (!stall) done();
        });
      },
    });
    const good = await sink();
    const slowEeid = await accept(["one@slow.example.net"]);
    const timeouts = { ...TIMEOUTS, commandMs: 5_000 };
    run(makeWorker(routes({ "slow.example.net": slow.port, "good.example.net": good.port }), {}, [1], { timeouts }));
    const goodEeid = await accept(numbered(50, "good.example.net"));
    await untilSent(goodEeid);
    await eventually(
      () => queued(slowEeid),
      ([row]) => (row?.attempts ?? 0) >= 1,
    );
    stall = false;
    await untilSent(slowEeid);
  });
});
