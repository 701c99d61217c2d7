import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { HealthChecker } from "../../services/dns-api/follow/health-checker.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { readAllFollowers } from "../../services/store/dns/followers.ts";
import {
  noteWorker,
  readAllProbes,
  readVerdicts,
  replaceProbes,
  writeVerdicts,
} from "../../services/store/dns/pool-probes.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, putZone } from "../support/dns-server.ts";

const NODE = "main";

let database: TestDatabase;
let member: Server;
let connections = 0;
let offsetMs = 0;
/** Told when something fails. */
let heard: (observation: Observation) => void;
let checker: HealthChecker | undefined;
let probe: number;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterAll(() => database?.drop());
beforeEach(async () => {
  const { db } = database;
  connections = 0;
  offsetMs = 0;
  heard = () => {};
  member = createServer((socket) => {
    connections += 1;
    socket.on("error", () => {}).destroy();
  });
  await once(member.listen(0, "127.0.0.1"), "listening");
  const { port } = member.address() as AddressInfo;
  const definition = JSON.stringify({ members: [{ value: "192.0.2.1", name: "a" }], check: { type: "tcp", port } });
  await putZone(database, "example.org", ["@ NS ns.example.net.", `;palomar pool www.example.org. ${definition}`]);
  const zone = await db("zones").where({ name: "example.org" }).first("id");
  const [pool] = await readAllFollowers(db, zone.id);
  const health = { type: "tcp", port, interval: 1, timeout: 30, tries: 1, recovery: 0, quorum: 51 } as const;
  await replaceProbes(db, pool!.id, [
    { member: "a", address: "127.0.0.1", name: "www.example.org", health, tenant: "1" },
  ]);
  probe = (await readAllProbes(db))[0]!.id;
});
afterEach(async () => {
  await checker?.stop();
  await new Promise((closed) => member.close(closed));
  await database.db("checking_workers").delete();
});

function start(): HealthChecker {
  return new HealthChecker({
    ...{ db: database.db, clock: { nowMs: () => Date.now() + offsetMs }, observe: (one) => heard(one), node: NODE },
    ...{ allowed: ["127.0.0.0/8"], onVerdicts: () => {} },
  });
}

const says = async (): Promise<boolean | undefined> => (await readVerdicts(database.db, NODE)).get(probe);
const becomes = (verdict: boolean) => expect.poll(says, { interval: 50 }).toBe(verdict);

test("a verdict that the former holder of a probe writes late is put right", async () => {
  checker = start();
  await becomes(true);
  const late = { probeId: probe, up: false, since: new Date(), reason: null };
  await writeVerdicts(database.db, NODE, [late], new Date());
  checker.readAgain();
  await becomes(true);
});

test("what could not be written of a probe that another process has now is not written later", async () => {
  const { db } = database;
  checker = start();
  await becomes(true);
  await db.raw(`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
                create trigger refuse before insert or update on probe_verdicts execute function refuse()`);
  const refused = new Promise<void>((resolve) => {
    heard = () => resolve();
  });
  await new Promise((closed) => member.close(closed));
  await refused;
  // Workers take probes by their place in the order of their ids.
  const id = `${probe % 2 === 0 ? "0" : "f"}0000000-0000-4000-8000-000000000000`;
  await noteWorker(db, { id, node: NODE, leaseMs: 3_000 }, new Date(Date.now() + 3_600_000));
  await sleep(1_500);
  await db.raw("drop function refuse cascade");
  await sleep(1_500);
  expect(await says()).toBe(true);
});

test("checks go on when the clock is put back", async () => {
  checker = start();
  await becomes(true);
  offsetMs = -600_000;
  const before = connections;
  await expect.poll(() => connections).toBeGreaterThan(before + 1);
});

test("a probe that cannot be read is left alone and told of once, and checked when it is right; others are checked", async () => {
  const { db } = database;
  const [bad] = await db("pool_probes").select("follower_id", "health", "name", "tenant");
  const insert = { ...bad, health: JSON.stringify(bad.health), member: "bad", address: "127.0.0.2" };
  const [{ id }] = await db("pool_probes").insert(insert).returning("id");
  const told: string[] = [];
  heard = (one) => {
    if (one.kind === "follower-failed") told.push(`${one.zone} ${(one.err as Error).message}`);
  };
  checker = start();
  await becomes(true);
  const right = { address: "127.0.0.2", health: insert.health };
  const wrong = [
    { address: "x" },
    { health: JSON.stringify({ type: "tcp", port: 1 }) },
    { health: JSON.stringify({ ...bad.health, type: "http" }) },
  ];
  for (const columns of wrong) {
    await db("pool_probes")
      .where({ id })
      .update({ ...right, ...columns });
    const before = told.length;
    checker.readAgain();
    await expect.poll(() => told.length).toBeGreaterThan(before);
    const checks = connections;
    checker.readAgain();
    await expect.poll(() => connections).toBeGreaterThan(checks + 1);
  }
  const opening = `example.org stored probe ${id} of the pool www.example.org is corrupt: `;
  expect(told.map((one) => one.replace(opening, ""))).toEqual([
    "its address is none",
    "its check has no times",
    "its check does not say what is well",
  ]);
  await db("pool_probes").where({ id }).update(right);
  checker.readAgain();
  const verdict = async () => (await readVerdicts(db, NODE)).get(id);
  await expect.poll(verdict).toBe(false);
});
