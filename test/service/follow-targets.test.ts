import { afterAll, beforeAll, expect, test } from "vitest";
import { sentence } from "../../services/core/sentences.ts";
import { askTarget } from "../../services/operations/dns/follow-targets.ts";
import type { LookUpAddresses } from "../../services/platform/lookups/address-lookup.ts";
import { addTargets, claimDueTargets, writeAskedTarget } from "../../services/store/dns/follow-targets.ts";
import { readAllFollowers, writeWays } from "../../services/store/dns/followers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone } from "../support/dns-server.ts";

const NAME = nameOf("target.example.net");

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  const { db } = database;
  const alias = ';palomar alias www.example.org. {"target":"target.example.net."}';
  await putZone(database, "example.org", ["@ NS ns.example.net.", alias]);
  const { id: zoneId } = await db("zones").where({ name: "example.org" }).first("id");
  const [follower] = await readAllFollowers(db, zoneId);
  await writeWays(db, [{ id: follower!.id, wire: [NAME], hosted: [] }]);
  await addTargets(db, [NAME], null, new Date());
});
afterAll(() => database?.drop());

/** Asks for the target once. @returns whether its follower is derived anew */
async function isStirredBy(lookUp: LookUpAddresses): Promise<boolean> {
  const { db } = database;
  const stirred = async () => (await db("followers").first("stirred")).stirred;
  const before = await stirred();
  const [target] = await claimDueTargets(db, new Date(Date.now() + 86_400_000), { limit: 1, leaseMs: 1 });
  await askTarget(db, target!, { lookUp, allowed: [] }, new Date());
  return (await stirred()) > before;
}

test("a target that goes on failing stirs none of its followers", async () => {
  const [target] = await claimDueTargets(database.db, new Date(), { limit: 1, leaseMs: 1 });
  const answer = { ipv4: ["192.0.2.1"], ipv6: [], ttl: 60, chain: ["target.example.net."] };
  const asked = { nameKey: target!.nameKey, answer, problem: null, nxdomains: 0, failures: 0, isSlow: false };
  await writeAskedTarget(database.db, { ...asked, isAnswered: true, dueAt: new Date() }, new Date());

  const fails: LookUpAddresses = async () => ({ kind: "failure", reason: sentence("target-unanswered") });
  expect(await isStirredBy(fails)).toBe(true); // The problem is new.
  expect(await isStirredBy(fails)).toBe(false);
  expect(await isStirredBy(fails)).toBe(false);
});

test("a target whose name cannot be read keeps none of those from being asked for that are due with it", async () => {
  const { db } = database;
  const bad = Buffer.from([0xff]);
  await db("follow_targets").insert({ name_key: bad, name: bad, due_at: new Date(0) });
  const due = await claimDueTargets(db, new Date(Date.now() + 86_400_000), { limit: 2, leaseMs: 1 });
  expect(due.map(({ name }) => name?.key).sort()).toEqual([NAME.key, undefined]);
  const unreadable = due.find(({ name }) => name === undefined)!;
  const fails: LookUpAddresses = async () => ({ kind: "failure", reason: sentence("target-unanswered") });
  await expect(askTarget(db, unreadable, { lookUp: fails, allowed: [] }, new Date())).rejects.toThrow("ff is no name");
});
