import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { TsigKey } from "../../services/core/dns/tsig.ts";
import { start } from "../../services/dns-server/main.ts";
import { collectMetrics, gaugeValue } from "../../services/platform/observability/metrics.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { removeAcl } from "../../services/store/dns/acls.ts";
import { beginIncarnation } from "../../services/store/incarnation.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import {
  addZoneOwner,
  dnsServerContext,
  eventually,
  nameOf,
  putZone,
  putZoneFile,
  suspendZone,
} from "../support/dns-server.ts";
import { askSections, type Question } from "../support/dnssec-questions.ts";
import { PARENT_ZONE } from "../support/dnssec-zone-text.ts";
import { operatorOf } from "../support/operator.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { DENIALS, SIGNING_PROGRAM, signZone } from "../support/signed-zones.ts";
import { openTcpGate, type TcpGate } from "../support/tcp-gate.ts";
import { askOverTcp, askOverUdp, asSet, serialOf } from "../support/transfer-client.ts";

let database: TestDatabase;
let gate: TcpGate;
let context: ServiceContext;
/** The database by way of the gate. */
let gateUrl: string;
let running: RunningService | undefined;
const observed: Observation[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  const other = { resellerId: "other", crmId: "others" };
  await addZoneOwner(database, other);
  await putZone(database, "suspended.others.test", ["@ NS ns1.kept.test.", "www A 192.0.2.7"]);
  await putZone(database, "others.test", ["@ NS ns1.kept.test.", "*.suspended A 192.0.2.66"], undefined, other);
  await suspendZone(database, "suspended.others.test", true);
  await putZone(database, "kept.test", [
    "@ NS ns1",
    "ns1 A 192.0.2.1",
    "www A 192.0.2.2",
    '*.wild TXT "any"',
    "sub NS ns.sub",
    "ns.sub A 192.0.2.3",
  ]);
  await putZone(database, "changed.test", ["@ NS ns1.kept.test.", "www A 192.0.2.4"]);
  await putZone(database, "gone.test", ["@ NS ns1.kept.test.", "www A 192.0.2.5"]);
  const url = new URL(database.url);
  gate = await openTcpGate({ host: url.hostname, port: Number(url.port) });
  url.port = String(gate.port);
  gateUrl = url.href;
  context = dnsServerContext(database, {
    env: { PALOMAR_DNS_UDP: "portable" },
    openConnection: () => openListenConnection(gateUrl, "test"),
    observe: (observation) => void observed.push(observation),
  });
});

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

afterAll(async () => {
  await gate.shut();
  await database.drop();
});

const ask = (name: string, type: string) => askDns(running!.addresses.dns!, name, type);
/** A server starts without zones that do not come in time. */
const untilLoaded = () => eventually(async () => rcodeOf(await ask("kept.test", "SOA")) === "NOERROR", 60_000);
const kindsObserved = () => observed.splice(0).map(({ kind }) => kind);

it("without a database and without a snapshot the answer is SERVFAIL", async () => {
  await gate.shut();
  running = await start(context);
  expect(rcodeOf(await ask("www.kept.test", "A"))).toBe("SERVFAIL");
  await running.stop();
  running = undefined;
  await gate.open();
  // What was never read is not kept.
  expect(existsSync(join(context.config.dataDir, "zones.snapshot"))).toBe(false);
});

it("keeps the zones when it stops, and answers from them while the database is away at the start", async () => {
  running = await start(context);
  await untilLoaded();
  const questions = [
    ["www.kept.test", "A"],
    ["x.wild.kept.test", "TXT"],
    ["a.sub.kept.test", "A"],
    ["no.kept.test", "A"],
    ["kept.test", "SOA"],
    ["wild.kept.test", "A"],
    ["www.suspended.others.test", "A"],
  ] as const;
  const before = [];
  for (const [name, type] of questions) before.push({ ...(await ask(name, type)), id: 0 });
  await running.stop();
  await gate.shut();
  kindsObserved();

  const laterMs = 190_000;
  running = await start({ ...context, clock: { nowMs: () => context.clock.nowMs() + laterMs } });
  expect(kindsObserved()).toContain("zones-from-snapshot");
  expect(gaugeValue(await collectMetrics(), "palomar_dns_behind_seconds")).toBeGreaterThanOrEqual(laterMs / 1_000);
  const after = [];
  for (const [name, type] of questions) after.push({ ...(await ask(name, type)), id: 0 });
  expect(after).toEqual(before);
  expect(rcodeOf(after.at(-1)!)).toBe("REFUSED");
  expect(rcodeOf(await ask("www.gone.test", "A"))).toBe("NOERROR");
});

it("answers from the snapshot within seconds where the database takes connections and says nothing", async () => {
  const gated = openDb(gateUrl, { connections: 2, name: "test" });
  try {
    await gate.hang();
    const startedMs = performance.now();
    running = await start({ ...context, db: gated });
    // The driver gives up a connection after 10 s.
    expect(performance.now() - startedMs).toBeLessThan(8_000);
    expect(dataOf(await ask("www.kept.test", "A"))).toEqual(["192.0.2.2"]);
  } finally {
    await gate.shut();
    await running?.stop();
    running = undefined;
    await gated.destroy();
  }
});

