import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addAccounts,
  addCompany,
  dnsApiOf,
  type RunningServices,
  startServices,
  zoneBody,
} from "../support/deployment.ts";
import { makeDataDir, removeDataDir } from "../support/stack.ts";

const ZONES = 24;
const CLIENTS = 32;
/** So many are answered before the API is killed, in the midst of those that come after them. */
const ANSWERED = 200;

const dataDir = makeDataDir();
let database: TestDatabase;
let services: RunningServices | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(async () => {
  await services?.kill();
  await database?.drop();
  removeDataDir(dataDir);
});

it("an API that is killed in the middle of creations that are written together keeps what it answered, and no half of the others", async () => {
  const folder = join(dataDir, "api");
  mkdirSync(folder);
  const env = {
    DATABASE_URL: database.url,
    PALOMAR_SECRET: "a secret of the tests, long enough",
    PALOMAR_DATA_DIR: folder,
  };
  const accounts = await addAccounts(env);
  services = await startServices(["dns-api"], env);
  const call = dnsApiOf(services.addresses.dns_api!, accounts);
  await addCompany(call);
  const zones = Array.from({ length: ZONES }, (_, index) => `killed${index}.test`);
  for (const zone of zones) expect((await call("POST", `/master_zone/${zone}`, zoneBody(zone))).status).toBe(200);

  const answered: { readonly id: number; readonly zone: string; readonly serial: number }[] = [];
  let isKilled = false;
  let asked = 0;
  const run = async () => {
    while (!isKilled) {
      const number = asked++;
      const zone = zones[number % ZONES]!;
      const record = { name: `h${number}`, type: "A", value: "192.0.2.1" };
      const answer = await call("POST", `/rr/${zone}`, record).catch(() => undefined);
      if (answer?.status === 200) answered.push({ id: answer.body.rr_id, zone, serial: answer.body.serial });
      if (answered.length >= ANSWERED && !isKilled) {
        isKilled = true;
        await services!.kill();
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, run));

  const { db } = database;
  const stored = await queryRows<{ id: number; zone: string }>(
    db,
    "select r.id, z.name as zone from records r join zones z on z.id = r.zone_id where r.type = 1",
  );
  const zoneOf = new Map(stored.map(({ id, zone }) => [id, zone]));
  expect(answered.filter(({ id, zone }) => zoneOf.get(id) !== zone)).toEqual([]);
  // No answer was for a serial that another had as well.
  expect(new Set(answered.map(({ zone, serial }) => `${zone} ${serial}`)).size).toBe(answered.length);
  const states = await queryRows<Record<string, number>>(
    db,
    `select z.version - 1 as changes, z.serial - first.serial as serials, z.records - 1 as counted,
            (select count(*) from records r where r.zone_id = z.id and r.type = 1) as records,
            (select count(*) from zone_journal j where j.zone_id = z.id and j.version > 1) as journalled
       from zones z join zone_journal first on first.zone_id = z.id and first.version = 1`,
  );
  expect(states).toHaveLength(ZONES);
  for (const { changes, serials, counted, records, journalled } of states) {
    expect([serials, counted, records, journalled]).toEqual([changes, changes, changes, changes]);
  }
  expect(stored.length).toBeGreaterThanOrEqual(answered.length);
});
