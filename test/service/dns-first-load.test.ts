import { Socket } from "node:net";
import type pg from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { loadFirst } from "../../services/dns-server/feed/first-load.ts";
import { ZonePublisher } from "../../services/dns-server/feed/zone-publisher.ts";
import { NODE, RRSET } from "../../services/dns-server/zone-database/layout.ts";
import { ZoneDatabaseMemory } from "../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../services/dns-server/zone-database/reader.ts";
import { ZoneDatabaseWriter } from "../../services/dns-server/zone-database/writer.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import { inSnapshot } from "../../services/store/dns/published-zones.ts";
import { streamZoneIds, type ZoneScope } from "../../services/store/dns/zone-states.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, putZone, putZoneFile, suspendZone } from "../support/dns-server.ts";
import { PARENT_ZONE } from "../support/dnssec-zone-text.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { DENIALS, SIGNING_PROGRAM, signZone } from "../support/signed-zones.ts";
import { findBookErrors } from "../support/zone-database-books.ts";

let database: TestDatabase;
let client: pg.Client;

/** Zones of all kinds, more than are asked for at a time. */
beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  const host = (index: number) => `h${index}.deep TXT "${"x".repeat(200)}"`;
  await putZone(database, "large.test", ["@ NS ns1.a.test.", ...Array.from({ length: 2_000 }, (_, n) => host(n))]);
  await putZone(database, "corrupt.test", ["@ NS ns1.a.test.", "www A 192.0.2.1", "zz NS ns1.a.test."]);
  await putZone(database, "suspended.test", ["@ NS ns1.a.test."]);
  await suspendZone(database, "suspended.test", true);
  await putZone(database, "a.test", ["@ NS ns1", "ns1 A 192.0.2.1", '*.wild TXT "any"', "sub NS ns.sub", "A.x MX 1 @"]);
  await putZone(database, "sub.a.test", ["@ NS ns", "ns A 192.0.2.3", "NS.b.c CNAME ns", "ns AAAA 2001:db8::1"]);
  if (isInstalled(SIGNING_PROGRAM))
    for (const denial of DENIALS) {
      const name = `${denial}.test`;
      await putZoneFile(database, name, signZone(name, PARENT_ZONE, denial).text);
    }
  for (const name of ["many-1", "many-2"])
    await putZone(database, `${name}.test`, ["@ NS ns1.a.test.", "w A 192.0.2.4"]);
  await database.db.raw(`
    with made as (
      insert into zones (reseller_id, company_id, made_by, name, name_key, apex, serial_type, serial, mname, rname, refresh,
                         retry, expire, minimum, ttl, records, octets)
      select z.reseller_id, z.company_id, z.made_by, 'n' || n || '.test', 'test\\000'::bytea || convert_to('n' || n, 'utf8') || '\\000',
             set_byte('\\000', 0, length('n' || n)) || convert_to('n' || n, 'utf8') || '\\004test\\000', z.serial_type, 1,
             z.mname, z.rname, 1, 2, 3, 4, 5, 1, 100
        from zones z, generate_series(1000, 3200) n where z.name = 'many-1.test' returning id, apex, name_key)
    insert into records (zone_id, owner, owner_key, type, ttl, rdata)
    select id, apex, name_key, 1, 60, '\\xc0000201' from made where id % 3 > 0`);
  await database.db.raw(
    `update records set rdata = '\\x05' where type = 2 and get_byte(owner, 1) = ascii('z')
        and zone_id = (select id from zones where name = 'corrupt.test')`,
  );
  for (const name of ["foreign", "ownerless", "nameless"])
    await putZone(database, `${name}.test`, ["@ NS ns1.a.test.", "www A 192.0.2.1"]);
  await spoilOwner("foreign.test", "\\x0161047465737400");
  await spoilOwner("ownerless.test", "\\xff");
  await database.db.raw("update zones set mname = '\\xff' where name = 'nameless.test'");
  await database.db.raw("update zones set apex = '\\x3f00' where name = 'n1001.test'");
  client = await openListenConnection(database.url, "test");
});

/** Puts octets in the place of the owner of a zone's A record. */
async function spoilOwner(name: string, octets: string): Promise<void> {
  await database.db.raw(
    `update records set owner = '${octets}' where type = 1 and zone_id = (select id from zones where name = '${name}')`,
  );
}

afterAll(async () => {
  await client?.end();
  await database?.drop();
});

interface Loaded {
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  /** What has been observed, as texts. */
  readonly observed: readonly string[];
}

/** A zone database that the database's zones are loaded into, by a thread beside or by this one alone. */
async function load(
  way: "thread" | "alone",
  scope: ZoneScope = null,
  { octets = 2 ** 26, ...options }: { octets?: number; mostWaitingOctets?: number } = {},
): Promise<Loaded> {
  const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(octets));
  const observed: string[] = [];
  const publisher = new ZonePublisher(
    writer,
    (one) => observed.push(`${one.kind} ${"zone" in one ? one.zone : ""}`),
    Date.now,
    scope,
  );
  await inSnapshot(client, async () => {
    const ids: number[] = [];
    await streamZoneIds(client, scope, (id) => ids.push(id));
    if (way === "alone") await publisher.publishAll(client, true);
    else await publisher.publishFirst(client, () => loadFirst(ids, { client, writer, publisher, scope, ...options }));
  });
  return { writer, publisher, observed };
}