it("catches up with what has happened meanwhile when the database is back", async () => {
  running = await start(context);
  await putZone(database, "changed.test", ["@ NS ns1.kept.test.", "www A 192.0.2.40"]);
  await suspendZone(database, "gone.test", true);
  await putZone(database, "new.test", ["@ NS ns1.kept.test.", "www A 192.0.2.6"]);
  expect(dataOf(await ask("www.changed.test", "A"))).toEqual(["192.0.2.4"]);
  await gate.open();
  await eventually(async () => rcodeOf(await ask("www.new.test", "A")) === "NOERROR", 60_000);
  await expect.poll(async () => dataOf(await ask("www.changed.test", "A"))).toEqual(["192.0.2.40"]);
  await expect.poll(async () => rcodeOf(await ask("www.gone.test", "A"))).toBe("REFUSED");
  expect(dataOf(await ask("www.kept.test", "A"))).toEqual(["192.0.2.2"]);
});

it("does not trust versions of another life of the database", async () => {
  // As after a restore: the version is the snapshot's, the content another.
  await database.db.raw("update records set rdata = '\\xc0000209' where rdata = '\\xc0000202'");
  await beginIncarnation(database.db);
  await gate.shut();
  running = await start(context);
  expect(dataOf(await ask("www.kept.test", "A"))).toEqual(["192.0.2.2"]);
  await gate.open();
  await eventually(async () => dataOf(await ask("www.kept.test", "A"))[0] === "192.0.2.9", 60_000);
});

it("does not trust ids of another life of the database: they may be those of other zones", async () => {
  const { db } = database;
  await putZone(database, "one.test", ["@ NS ns1.kept.test.", "www A 192.0.2.11"]);
  await putZone(database, "two.test", ["@ NS ns1.kept.test.", "www A 192.0.2.12"]);
  await putZone(database, "lost.test", ["@ NS ns1.kept.test.", "www A 192.0.2.13"]);
  running = await start(context);
  await eventually(async () => rcodeOf(await ask("www.lost.test", "A")) === "NOERROR", 60_000);
  await gate.shut();
  // As after a restore of what was before all three: the sequence gives their numbers anew.
  const names = ["one.test", "two.test", "lost.test"];
  const ids = (await db("zones").whereIn("name", names).orderBy("id").pluck("id")) as number[];
  await db("zones").whereIn("id", ids).delete();
  await db("zone_deletions").whereIn("zone_id", ids).delete();
  await db.raw("select setval(pg_get_serial_sequence('zones', 'id'), ?, false)", [ids[0]!]);
  await putZone(database, "two.test", ["@ NS ns1.kept.test.", "www A 192.0.2.22"]);
  await putZone(database, "one.test", ["@ NS ns1.kept.test.", "www A 192.0.2.21"]);
  await putZone(database, "late.test", ["@ NS ns1.kept.test.", "www A 192.0.2.23"]);
  expect(await db("zones").whereIn("id", ids).orderBy("id").pluck("name")).toEqual([
    "two.test",
    "one.test",
    "late.test",
  ]);
  await beginIncarnation(db);
  await gate.open();
  await eventually(async () => rcodeOf(await ask("www.late.test", "A")) === "NOERROR", 60_000);
  const asked = () => Promise.all(["one.test", "two.test", "late.test"].map((name) => ask(`www.${name}`, "A")));
  await expect.poll(async () => (await asked()).flatMap(dataOf)).toEqual(["192.0.2.21", "192.0.2.22", "192.0.2.23"]);
  await expect.poll(async () => rcodeOf(await ask("www.lost.test", "A"))).toBe("REFUSED");
});

const whySkipped = isInstalled(SIGNING_PROGRAM) ? "" : ` (skipped: ${SIGNING_PROGRAM} is not installed)`;

it.skipIf(whySkipped !== "").each(DENIALS)(
  `keeps the signatures and proofs of a signed zone: %s${whySkipped}`,
  async (denial) => {
    const name = `${denial}.signed.test`;
    const signed = signZone(name, PARENT_ZONE, denial);
    await putZoneFile(database, name, signed.text);
    const questions: Question[] = ["", "www.", "nothing.", "a.b.c.nothing.", "ns1."].flatMap((label) =>
      ["A", "TXT", "DNSKEY"].map((type) => ({ name: `${label}${name}.`, type, transport: "tcp" }) as const),
    );
    const askAll = async () => {
      const answers = [];
      for (const question of questions) answers.push(await askSections(running!.addresses.dns!, question));
      return answers;
    };
    running = await start(context);
    await eventually(async () => rcodeOf(await ask(name, "SOA")) === "NOERROR", 60_000);
    const before = await askAll();
    expect(JSON.stringify(before)).toContain("RRSIG");
    await running.stop();
    await gate.shut();
    running = await start(context);
    expect(await askAll()).toEqual(before);
    await gate.open();
  },
);

