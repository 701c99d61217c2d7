import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { nameSortKey } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { encodeSoaRdata } from "../../services/core/dns/soa.ts";
import { type ChangedZone, NameServerQueue } from "../../services/dns-server/notify/name-server-queue.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone } from "../support/dns-server.ts";

let database: TestDatabase;
let queue: NameServerQueue;
/** Host and serial of what was told. */
let told: string[];
let observed: Observation[];
/** Hosts that the resolver was asked for, and what it says of each. */
let asked: string[];
let addressesOf: (host: string) => Promise<readonly string[]>;

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  [told, observed, asked] = [[], [], []];
  addressesOf = async () => ["192.0.2.53"];
  queue = queueOn(database.db);
});

afterEach(async () => {
  await queue.stop();
  await database.drop();
});

function queueOn(db: Db): NameServerQueue {
  return new NameServerQueue({
    db,
    addressesOf: (host) => {
      asked.push(host);
      return addressesOf(host);
    },
    tell: (host, { soaRdata }) => told.push(`${host} ${Buffer.from(soaRdata).readUInt32BE(soaRdata.length - 20)}`),
    observe: (observation) => observed.push(observation),
  });
}

function changed(id: number, zone: string, serial = 1): ChangedZone {
  const name = nameOf(zone);
  const times = { refresh: 1, retry: 1, expire: 1, minimum: 1 };
  const soaRdata = encodeSoaRdata({ mname: nameOf("primary.example.net"), rname: name, serial, ...times });
  return { id, news: { zone: name.key, apex: name.wire, soaTtlSeconds: 60, soaRdata } };
}

async function zoneId(zone: string): Promise<number> {
  const [row] = await queryRows<{ id: number }>(database.db, "select id from zones where apex = $1", [
    Buffer.from(nameOf(zone).wire),
  ]);
  return row!.id;
}

/** A database whose statements are counted, and can be made to fail. */
function watched(db: Db) {
  const seen = { statements: 0, most: 0, underWay: 0, fails: false };
  const client = new Proxy(db.client, {
    get(target, key) {
      if (key !== "acquireConnection") return Reflect.get(target, key);
      return async () => {
        seen.statements += 1;
        seen.underWay += 1;
        seen.most = Math.max(seen.most, seen.underWay);
        try {
          if (seen.fails) throw new Error("the database is away");
          return await target.acquireConnection();
        } finally {
          setImmediate(() => {
            seen.underWay -= 1;
          });
        }
      };
    },
  });
  return { seen, db: new Proxy(db, { get: (target, key) => (key === "client" ? client : Reflect.get(target, key)) }) };
}

it("tells the addresses of the zone's NS but for the primary: own ones by the zone, others by the resolver", async () => {
  const records = [
    "@ NS ns1",
    "@ NS primary.example.net.",
    "@ NS other.example.net.",
    "ns1 A 192.0.2.1",
    "ns1 AAAA 2001:db8::1",
  ];
  await putZone(database, "example.org", records);
  queue.add([changed(await zoneId("example.org"), "example.org", 7)]);
  await expect.poll(() => told.toSorted()).toEqual(["192.0.2.1 7", "192.0.2.53 7", "2001:db8::1 7"]);
  expect(asked).toEqual(["other.example.net"]);
});

it("reads the NS sets of many zones together, one statement at a time, and leaves the pool to others", async () => {
  const { db, seen } = watched(database.db);
  await queue.stop();
  queue = queueOn(db);
  await putZone(database, "example.org", ["@ NS ns1", "ns1 A 192.0.2.1"]);
  const id = await zoneId("example.org");
  const zones = Array.from({ length: 20_000 }, (_, index) => changed(1_000_000 + index, `z${index}.example`));
  for (let from = 0; from < zones.length; from += 1_000) queue.add(zones.slice(from, from + 1_000));
  queue.add([changed(id, "example.org")]);
  await expect.poll(() => told).toEqual(["192.0.2.1 1"]);
  expect({ most: seen.most, isFew: seen.statements < 500 }).toEqual({ most: 1, isFew: true });
});

