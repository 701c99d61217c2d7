import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import { registry } from "../../services/platform/observability/metrics.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, dnsServerContext, eventually, putZone, SIGNER } from "../support/dns-server.ts";
import { askOverTcp } from "../support/transfer-client.ts";

/** Long enough for a busy machine. */
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let server: RunningService | undefined;
let observed: Observation[] = [];
/** Of the neighbour's address, so that each change of it is another one. */
let changes = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  const acl = { resellerId: "reseller", name: "local", blocks: ["127.0.0.0/8"], tsig: null, zones: null };
  expect((await addAcl(database.db, SIGNER.keyRing, { ...acl, notify: [] })).ok).toBe(true);
  await putZone(database, "parent.test", ["@ NS ns1", "ns1 A 192.0.2.1", '* TXT "of the parent"']);
});
afterAll(() => database?.drop());
beforeEach(async () => {
  await putZone(database, "bad.parent.test", ["@ NS ns1.parent.test.", "host A 192.0.2.1", "zz A 192.0.2.9"]);
});
afterEach(async () => {
  await server?.stop();
  server = undefined;
  await database.db("zones").where({ name: "bad.parent.test" }).delete();
});

async function startServer(): Promise<void> {
  observed = [];
  const env = { PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_MEMORY: "32MiB" };
  server = await start(dnsServerContext(database, { env, observe: (one) => observed.push(one) }));
  // It starts without zones that do not come in time.
  await eventually(async () => (await rcodeAt("parent.test", "SOA")) === "NOERROR", PATIENCE_MS);
}

const ask = (name: string, type = "A") => askDns(server!.addresses.dns!, name, type);
const rcodeAt = async (name: string, type = "A") => rcodeOf(await ask(name, type));
const addressAt = async (name: string) => dataOf(await ask(name));
const told = (kind: string) => observed.filter((one) => one.kind === kind).map((one) => "zone" in one && one.zone);
const unreadable = async () =>
  (await registry.getSingleMetric("palomar_dns_zone_unreadable")!.get()).values.map(({ labels }) => labels.zone);

/** Changes rows as a faulty disk or a hand does, as a new version of the zone. */
async function change(sql: string): Promise<void> {
  await database.db.raw(sql);
  await database.db.raw(
    "update zones set version = version + 1, changed_xid = pg_current_xact_id() where name = 'bad.parent.test'",
  );
  const zone = await database.db("zones").where({ name: "bad.parent.test" }).first("id");
  await notifyZones(database.db, [zone.id]);
}

const OF_ZONE = "zone_id = (select id from zones where name = 'bad.parent.test')";
const put = (column: string, value: string) =>
  change(`update zones set ${column} = ${value} where name = 'bad.parent.test'`);

/** A zone's neighbour is published, which comes after the zone. */
async function expectNeighbourIsPublished(): Promise<void> {
  changes += 1;
  await putZone(database, "parent.test", ["@ NS ns1", `ns1 A 192.0.2.${changes + 10}`, '* TXT "of the parent"']);
  await eventually(async () => (await addressAt("ns1.parent.test")).includes(`192.0.2.${changes + 10}`), PATIENCE_MS);
}

const OWNERS = { "no name": "\\xff", "a name of another zone": "\\x0161047465737400", "cut off": "\\x027a7a" };
for (const [what, owner] of Object.entries(OWNERS)) {
  it(`leaves a zone as it was of which an owner is ${what}, has it SERVFAIL after a start, and takes it when it is right`, async () => {
    await startServer();
    const spoil = `update records set owner = '${owner}' where ${OF_ZONE} and owner = '\\x027a7a0362616406706172656e74047465737400'`;
    await change(spoil);
    await expectNeighbourIsPublished();
    await expectNeighbourIsPublished();
    expect(await addressAt("host.bad.parent.test")).toContain("192.0.2.1");
    expect(told("zone-corrupt")).toEqual(["bad.parent.test."]);
    expect(await unreadable()).toEqual(["bad.parent.test."]);

    await server!.stop();
    await startServer();
    expect(await rcodeAt("host.bad.parent.test")).toBe("SERVFAIL");
    // Nothing of it comes from the parent.
    expect(await rcodeAt("none.bad.parent.test", "TXT")).toBe("SERVFAIL");
    expect(await rcodeAt("ns1.parent.test")).toBe("NOERROR");
    expect(told("zone-corrupt")).toEqual(["bad.parent.test."]);
    await change(`delete from records where ${OF_ZONE} and owner = '${owner}'`);
    await eventually(async () => (await addressAt("host.bad.parent.test")).includes("192.0.2.1"), PATIENCE_MS);
    expect(await unreadable()).toEqual([]);
    expect(told("zones-unreadable")).toEqual([]);
  });
}

