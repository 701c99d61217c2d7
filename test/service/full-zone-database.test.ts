import type pg from "pg";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { registry } from "../../services/platform/observability/metrics.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { readRecordsAt } from "../../services/store/dns/records.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { findZone } from "../../services/store/dns/zones.ts";
import { listLeftOut } from "../../services/store/dns/zones-left-out.ts";
import { beginIncarnation } from "../../services/store/incarnation.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import {
  addZoneOwner,
  deleteZone,
  dnsServerContext,
  eventually,
  nameOf,
  putZone,
  putZoneFile,
  SCOPE,
  SIGNER,
} from "../support/dns-server.ts";
import { askSections } from "../support/dnssec-questions.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { saying } from "../support/said.ts";
import { DENIALS, SIGNING_PROGRAM, signZone } from "../support/signed-zones.ts";
import { askOverTcp, serialOf, type TransferQuestion } from "../support/transfer-client.ts";

/** Long enough for a busy machine. */
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let server: RunningService | undefined;
let observed: Observation[] = [];
/** The server's clock is ahead by so much. */
let aheadMs = 0;
/** What the server reads zones over. */
let connections: pg.Client[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  for (let index = 0; index < 20; index += 1)
    await putZone(database, `s${index}.test`, ["@ NS ns1", "ns1 A 192.0.2.1"]);
});
afterAll(() => database?.drop());
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

async function startServer(env: Readonly<Record<string, string>> = {}): Promise<void> {
  observed = [];
  aheadMs = 0;
  connections = [];
  const small = { PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_MEMORY: "8MiB", ...env };
  const openConnection = async () => {
    const connection = await openListenConnection(database.url, "test");
    connections.push(connection);
    return connection;
  };
  const context = dnsServerContext(database, { env: small, openConnection, observe: (one) => observed.push(one) });
  server = await start({ ...context, clock: { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs } });
  // It starts without zones that do not come in time.
  await eventually(async () => (await rcodeAt("s0.test", "SOA")) === "NOERROR", PATIENCE_MS);
}

/** Records that take some 1,100 octets of memory each: a few of them fill it. */
const TEXT = Array.from({ length: 4 }, () => `"${"x".repeat(240)}"`).join(" ");
const hosts = (count: number) => Array.from({ length: count }, (_, index) => `host-${index} TXT ${TEXT}`);
const MANY = 7_500;
const put = (name: string, records: readonly string[]) => putZone(database, name, ["@ NS ns1.s0.test.", ...records]);
const ask = (name: string, type = "A") => askDns(server!.addresses.dns!, name, type);
const rcodeAt = async (name: string, type = "A") => rcodeOf(await ask(name, type));
const untilRcode = (name: string, rcode: string) =>
  eventually(async () => (await rcodeAt(name, "TXT")) === rcode, PATIENCE_MS);
const untilAddress = (name: string, address: string) =>
  eventually(async () => dataOf(await ask(name)).includes(address), PATIENCE_MS);
const told = (kind: string) => observed.filter((one) => one.kind === kind).map((one) => "zone" in one && one.zone);
async function gauge(name: string): Promise<number> {
  const metric = await registry.getSingleMetric(name)!.get();
  return metric.values[0]?.value ?? 0;
}

/** Takes the records of a name away as the API does. */
async function deleteHost(name: string) {
  const apex = nameOf(name.slice(name.indexOf(".") + 1));
  const target = { scope: SCOPE, apex, domain: "grows.test", actor: "test", signer: SIGNER };
  const zone = await findZone(database.db, SCOPE, apex);
  const [record] = await readRecordsAt(database.db, zone!.id, [nameOf(name)]);
  const edits = { creations: [], modifications: [], deletionIds: [record!.id] };
  const changed = await changeRecords(database.db, target, edits, new Date());
  if (!changed.ok) throw new Error(JSON.stringify(changed.error));
  return changed.value;
}