it("asks the resolver for few zones at once, and keeps no zone waiting for one whose servers are not found soon", async () => {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  addressesOf = async (host) => {
    if (host.startsWith("slow")) await released;
    return ["192.0.2.53"];
  };
  await database.db.raw("alter table records disable trigger all");
  const zones = Array.from({ length: 150 }, (_, index) => changed(2_000_000 + index, `z${index}.example`));
  for (const { id, news } of zones) await addNs(id, news.apex, "slow.example.net");
  await putZone(database, "example.org", ["@ NS quick.example.net."]);
  queue.add(zones.slice(0, 99));
  await expect.poll(() => asked.length).toBe(99);
  queue.add([changed(await zoneId("example.org"), "example.org")]);
  await expect.poll(() => told).toEqual(["192.0.2.53 1"]);
  queue.add(zones.slice(99));
  await expect.poll(() => asked.length).toBe(101);
  await sleep(100);
  expect(asked).toHaveLength(101);
  release();
  await expect.poll(() => told.length).toBe(151);
});

it("tells of a change at once, however many zones of a start wait for a resolver that is silent", async () => {
  const { db, seen } = watched(database.db);
  await queue.stop();
  queue = queueOn(db);
  addressesOf = () => new Promise<never>(() => {});
  await database.db.raw("alter table records disable trigger all");
  const zones = Array.from({ length: 350 }, (_, index) => changed(2_000_000 + index, `z${index}.example`));
  for (const { id, news } of zones) await addNs(id, news.apex, "slow.example.net");
  await putZone(database, "example.org", ["@ NS ns1", "ns1 A 192.0.2.1"]);
  queue.add(zones.slice(0, 300));
  await expect.poll(() => asked.length).toBe(100);
  queue.add(zones.slice(300));
  queue.add([changed(await zoneId("example.org"), "example.org")]);
  await expect.poll(() => told).toEqual(["192.0.2.1 1"]);
  expect(asked).toHaveLength(100);
  // Nor does it ask the database again and again meanwhile.
  const before = seen.statements;
  await sleep(200);
  expect(seen.statements).toBe(before);
});

it("tells the servers that are found, whatever becomes of the others", async () => {
  addressesOf = async (host) => {
    if (host.startsWith("odd")) throw new Error("an error of the resolver");
    return host.startsWith("slow") ? new Promise<never>(() => {}) : ["192.0.2.53"];
  };
  await putZone(database, "example.org", ["@ NS odd.example.net.", "@ NS slow.example.net.", "@ NS ns.example.net."]);
  queue.add([changed(await zoneId("example.org"), "example.org")]);
  await expect.poll(() => told).toEqual(["192.0.2.53 1"]);
  await expect
    .poll(() => observed)
    .toMatchObject([{ kind: "notify-failed", zone: "example.org.", server: "odd.example.net." }]);
});

it("loses nothing while the database is away, and tells the newest", async () => {
  const { db, seen } = watched(database.db);
  await queue.stop();
  queue = queueOn(db);
  await putZone(database, "example.org", ["@ NS ns1", "ns1 A 192.0.2.1"]);
  const id = await zoneId("example.org");
  seen.fails = true;
  queue.add([changed(id, "example.org", 1)]);
  await expect.poll(() => observed).toMatchObject([{ kind: "name-servers-unreadable", zones: 1 }]);
  queue.add([changed(id, "example.org", 2)]);
  seen.fails = false;
  await expect.poll(() => told).toEqual(["192.0.2.1 2"]);
});

/** An NS record at the apex of a zone that need not be there. */
async function addNs(id: number, apex: Uint8Array, server: string): Promise<void> {
  await queryRows(
    database.db,
    "insert into records (zone_id, owner, owner_key, type, ttl, rdata) values ($1, $2, $3, $4, 60, $5)",
    [id, Buffer.from(apex), nameSortKey(apex), TYPE.NS, Buffer.from(nameOf(server).wire)],
  );
}
