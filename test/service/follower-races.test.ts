import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { readAllFollowers, writeWays } from "../../services/store/dns/followers.ts";
import {
  readJudgedProbes,
  replaceProbes,
  writeProbeStates,
  writeVerdicts,
} from "../../services/store/dns/pool-probes.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone } from "../support/dns-server.ts";

const NOW = new Date();
const health = { type: "tcp", port: 80, interval: 10, timeout: 5, tries: 2, recovery: 30, quorum: 51 } as const;
const probe = { member: "a", address: "192.0.2.1", name: "www.example.org", health, tenant: "1" };

let database: TestDatabase;
let pool: number;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterAll(() => database?.drop());
beforeEach(async () => {
  const definition = JSON.stringify({ members: [{ value: "192.0.2.1", name: "a" }], check: { type: "tcp", port: 80 } });
  await putZone(database, "example.org", ["@ NS ns.example.net.", `;palomar pool www.example.org. ${definition}`]);
  const zoneId = await database.db("zones").where({ name: "example.org" }).first("id");
  pool = (await readAllFollowers(database.db, zoneId.id))[0]!.id;
  await replaceProbes(database.db, pool, [probe]);
});

describe("what is written of a pool while it is deleted waits for that, and then is nothing", () => {
  test.each([
    ["its ways", async () => writeWays(database.db, [{ id: pool, wire: [], hosted: [nameOf("lb.example.org")] }])],
    ["its probes", async () => replaceProbes(database.db, pool, [probe, { ...probe, address: "192.0.2.2" }])],
    [
      "what became of its members",
      async () => {
        const [judged] = await readJudgedProbes(database.db, [pool], NOW);
        const state = { ...judged!.state, up: false };
        await writeProbeStates(database.db, [{ probe: judged!, state }], NOW);
      },
    ],
    [
      "what a node says",
      async () => {
        const [judged] = await readJudgedProbes(database.db, [pool], NOW);
        await writeVerdicts(database.db, "main", [{ probeId: judged!.id, up: false, since: NOW, reason: null }], NOW);
      },
    ],
  ])("%s", async (_, write) => {
    const { db } = database;
    const deleting = await db.transaction();
    await deleting("followers").where({ id: pool }).delete();
    const written = write();
    const waiting = "datname = current_database() and wait_event_type = 'Lock'";
    await expect.poll(() => db("pg_stat_activity").whereRaw(waiting).pluck("pid")).toHaveLength(1);
    await deleting.commit();
    await expect(written).resolves.toBeUndefined();
    for (const table of ["follower_names", "pool_probes", "pool_events", "probe_verdicts"]) {
      expect(await db(table)).toEqual([]);
    }
  });
});
