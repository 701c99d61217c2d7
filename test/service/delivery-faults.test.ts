import type { AddressInfo } from "node:net";
import { createServer, type Server } from "node:net";
import { describe, expect, test } from "vitest";
import { openDb } from "../../services/platform/postgres/db.ts";
import { createTestDatabase } from "../support/database.ts";
import {
  accept,
  answeringOnDemand,
  database,
  eventually,
  jumpingTime,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  TIMEOUTS,
  untilOnTheWire,
  untilSent,
} from "../support/delivery.ts";
import { freePort } from "../support/peers-processes.ts";

setUpDelivery();

describe("faults", () => {
  test("a database that says nothing of the key that is known holds up no mail", async () => {
    const { db } = database;
    const { answers, far } = await answeringOnDemand();
    const jump = jumpingTime();
    run(makeWorker(routes({ "a.example.net": far.port })));
    stops.push(() => answers.forEach((answer) => void answer()));
    const eeid = await accept(["one@a.example.net", "two@a.example.net"]);
    await untilOnTheWire(answers);
    const blocker = await db.transaction();
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await blocker.raw("lock table instance_domains in access exclusive mode");
    jump(12_000);
    answers[0]!();
    await eventually(
      async () => answers.length,
      (count) => count === 2,
    );
    await blocker.commit();
    answers[1]!();
    await untilSent(eeid);
  });

  test("a message that the database does not let us compose is given back, and no attempt is noted", async () => {
    const far = await sink();
    const url = new URL(database.url);
    url.searchParams.set("options", "-c lock_timeout=200");
    const db = openDb(url.href, { connections: 5, name: "test" });
    stops.push(() => db.destroy());
    const eeid = await accept(["one@a.example.net"]);
    const blocker = await database.db.transaction();
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await blocker.raw("lock table instance_domains in access exclusive mode");
    run(makeWorker(routes({ "a.example.net": far.port }), {}, [1], { db }));
    await eventually(
      () => database.db("partitions").where({ eeid, state: "deferred" }),
      (putOff) => putOff.length === 1,
    );
    expect(await database.db("deliveries").pluck("attempts")).toEqual([0]);
    await blocker.commit();
    await untilSent(eeid);
  });

  test("a partition that fails for a reason of our own is put off before it is tried again", async () => {
    run(makeWorker(() => Promise.reject(new Error("no way to tell"))));
    const eeid = await accept(["one@a.example.net"]);
    await eventually(
      () => database.db("partitions").where({ eeid, state: "deferred" }),
      (putOff) => putOff.length === 1,
    );
    expect(await database.db("deliveries").pluck("attempts")).toEqual([0]);
  });

  test("a dead, a mute and a refusing destination delay nobody else", async () => {
    const mute = await muteServer();
    const busy = await sink({
      onConnect: (_session, done) => done(Object.assign(new Error("4.3.2 busy"), { responseCode: 421 })),
    });
    const far = await sink();
    const ports = { "dead.example.net": 1, "mute.example.net": mute.port, "busy.example.net": busy.port };
    const timeouts = { ...TIMEOUTS, greetingMs: 5_000 };
    run(makeWorker(routes({ ...ports, "live.example.net": far.port }), { lanes: 8 }, [60], { timeouts }));
    await accept(Object.keys(ports).flatMap((domain) => numbered(600, domain)));
    const eeid = await accept(numbered(300, "live.example.net"));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(300);
    expect(busy.sessions()).toBeLessThan(20);
    await mute.close();
  });

  test("a server that comes back gets what waited for it", async () => {
    const port = await freePort();
    run(makeWorker(routes({ "a.example.net": port })));
    const eeid = await accept(numbered(30, "a.example.net"));
    await eventually(
      async () => (await database.db("deliveries").where({ state: "queued" }).min("attempts as least"))[0]?.least,
      (least) => Number(least) >= 1,
    );
    const far = await sink({ port });
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(30);
  });

  test("a connection lost after the final dot is tried again under the same Message-ID", async () => {
    let drops = 2;
    const far = await sink();
    const ports: Record<string, number> = {};
    const flaky = await sink({
      onData: async (stream, _session, done) => {
        for await (const _ of stream);
        drops -= 1;
        if (drops === 0) ports["a.example.net"] = far.port;
        done(Object.assign(new Error("4.3.0 not now"), { responseCode: 421 }));
      },
    });
    ports["a.example.net"] = flaky.port;
    run(makeWorker(routes(ports)));
    await untilSent(await accept(["one@a.example.net"]));
    expect(drops).toBe(0);
    expect(far.messages).toHaveLength(1);
  });

  test("the database breaks every connection in the midst: nothing is lost", async () => {
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    const emails = numbered(2_000, "a.example.net");
    const eeid = await accept(emails);
    await eventually(
      async () => far.messages.length,
      (count) => count > 100,
    );
    const killer = await createTestDatabase(1);
    await killer.db.raw(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = ? and pid <> pg_backend_pid()",
      [new URL(database.url).pathname.slice(1)],
    );
    await killer.drop();
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(emails.length);
  });

  test("a server that takes few messages a session is no server in trouble", async () => {
    const counts = new Map<string, number>();
    const far = await sink({
      onMailFrom: (_address, session, done) => {
        const count = (counts.get(session.id) ?? 0) + 1;
        counts.set(session.id, count);
        done(count > 3 ? Object.assign(new Error("4.7.0 enough for this session"), { responseCode: 421 }) : null);
      },
    });
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(40, "a.example.net")));
    expect(far.messages).toHaveLength(40);
    const retried = await database.db("deliveries").where("attempts", ">", 1);
    expect(retried).toEqual([]);
  });

  test("a sender domain that was taken away leaves the mail unsigned, not unsent", async () => {
    const far = await sink();
    await database.db("instance_domains").delete();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(["one@a.example.net"]));
    expect(far.messages[0]?.octets.includes("DKIM-Signature")).toBe(false);
  });
});

async function muteServer(): Promise<{ port: number; close(): Promise<void> }> {
  const server: Server = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.close();
    },
  };
}