it("knows who may transfer, and ask feeds and catalogs, and believes the database again when it is back", async () => {
  const gated = openDb(gateUrl, { connections: 2, name: "test" });
  const palomar = operatorOf(context);
  const { json } = await palomar("acl", "add", "reseller", "secondary", "--tsig", "k.test");
  const key: TsigKey = {
    ...{ name: nameOf("k.test"), algorithm: "hmac-sha256" },
    secret: Buffer.from(json.tsig.secret, "base64"),
  };
  await palomar("reseller", "licence", "reseller", "--rpz", "on");
  await palomar("rpz", "feed", "add", "feed.test");
  await palomar("rpz", "activate", "feed.test", "reseller");
  await palomar("catalog", "add", "reseller", "catalog.test");
  const withKey = (name: string, type: "AXFR" | "IXFR" | "SOA", serial?: number) =>
    askOverTcp(running!.addresses.dns!, { name, type, key, ...(serial !== undefined && { serial }) });
  const axfrOf = async (name: string) => asSet((await withKey(name, "AXFR")).records);
  try {
    running = await start({ ...context, db: gated });
    // A slow database says late who may transfer.
    await eventually(async () => (await withKey("kept.test", "AXFR")).rcode === "NOERROR", 60_000);
    const before = await Promise.all(["kept.test", "feed.test", "catalog.test"].map(axfrOf));
    expect(before.map((records) => records.length)).toEqual([8, 3, expect.any(Number)]);
    await running.stop();
    const file = readFileSync(join(context.config.dataDir, "zones.snapshot"), "latin1");
    expect(file).not.toContain(json.tsig.secret);
    expect(file).not.toContain(Buffer.from(key.secret).toString("latin1"));
    await gate.shut();

    running = await start({ ...context, db: gated });
    expect(await Promise.all(["kept.test", "feed.test", "catalog.test"].map(axfrOf))).toEqual(before);
    expect(await withKey("feed.test", "SOA")).toMatchObject({ rcode: "NOERROR", authentic: true });
    const server = running.addresses.dns!;
    for (const name of ["kept.test", "feed.test", "catalog.test"]) {
      expect((await askOverTcp(server, { name, type: "AXFR" })).rcode, name).toBe("REFUSED");
    }
    const serial = serialOf((await withKey("kept.test", "SOA")).records[0]);
    expect((await withKey("kept.test", "IXFR", serial)).records.map(serialOf)).toEqual([serial]);
    expect(asSet((await withKey("kept.test", "IXFR", serial - 1)).records)).toEqual(before[0]);
    const byUdp = { name: "kept.test", type: "IXFR", key, serial: serial - 1 } as const;
    expect((await askOverUdp(server, byUdp)).records.map(serialOf)).toEqual([serial]);
    // Suspended, new or nobody's: only the database knows.
    expect(await withKey("elsewhere.test", "AXFR")).toMatchObject({ rcode: "SERVFAIL", authentic: true });

    await removeAcl(database.db, "reseller", "secondary");
    await gate.open();
    await eventually(async () => (await withKey("kept.test", "AXFR")).rcode === "NOTAUTH", 60_000);
  } finally {
    await running?.stop();
    running = undefined;
    await gated.destroy();
  }
});

it("keeps when it stops what was published before the database went away", async () => {
  await putZone(database, "late.test", ["@ NS ns1.kept.test.", "www A 192.0.2.50"]);
  await putZone(database, "away.test", ["@ NS ns1.kept.test.", "www A 192.0.2.50"]);
  running = await start(context);
  await eventually(async () => dataOf(await ask("www.late.test", "A"))[0] === "192.0.2.50", 60_000);
  await putZone(database, "late.test", ["@ NS ns1.kept.test.", "www A 192.0.2.51"]);
  await suspendZone(database, "away.test", true);
  await eventually(async () => dataOf(await ask("www.late.test", "A"))[0] === "192.0.2.51", 60_000);
  await eventually(async () => rcodeOf(await ask("www.away.test", "A")) === "REFUSED", 60_000);
  await gate.shut();
  // The feed notices, and tries in vain.
  observed.length = 0;
  await eventually(async () => observed.some(({ kind }) => kind === "zones-unreadable"), 60_000);
  await running.stop();
  running = await start(context);
  expect(dataOf(await ask("www.late.test", "A"))).toEqual(["192.0.2.51"]);
  expect(rcodeOf(await ask("www.away.test", "A"))).toBe("REFUSED");
  await gate.open();
});

it("answers for a zone no longer than its SOA's EXPIRE after it was last known to be right", async () => {
  await gate.shut();
  const later = { ...context, clock: { ...context.clock, nowMs: () => Date.now() + 1_209_700_000 } };
  running = await start(later);
  expect(rcodeOf(await ask("www.kept.test", "A"))).toBe("REFUSED");
  await gate.open();
});
