import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import type { LookRequest, LookResult } from "../../services/delivery/queue-look.ts";
import { QueueTurns } from "../../services/delivery/queue-turns.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { haveLookedAt } from "../../services/store/mail/queue/mail-work.ts";
import { endBackOffs, readBackOffs } from "../../services/store/mail/queue/queue-backoffs.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { LOOK_REQUEST } from "../support/look-request.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
/** Where each instance costs statements of its own a look asks few of them, and what one look does elsewhere takes several. */
const isSpread = inject("citusWorkers").length > 0;
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase(4);
});
afterAll(() => database.drop());
beforeEach(async () => {
  for (const table of ["destination_backoffs", "mail_work", "deliveries", "partitions", "messages", "batches"])
    await database.db(table).delete();
});

/** A queue of one recipient for each of these destinations, in this order. */
async function queueFor(name: string, destinations: readonly string[]): Promise<number> {
  const { db } = database;
  if (!(await findInstanceByName(db, name))) {
    await addTestInstance(db, KEY_RING, {
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
  await db.transaction((transaction) => haveLookedAt(transaction, [id]));
  return id;
}

async function queueForTwo(destinations: readonly string[]): Promise<number[]> {
  return [await queueFor("one", destinations), await queueFor("two", destinations)];
}

/** A worker's turns; it looks when it is told. @param nowMs its clock */
function makeTurns(nowMs = () => performance.now()): (changes?: Partial<LookRequest>) => Promise<LookResult> {
  const turns = new QueueTurns(database.db, new Map([["", ["system"]]]), nowMs);
  const workerId = randomUUID();
  return (changes = {}) => turns.look({ ...LOOK_REQUEST, workerId, ...changes });
}

async function backOff(destinations: readonly string[], ms = 3_600_000): Promise<void> {
  await database.db.raw(
    `insert into destination_backoffs (destination, until, reason)
     select name, now() + ? * interval '1 ms', 'away' from unnest(?::text[]) as name`,
    [ms, [...destinations]],
  );
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `d${String(index).padStart(5, "0")}.test`);

describe("instances take turns", () => {
  test("who has nothing under way comes before who has much, however long that queue is", async () => {
    const large = await queueFor("large", numbered(5_000));
    const small = await queueFor("small", ["readers.test"]);
    const look = makeTurns();
    const { taken } = await look({ limit: 2, busy: new Map([[large, 40]]) });
    expect(taken.map(({ instanceId }) => instanceId).sort()).toEqual([large, small].sort());
    const again = await look({ limit: 1, busy: new Map([[large, 41]]) });
    expect(again.taken.map(({ instanceId }) => instanceId)).toEqual([large]);
  });

  test("one instance leaves lanes to others", async () => {
    const large = await queueFor("large", numbered(500));
    expect((await makeTurns()()).taken).toHaveLength(42);
    for (const partitions of [42, 60]) {
      expect((await makeTurns()({ busy: new Map([[large, partitions]]) })).taken).toEqual([]);
    }
  });

  test("equals get equal shares", async () => {
    const ids = [];
    for (const name of ["one", "two", "three", "four"]) ids.push(await queueFor(name, numbered(200)));
    const [looks, share, request] = isSpread ? [2, 48, { limit: 96, partitionsPerInstance: 90 }] : [1, 12, {}];
    const look = makeTurns();
    const taken = [];
    for (let looked = 0; looked < looks; looked += 1) taken.push(...(await look(request)).taken);
    for (const id of ids) expect(taken.filter(({ instanceId }) => instanceId === id)).toHaveLength(share);
  });

  test("of more instances than one look visits all are served in one round", async () => {
    const ids = new Set<number>();
    for (let index = 0; index < 130; index += 1) ids.add(await queueFor(`many${index}`, ["readers.test"]));
    const served: number[] = [];
    const look = makeTurns();
    for (let looks = isSpread ? 44 : 13; looks > 0; looks -= 1) {
      const { taken } = await look({ limit: 10, slotsPerQueue: 200 });
      served.push(...taken.map(({ instanceId }) => instanceId));
    }
    expect(served).toHaveLength(130);
    expect(new Set(served)).toEqual(ids);
  });

  test("of equals none waits for another one's second turn, with one lane as well", async () => {
    const ids = new Set<number>();
    for (const name of ["one", "two", "three"]) ids.add(await queueFor(name, numbered(9)));
    const look = makeTurns();
    const served = [];
    for (let looks = 0; looks < 6; looks += 1) served.push((await look({ limit: 1 })).taken[0]!.instanceId);
    expect(new Set(served.slice(0, 3))).toEqual(ids);
    expect(new Set(served.slice(3))).toEqual(ids);
  });

  test("together they have no more of a destination than there is room for", async () => {
    for (const name of ["one", "two", "three"]) await queueFor(name, ["full.test", "full.test", "other.test"]);
    const { taken } = await makeTurns()({ slots: new Map([["full.test", 2]]) });
    expect(taken.map(({ destination }) => destination).sort()).toEqual([
      "full.test",
      "full.test",
      "other.test",
      "other.test",
      "other.test",
    ]);
    expect(new Set(taken.map(({ instanceId }) => instanceId)).size).toBe(3);
  });
});

describe("instances with the same destinations", () => {
  test("share the room of all of them in one look, not of the first ones alone", async () => {
    const names = numbered(8);
    for (let index = 0; index < 16; index += 1) await queueFor(`like${index}`, names);
    const look = makeTurns();
    const taken = [];
    for (let looks = isSpread ? 8 : 1; looks > 0; looks -= 1) {
      taken.push(...(await look({ limit: isSpread ? 2 : 16, slotsPerQueue: 2 })).taken);
    }
    expect(taken).toHaveLength(16);
    if (isSpread) return; // an instance a statement: each has what it asks for
    expect(new Set(taken.map(({ destination }) => destination)).size).toBe(8);
    expect(new Set(taken.map(({ instanceId }) => instanceId)).size).toBe(16);
  });

  test("come to each of them in turn, whoever is asked first", async () => {
    const names = numbered(8);
    const ids = await queueForTwo(Array(4).fill(names).flat());
    const look = makeTurns();
    const taken = [];
    while (taken.length < 32) taken.push(...(await look({ limit: 2, slotsPerQueue: 1 })).taken);
    for (const id of ids) {
      const served = taken.filter(({ instanceId }) => instanceId === id).map(({ destination }) => destination);
      for (const name of names) expect(served.filter((one) => one === name).length).toBeGreaterThan(0);
    }
  });

  test("share them alike where they ask for more than there is room for", async () => {
    const names = numbered(4);
    const ids = await queueForTwo(Array(10).fill(names).flat());
    const look = makeTurns();
    const taken = [];
    for (let looks = 0; looks < 10; looks += 1) taken.push(...(await look({ slotsPerQueue: 1 })).taken);
    for (const id of ids) {
      expect(taken.filter(({ instanceId }) => instanceId === id).length).toBeGreaterThan(taken.length / 3);
    }
  });

  test.each([
    [4, 96],
    [6, 144],
    [8, 192],
  ])("leave none of %d behind, where one look takes %d partitions", async (count, limit) => {
    const ids: number[] = [];
    for (let index = 0; index < count; index += 1) {
      ids.push(await queueFor(`equal${index}`, Array(30).fill(numbered(4)).flat()));
    }
    const look = makeTurns();
    const request = { limit, partitionsPerInstance: limit, slotsPerQueue: 1 };
    const taken: number[] = [];
    for (let looks = 0; looks < 3 * count; looks += 1) {
      taken.push(...(await look(request)).taken.map(({ instanceId }) => instanceId));
    }
    expect(taken).toHaveLength(12 * count);
    for (const id of ids) expect(taken.filter((one) => one === id).length).toBeGreaterThanOrEqual(6);
  });

  test("go on as soon as there is room again", async () => {
    await queueForTwo(Array(5).fill("readers.test"));
    const look = makeTurns();
    const counts = [];
    for (let looks = 0; looks < 5; looks += 1) counts.push((await look({ slotsPerQueue: 2 })).taken.length);
    expect(counts).toEqual([2, 2, 2, 2, 2]);
  });
});

describe("mail that becomes due", () => {
  test("goes on at its time, while there is much else", async () => {
    const id = await queueFor("busy", numbered(40));
    const { db } = database;
    await db("partitions")
      .where({ instance_id: id, destination: "d00000.test" })
      .update({ state: "deferred", due_at: db.raw("now() + interval '30 s'") });
    let nowMs = 0;
    const look = makeTurns(() => nowMs);
    const first = await look({ limit: 2 });
    expect(first.taken.map(({ destination }) => destination)).not.toContain("d00000.test");
    await db("partitions")
      .where({ instance_id: id, state: "deferred" })
      .update({ due_at: db.raw("now()") });
    nowMs += 30_000;
    await look({ limit: 2 });
    expect(await db("partitions").where({ instance_id: id, state: "deferred" })).toEqual([]);
  });
});

describe("instances of which nothing can be taken", () => {
  test("wait, also where they have more destinations than one look visits, until one is free again", async () => {
    const names = numbered(1_200);
    await queueFor("blocked", names);
    await backOff(names);
    let nowMs = 0;
    const look = makeTurns(() => nowMs);
    const goOn = [];
    for (let looks = 0; looks < 4; looks += 1) goOn.push((await look()).goesOn);
    expect(goOn).toEqual([true, true, false, false]);
    await endBackOffs(database.db, names[700]!);
    nowMs += 1_000;
    const found: string[] = [];
    for (let looks = 0; looks < 3; looks += 1) {
      found.push(...(await look()).taken.map(({ destination }) => destination));
    }
    expect(found).toEqual([names[700]]);
  });

  test("keep no place from others whose mail becomes due, however many they are", async () => {
    const [blocked, looks] = isSpread ? [20, 24] : [110, 4];
    for (let index = 0; index < blocked; index += 1) await queueFor(`blocked${index}`, ["away.test"]);
    const late = await queueFor("late", ["away.test", "readers.test"]);
    await database.db("partitions").where({ destination: "readers.test" }).update({ state: "deferred" });
    await backOff(["away.test"]);
    let nowMs = 0;
    const look = makeTurns(() => nowMs);
    await look();
    const served = [];
    for (let looked = 0; looked < looks; looked += 1) {
      nowMs += 2_000; // each look finds all of them waiting
      served.push(...(await look()).taken.map(({ instanceId }) => instanceId));
    }
    expect(served).toEqual([late]);
  });
});

describe("what goes ahead", () => {
  /** Messages to one recipient each. */
  async function queueAhead(name: string, destinations: readonly string[]): Promise<void> {
    const id = await queueFor(name, []);
    const [last] = await database.db("partitions").max("id as id");
    await queueFor(name, destinations);
    await database
      .db("partitions")
      .where({ instance_id: id })
      .where("id", ">", last!.id ?? 0)
      .update({ goes_ahead: true });
  }

  test("comes before batches of its instance, to another destination or to theirs", async () => {
    await queueFor("large", Array(3).fill(numbered(700)).flat());
    await queueAhead("large", ["zz.test", "d00350.test"]);
    const { taken } = await makeTurns()({ limit: 2 });
    expect(taken.map(({ destination }) => destination).sort()).toEqual(["d00350.test", "zz.test"]);
    expect(taken.map((partition) => (partition as { goesAhead?: boolean }).goesAhead)).toEqual([true, true]);
  });

  test("has no more of a destination than there is room for", async () => {
    await queueFor("large", Array(5).fill("full.test"));
    await queueAhead("large", Array(2).fill("full.test"));
    expect((await makeTurns()({ slotsPerQueue: 3 })).taken).toHaveLength(3);
  });

  test("leaves a turn to the rest, at the same destination too, however much there is of it", async () => {
    await queueFor("large", Array(20).fill("readers.test"));
    await queueFor("large", Array(20).fill("others.test"));
    await queueAhead("large", Array(60).fill("readers.test"));
    const look = makeTurns();
    for (let looks = 0; looks < 40; looks += 1) await look({ limit: 2, slotsPerQueue: 1 });
    for (const destination of ["readers.test", "others.test"]) {
      const left = await database.db("partitions").where({ destination, goes_ahead: false, state: "leased" });
      expect(left.length, destination).toBeGreaterThanOrEqual(8);
    }
    const ahead = await database.db("partitions").where({ goes_ahead: true, state: "leased" });
    expect(ahead.length).toBeGreaterThanOrEqual(28);
  });

  test("changes nothing of what other instances get", async () => {
    await queueAhead("large", Array(50).fill(numbered(20)).flat());
    const other = await queueFor("other", numbered(200));
    const looks = isSpread ? 2 : 1;
    const look = makeTurns();
    const taken = [];
    for (let looked = 0; looked < looks; looked += 1) taken.push(...(await look({ limit: 96 / looks })).taken);
    expect(taken.filter(({ instanceId }) => instanceId === other).length).toBeGreaterThanOrEqual(42);
  });
});

describe("back-offs", () => {
  test("of many destinations of one instance hold up no other one", async () => {
    const names = numbered(2_000);
    await queueFor("refused", names);
    const other = await queueFor("other", ["zz.test"]);
    await backOff([...names, "zz.test"]);
    await endBackOffs(database.db, "zz.test");
    const { taken } = await makeTurns()();
    expect(taken.map(({ instanceId }) => instanceId)).toEqual([other]);
  });

  test("that are known are not read again, and one that ends early is", async () => {
    const { db } = database;
    await backOff(["one.test", "two.test"]);
    expect((await readBackOffs(db)).map(({ destination }) => destination).sort()).toEqual(["one.test", "two.test"]);
    await db("destination_backoffs").update({ changed_at: db.raw("now() - interval '1 minute'") });
    const [now] = await queryRows<{ at: string }>(db, "select now()::text as at");
    await endBackOffs(db, "two.test", ["*"]);
    const changed = await readBackOffs(db, now!.at);
    expect(changed.map(({ destination, seconds }) => [destination, seconds > 0])).toEqual([["two.test", false]]);
  });

  test("that end let the queue go on, at their time or before", async () => {
    await queueFor("waiting", ["one.test", "two.test"]);
    await backOff(["one.test", "two.test"], 30_000);
    let nowMs = 0;
    const look = makeTurns(() => nowMs);
    const found = async () => (await look()).taken.map(({ destination }) => destination);
    expect(await found()).toEqual([]);
    await endBackOffs(database.db, "one.test");
    nowMs += 1_000;
    expect(await found()).toEqual(["one.test"]);
    await database.db("destination_backoffs").where({ destination: "two.test" }).delete();
    nowMs += 1_000;
    expect(await found()).toEqual([]);
    nowMs += 30_000;
    expect(await found()).toEqual(["two.test"]);
  });
});

describe("destinations of an instance take turns", () => {
  test("all of them are served before the first comes again", async () => {
    const names = numbered(90);
    await queueFor("large", [...names, ...names]);
    const seen: string[] = [];
    const look = makeTurns();
    while (seen.length < 90) {
      const { taken } = await look({ limit: 10, slotsPerQueue: 1 });
      seen.push(...taken.map(({ destination }) => destination).sort());
    }
    expect(seen).toEqual(names);
  });

  test("those in back-off are passed over, also where they are more than one look visits", async () => {
    const names = numbered(1_200);
    await queueFor("large", names);
    await backOff(names.slice(0, 1_199));
    const look = makeTurns();
    const found: string[] = [];
    for (let looks = 0; looks < 3; looks += 1) {
      found.push(...(await look()).taken.map(({ destination }) => destination));
    }
    expect(found).toEqual([names[1_199]]);
  });
});