it("leaves a zone as it was whose SOA has no name, hands it on so, and takes it when it is right", async () => {
  await startServer();
  const apex = "'\\x036e7331036261640670'::bytea || '\\x6172656e74047465737400'";
  for (const mname of ["'\\xff'", "''"]) {
    await put("mname", mname);
    await expectNeighbourIsPublished();
    expect(await addressAt("host.bad.parent.test")).toContain("192.0.2.1");
    const { records } = await askOverTcp(server!.addresses.dns!, { name: "bad.parent.test", type: "AXFR" });
    expect(records.length).toBe(5);
  }
  expect(told("zone-corrupt")).toEqual(["bad.parent.test.", "bad.parent.test."]);
  await server!.stop();
  await startServer();
  expect(await rcodeAt("host.bad.parent.test")).toBe("SERVFAIL");
  await put("mname", apex);
  await eventually(async () => (await addressAt("host.bad.parent.test")).includes("192.0.2.1"), PATIENCE_MS);
  expect(told("zones-unreadable")).toEqual([]);
});

it("leaves a zone as it was whose apex is no name, and others alone", async () => {
  await startServer();
  await put("apex", "'\\x3f00'");
  await expectNeighbourIsPublished();
  expect(await addressAt("host.bad.parent.test")).toContain("192.0.2.1");
  expect(told("zone-corrupt")).toEqual(["\\# 2 3f00"]);
  await server!.stop();
  await startServer();
  await expectNeighbourIsPublished();
  expect(told("zone-corrupt")).toEqual(["\\# 2 3f00"]);
  await put("apex", "'\\x0362616406706172656e74047465737400'");
  await eventually(async () => (await addressAt("host.bad.parent.test")).includes("192.0.2.1"), PATIENCE_MS);
  expect(told("zones-unreadable")).toEqual([]);
});

for (const [what, octets] of Object.entries({ "no records": "\\xffffff", "an empty version": "" })) {
  it(`reads a zone whole whose journal has ${what}, and transfers it whole`, async () => {
    await startServer();
    const before = await database.db("zones").where({ name: "bad.parent.test" }).first("serial");
    await putZone(database, "bad.parent.test", ["@ NS ns1.parent.test.", "host A 192.0.2.2"], "it is spoilt first");
    const spoil = `update zone_journal set deleted = '${octets}' where ${OF_ZONE}
                      and version = (select max(version) from zone_journal where ${OF_ZONE})`;
    await database.db.raw(spoil);
    await expectNeighbourIsPublished();
    await eventually(async () => (await addressAt("host.bad.parent.test")).includes("192.0.2.2"), PATIENCE_MS);
    const question = { name: "bad.parent.test", type: "IXFR", serial: Number(before.serial) } as const;
    const { rcode, records } = await askOverTcp(server!.addresses.dns!, question);
    expect(rcode).toBe("NOERROR");
    expect(records.length).toBe(4);
    expect(new Set(told("journal-corrupt"))).toEqual(new Set(["bad.parent.test."]));
    expect(told("zones-unreadable")).toEqual([]);
  });
}

it("no row has the apex of another zone", async () => {
  const taken = put("apex", "(select apex from zones where name = 'parent.test')");
  await expect(taken).rejects.toThrow("zones_apex");
});