/** All that a zone database has, zone by zone and name by name, as texts that can be compared. */
function contentOf({ writer, publisher }: Loaded): Map<number, readonly string[]> {
  const reader = new ZoneDatabaseReader(writer.memory);
  const zones = [...publisher.standings.served.ids()].sort((a, b) => a - b);
  return new Map(
    zones.map((id) => {
      const { apex, version } = publisher.standings.served.get(id)!;
      const zone = writer.publishedZone(apex);
      reader.open(zone);
      const { nodes, release } = writer.snapshot(zone);
      const names = [...nodes].map((node) => nodeText(reader, node)).sort();
      release();
      const facts = [version, reader.isRestricted(zone), reader.negativeTtlOf(zone), writer.resellerOf(zone)];
      return [id, [facts.join(" "), JSON.stringify(writer.denialOf(zone)), ...names]];
    }),
  );
}

/** A node's name, flags, children and RRsets. */
function nodeText(reader: ZoneDatabaseReader, node: number): string {
  const { words, octets } = reader.segment;
  const at = (start: number, length: number) => Buffer.from(octets.slice(start, start + length)).toString("hex");
  const name = at(node + NODE.NAME * 4, 1 + octets[node + NODE.NAME * 4]!);
  const texts = [name, words[(node >> 2) + NODE.FLAGS], words[(node >> 2) + NODE.CHILDREN]];
  let rrset = reader.firstRrset(node);
  for (let left = reader.rrsetCount(node); left > 0; left -= 1, rrset = reader.nextRrset(rrset))
    texts.push(at(rrset, RRSET.RECORDS * 4 + words[(rrset >> 2) + RRSET.LENGTH]!));
  return texts.join(" ");
}

it("refuses suspended zones, in the place of zones of others above them", async () => {
  for (const way of ["thread", "alone"] as const) {
    const { publisher } = await load(way);
    expect([...publisher.standings.suspended].map(({ apex }) => Buffer.from(apex).toString())).toEqual([
      "\tsuspended\u0004test\0",
    ]);
  }
  expect([...(await load("thread", ["nobody"])).publisher.standings.suspended]).toEqual([]);
});

const unsigned = isInstalled(SIGNING_PROGRAM) ? "" : ` (signed ones skipped: ${SIGNING_PROGRAM} is not installed)`;
it(`loads with a thread what it loads alone: large zones, signed ones, none of corrupt or suspended ones${unsigned}`, async () => {
  const [thread, alone] = [await load("thread"), await load("alone")];
  const unreadable = ["\\# 2 3f00", "corrupt.test.", "foreign.test.", "nameless.test.", "ownerless.test."];
  for (const { observed, writer, publisher } of [thread, alone]) {
    expect([...observed].sort()).toEqual(unreadable.map((name) => `zone-corrupt ${name}`));
    expect(publisher.standings.expectedCount).toBe(writer.zoneCount + unreadable.length);
  }
  expect(thread.writer.zoneCount).toBeGreaterThan(2_200);
  const content = contentOf(thread);
  expect(content.size).toBe(thread.writer.zoneCount);
  expect(content).toEqual(contentOf(alone));
  expect(findBookErrors(thread.writer)).toEqual([]);
});

it("has the database wait while the thread is behind", async () => {
  const pause = vi.spyOn(Socket.prototype, "pause");
  onTestFinished(() => pause.mockRestore());
  const thread = await load("thread", null, { mostWaitingOctets: 1 });
  expect(pause.mock.calls.length).toBeGreaterThan(2);
  expect(thread.writer.zoneCount).toBe((await load("alone")).writer.zoneCount);
});

it("loads the zones of some resellers alone", async () => {
  expect((await load("thread", ["nobody"])).writer.zoneCount).toBe(0);
  const { rows } = await client.query<{ reseller_id: string }>("select distinct reseller_id from zones");
  const scope = rows.map(({ reseller_id }) => reseller_id);
  expect(contentOf(await load("thread", scope))).toEqual(contentOf(await load("alone", scope)));
});

it("leaves out the largest where not all fit, and says so", async () => {
  const { writer } = await load("alone");
  const full = await load("thread", null, { octets: Math.ceil(writer.usedOctets / 8) * 8 });
  const { publisher } = full;
  expect(publisher.standings.leftOut.at(-1)!.zone.apex.subarray(1, 6)).toEqual(Buffer.from("large"));
  expect(full.writer.zoneCount + publisher.standings.leftOut.length).toBe(writer.zoneCount);
  expect(publisher.standings.leftOut.length).toBeLessThan(writer.zoneCount / 20);
  expect(full.observed).toContain("zone-left-out large.test.");
  expect(findBookErrors(full.writer)).toEqual([]);
});

it("ends with the database's error, and leaves nothing half done, when its connection is lost", async () => {
  const own = await openListenConnection(database.url, "test");
  const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(2 ** 26));
  const publisher = new ZonePublisher(writer, () => {});
  const ids: number[] = [];
  await streamZoneIds(own, null, (id) => ids.push(id));
  const { rows } = await own.query<{ pid: number }>("select pg_backend_pid() as pid");
  const adopt = publisher.standings.adopt.bind(publisher.standings);
  let ended: Promise<unknown> | undefined;
  publisher.standings.adopt = (...zone) => {
    ended ??= client.query("select pg_terminate_backend($1::integer)", [rows[0]!.pid]);
    adopt(...zone);
  };
  const many = Array.from({ length: 200 }, () => ids).flat();
  await expect(loadFirst(many, { client: own, writer, publisher, scope: null })).rejects.toThrow(/terminat|connection/);
  await ended;
  expect(findBookErrors(writer)).toEqual([]);
});