it("leaves a zone out alone that does not fit, also after a restart, and takes it in when there is room", async () => {
  await startServer();
  await put("parent.test", ["www A 192.0.2.9"]);
  await put("filler.test", hosts(2_500));
  await untilRcode("host-1.filler.test", "NOERROR");
  await put("big.parent.test", hosts(5_600));
  await untilRcode("host-1.big.parent.test", "SERVFAIL");
  // Nothing of it comes from the parent, and the parent is whole.
  expect(await rcodeAt("none.of.big.parent.test")).toBe("SERVFAIL");
  expect(await rcodeAt("none.parent.test")).toBe("NXDOMAIN");
  expect(await rcodeAt("big.parent.test", "SOA")).toBe("SERVFAIL");
  // Others are published as ever.
  await put("new.test", ["www A 192.0.2.10"]);
  await untilAddress("www.new.test", "192.0.2.10");
  await put("parent.test", ["www A 192.0.2.11"]);
  await untilAddress("www.parent.test", "192.0.2.11");
  expect(await gauge("palomar_dns_zones_left_out")).toBe(1);
  expect(await gauge("palomar_dns_zones_expected")).toBe((await gauge("palomar_dns_zones")) + 1);
  await eventually(async () => (await listLeftOut(database.db, 20)).length === 1, PATIENCE_MS);
  expect((await listLeftOut(database.db, 20))[0]).toMatchObject({ zone: "big.parent.test", outdated: false });
  expect(told("zone-left-out")).toEqual(["big.parent.test."]);

  await server!.stop();
  expect(await listLeftOut(database.db, 20)).toEqual([]);
  await startServer();
  expect(await rcodeAt("host-1.big.parent.test", "TXT")).toBe("SERVFAIL");
  expect(await rcodeAt("host-1.filler.test", "TXT")).toBe("NOERROR");
  expect(dataOf(await ask("www.parent.test"))).toContain("192.0.2.11");
  expect(told("zone-left-out")).toEqual(["big.parent.test."]);

  await notifyZones(database.db, [...(await deleteZone(database, "filler.test"))]);
  await untilRcode("host-1.big.parent.test", "NOERROR");
  expect(told("zone-fits-again")).toEqual(["big.parent.test."]);
  expect(await gauge("palomar_dns_zones_left_out")).toBe(0);
  await notifyZones(database.db, [...(await deleteZone(database, "big.parent.test"))]);
});

it("loads the smaller zones at a start, whichever was made first", async () => {
  await put("first-large.test", hosts(MANY));
  await put("second-small.test", hosts(1_900));
  await startServer();
  expect(await rcodeAt("host-1.first-large.test", "TXT")).toBe("SERVFAIL");
  expect(await rcodeAt("host-1.second-small.test", "TXT")).toBe("NOERROR");
  for (const name of ["first-large.test", "second-small.test"]) {
    await notifyZones(database.db, [...(await deleteZone(database, name))]);
  }
  await untilRcode("host-1.first-large.test", "REFUSED");
});

it("goes on with the last version of a zone that grows too large, its neighbours unaffected", async () => {
  await put("grows.test", hosts(625));
  await startServer();
  const { keyRing } = dnsServerContext(database);
  const acl = { resellerId: SCOPE.resellerId, name: "all", blocks: ["127.0.0.0/8"], tsig: null, zones: ["grows.test"] };
  expect((await addAcl(database.db, keyRing, { ...acl, notify: [] })).ok).toBe(true);
  const transfer = (more: Partial<TransferQuestion>) =>
    askOverTcp(server!.addresses.dns!, { name: "grows.test", type: "AXFR", ...more });
  await eventually(async () => (await transfer({})).rcode === "NOERROR", PATIENCE_MS);
  const served = serialOf((await transfer({})).records[0]);
  await put("grows.test", hosts(MANY));
  await eventually(async () => told("zone-left-out").includes("grows.test."), PATIENCE_MS);
  expect(await rcodeAt("host-624.grows.test", "TXT")).toBe("NOERROR");
  expect(await rcodeAt("host-625.grows.test", "TXT")).toBe("NXDOMAIN");
  expect(await gauge("palomar_dns_zones_outdated")).toBe(1);
  // A secondary gets what is answered, whole and step by step.
  expect(serialOf((await transfer({})).records[0])).toBe(served);
  expect((await transfer({ type: "IXFR", serial: served })).records.map(serialOf)).toEqual([served]);
  // Its owner is told.
  await eventually(async () => (await listLeftOut(database.db, 20)).length === 1, PATIENCE_MS);
  expect((await deleteHost("host-1.grows.test")).warnings).toContainEqual(
    saying("the zone is published as it was on 1 name server: its latest version does not fit into their memory"),
  );
  await put("s1.test", ["www A 192.0.2.12"]);
  await untilAddress("www.s1.test", "192.0.2.12");
  await put("grows.test", hosts(750));
  await untilRcode("host-749.grows.test", "NOERROR");
  expect(await gauge("palomar_dns_zones_outdated")).toBe(0);
  await notifyZones(database.db, [...(await deleteZone(database, "grows.test"))]);
});

it("answers no more for an outdated zone when its SOA's EXPIRE has passed, and for it again when it fits", async () => {
  await put("expires.test", hosts(625));
  await startServer();
  await put("expires.test", hosts(MANY));
  await eventually(async () => told("zone-left-out").includes("expires.test."), PATIENCE_MS);
  // EXPIRE is 1,209,600 s: see putZone.
  aheadMs = 1_209_000_000;
  await put("s2.test", ["www A 192.0.2.13"]);
  await untilAddress("www.s2.test", "192.0.2.13");
  expect(await rcodeAt("host-1.expires.test", "TXT")).toBe("NOERROR");
  aheadMs = 1_209_700_000;
  await untilRcode("host-1.expires.test", "SERVFAIL");
  await expect.poll(() => told("zone-left-out")).toEqual(["expires.test.", "expires.test."]);
  expect([await gauge("palomar_dns_zones_left_out"), await gauge("palomar_dns_zones_outdated")]).toEqual([1, 0]);
  await put("expires.test", hosts(10));
  await untilRcode("host-1.expires.test", "NOERROR");
  await notifyZones(database.db, [...(await deleteZone(database, "expires.test"))]);
});

