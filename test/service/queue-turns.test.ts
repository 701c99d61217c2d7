import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import {
  type InstanceShare,
  type LeaseRequest,
  leasePartitions,
} from "../../services/store/mail/queue/lease-partitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase(4);
});
afterAll(() => database.drop());
beforeEach(async () => {
  for (const table of ["deliveries", "partitions", "messages", "batches"]) await database.db(table).delete();
});

/** A queue of one recipient for each of these destinations, in this order. */
async function queueFor(name: string, destinations: readonly string[]): Promise<number> {
  const { db } = database;
  if (!(await findInstanceByName(db, name))) {
    await addInstance(db, KEY_RING, {
      name,
      host: `${name}.mail.test`,
      key: randomUUID(),
      archive: false,
      domains: [],
    });
  }
  const { id } = (await findInstanceByName(db, name))!;
  await db.raw(
    `with batch as (
       insert into batches (eeid, instance_id, campaign_numid, creator) values (gen_random_uuid(), :id, 1, 'api')
       returning eeid
     ), message as (
       insert into messages (eeid, instance_id, campaign_numid, sender_domain, archive, template, content_octets)
       select eeid, :id, 1, 'example.org', false, '{}', 2 from batch returning id, eeid
     )
     insert into partitions (instance_id, eeid, message_id, destination, state, due_at, recipients)
     select :id, message.eeid, message.id, destination, 'ready', now(), 1
     from message cross join unnest(:destinations::text[]) as destination`,
    { id, destinations: [...destinations] },
  );
  return id;
}

const lease = (changes: Partial<LeaseRequest> = {}) =>
  leasePartitions(database.db, {
    workerId: randomUUID(),
    limit: 48,
    leaseSeconds: 30,
    after: 0,
    instances: new Map(),
    partitionsPerInstance: 42,
    sources: new Map(),
    room: new Map(),
    partitionsPerDestination: 4,
    unfinished: [],
    ...changes,
  });

const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `d${String(index).padStart(5, "0")}.test`);
const busy = (partitions: number, after = ""): InstanceShare => ({ partitions, after });

describe("instances take turns", () => {
  test("who has nothing under way comes before who has much, however long that queue is", async () => {
    const large = await queueFor("large", numbered(5_000));
    const small = await queueFor("small", ["readers.test"]);
    const { partitions } = await lease({ limit: 2, instances: new Map([[large, busy(40)]]) });
    expect(partitions.map(({ instanceId }) => instanceId).sort()).toEqual([large, small].sort());
    const again = await lease({ limit: 1, instances: new Map([[large, busy(41)]]) });
    expect(again.partitions.map(({ instanceId }) => instanceId)).toEqual([large]);
  });

  test("one instance leaves lanes to others", async () => {
    const large = await queueFor("large", numbered(500));
    expect((await lease()).partitions).toHaveLength(42);
    for (const partitions of [42, 60]) {
      expect((await lease({ instances: new Map([[large, busy(partitions)]]) })).partitions).toEqual([]);
    }
  });

  test("equals get equal shares", async () => {
    const ids = [];
    for (const name of ["one", "two", "three", "four"]) ids.push(await queueFor(name, numbered(200)));
    const { partitions } = await lease();
    for (const id of ids) expect(partitions.filter(({ instanceId }) => instanceId === id)).toHaveLength(12);
  });

  test("of more instances than one look visits all are served in one round", async () => {
    const ids = new Set<number>();
    for (let index = 0; index < 130; index += 1) ids.add(await queueFor(`many${index}`, ["readers.test"]));
    const served = new Set<number>();
    let after = 0;
    do {
      const look = await lease({ limit: 200, after, partitionsPerDestination: 200 });
      for (const { instanceId } of look.partitions) served.add(instanceId);
      after = look.after;
    } while (after !== 0);
    expect(served).toEqual(ids);
  });

  test("together they have no more of a destination than there is room for", async () => {
    for (const name of ["one", "two", "three"]) await queueFor(name, ["full.test", "full.test", "other.test"]);
    const { partitions } = await lease({ room: new Map([["full.test", 2]]) });
    expect(partitions.map(({ destination }) => destination).sort()).toEqual([
      "full.test",
      "full.test",
      "other.test",
      "other.test",
      "other.test",
    ]);
    expect(new Set(partitions.map(({ instanceId }) => instanceId)).size).toBe(3);
  });
});

describe("destinations of an instance take turns", () => {
  test("all of them are served before the first comes again", async () => {
    const names = numbered(90);
    const id = await queueFor("large", [...names, ...names]);
    const seen: string[] = [];
    let after = "";
    while (seen.length < 90) {
      const instances = new Map([[id, busy(0, after)]]);
      const look = await lease({ limit: 10, partitionsPerDestination: 1, instances });
      seen.push(...look.partitions.map(({ destination }) => destination).sort());
      after = look.destinations.get(id)!;
    }
    expect(seen).toEqual(names);
  });

  test("those in back-off are passed over, also where they are more than one look visits", async () => {
    const names = numbered(1_200);
    const id = await queueFor("large", names);
    await database.db.raw(
      `insert into destination_backoffs (destination, until, reason)
       select name, now() + interval '1 hour', 'away' from unnest(?::text[]) as name`,
      [names.slice(0, 1_199)],
    );
    let after = "";
    const found: string[] = [];
    for (let looks = 0; looks < 3; looks += 1) {
      const look = await lease({ instances: new Map([[id, busy(0, after)]]) });
      found.push(...look.partitions.map(({ destination }) => destination));
      after = look.destinations.get(id)!;
    }
    expect(found).toEqual([names[1_199]]);
    expect(after).toBe("");
  });
});