it("stays as it is when it comes back to another life of the database", async () => {
  await put("outdated.test", hosts(625));
  await put("withheld.test", hosts(MANY));
  await startServer();
  expect(await rcodeAt("host-1.withheld.test", "TXT")).toBe("SERVFAIL");
  await put("outdated.test", hosts(MANY - 1));
  await eventually(async () => told("zone-left-out").includes("outdated.test."), PATIENCE_MS);
  observed = [];
  await beginIncarnation(database.db);
  for (const connection of connections) await connection.end();
  await eventually(async () => told("zone-left-out").includes("withheld.test."), PATIENCE_MS);
  await put("s3.test", ["www A 192.0.2.14"]);
  await untilAddress("www.s3.test", "192.0.2.14");
  expect(told("zone-not-withheld")).toEqual([]);
  await untilRcode("host-1.withheld.test", "SERVFAIL");
  expect(await rcodeAt("host-1.outdated.test", "TXT")).toBe("NOERROR");
  expect([await gauge("palomar_dns_zones_left_out"), await gauge("palomar_dns_zones_outdated")]).toEqual([1, 1]);
  for (const name of ["outdated.test", "withheld.test"]) {
    await notifyZones(database.db, [...(await deleteZone(database, name))]);
  }
});

it("reads many changes, and large ones, a part at a time", async () => {
  const text = (index: number) =>
    `host-${index} TXT ${Array.from({ length: 4 }, () => `"${"y".repeat(250)}"`).join(" ")}`;
  const wide = (count: number) => Array.from({ length: count }, (_, index) => text(index));
  await put("wide.test", wide(1_500));
  await put("wider.test", wide(1_500));
  await startServer({ PALOMAR_DNS_MEMORY: "64MiB" });
  // All at once, before the server hears of any: 3 MiB of the journal for each of two, and little for the others.
  const silently = "all are told of below";
  const file = (name: string, records: readonly string[]) =>
    putZone(database, name, ["@ NS ns1.s0.test.", ...records], silently);
  await file("wide.test", wide(3_000));
  await file("wider.test", wide(4_500));
  for (let index = 0; index < 20; index += 1) await file(`s${index}.test`, ["www A 192.0.2.15"]);
  await notifyZones(database.db, []);
  for (let index = 0; index < 20; index += 1) await untilAddress(`www.s${index}.test`, "192.0.2.15");
  await untilRcode("host-2999.wide.test", "NOERROR");
  await untilRcode("host-4499.wider.test", "NOERROR");
  expect(await rcodeAt("host-3000.wide.test", "TXT")).toBe("NXDOMAIN");
  for (const name of ["wide.test", "wider.test"]) {
    await notifyZones(database.db, [...(await deleteZone(database, name))]);
  }
});

const whySkipped = isInstalled(SIGNING_PROGRAM) ? "" : ` (skipped: ${SIGNING_PROGRAM} is not installed)`;

it.skipIf(whySkipped !== "").each(DENIALS)(
  `proves what it denies in signed zones while memory is full, and in those that fit again: %s${whySkipped}`,
  async (denial) => {
    const zone = (records: readonly string[]) =>
      ["$TTL 300", "@ SOA ns1.s0.test. h.s0.test. 1 7200 3600 1209600 60", "@ NS ns1.s0.test.", ...records, ""].join(
        "\n",
      );
    const names = { small: `${denial}-small.test`, large: `${denial}-large.test`, filler: `${denial}-filler.test` };
    await putZoneFile(database, names.small, signZone(names.small, zone(["www A 192.0.2.1"]), denial).text);
    await put(names.filler, hosts(6_200));
    await startServer();
    const large = Array.from({ length: 3_000 }, (_, index) => `h${index} A 192.0.2.1`);
    await putZoneFile(database, names.large, signZone(names.large, zone(large), denial).text);
    await untilRcode(`h1.${names.large}`, "SERVFAIL");
    const proofOf = async (name: string) => {
      const sections = await askSections(server!.addresses.dns!, {
        name: `none.${name}.`,
        type: "A",
        transport: "tcp",
      });
      const text = JSON.stringify(sections.authorities);
      return [sections.rcode, text.includes(denial === "nsec" ? " NSEC " : " NSEC3 "), text.includes(" RRSIG ")];
    };
    expect(await proofOf(names.small)).toEqual([3, true, true]);
    await notifyZones(database.db, [...(await deleteZone(database, names.filler))]);
    await untilRcode(`h1.${names.large}`, "NOERROR");
    expect(await proofOf(names.large)).toEqual([3, true, true]);
    for (const name of [names.small, names.large]) {
      await notifyZones(database.db, [...(await deleteZone(database, name))]);
    }
  },
);
