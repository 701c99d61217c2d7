import { mkdtempSync, rmSync } from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "node:tls";
import * as dnsPacket from "dns-packet";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import { registry } from "../../services/platform/observability/metrics.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, type DnsAnswer, dataOf, rcodeOf } from "../support/dns-client.ts";
import {
  addZoneOwner,
  deleteZone,
  dnsServerContext,
  eventually,
  putZone as putZoneInto,
  suspendZone,
  throwOctetsAt,
} from "../support/dns-server.ts";

/** Worker threads run compiled files only on Node 20; dns-server-batch.test.ts has those. */
const PORTABLE = { PALOMAR_DNS_UDP: "portable" };

const OTHER_OWNER = { resellerId: "other", crmId: "others" };

let database: TestDatabase;
let server: RunningService;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await addZoneOwner(database, OTHER_OWNER);
  await putZone("loaded.example.org", ["@ NS ns1", "ns1 A 192.0.2.53", "www A 192.0.2.1"], "loaded at start");
});

afterAll(() => database?.drop());

describe("the authoritative server on a database", () => {
  beforeAll(async () => {
    server = await start(dnsServerContext(database, { env: PORTABLE }));
    // It starts without zones that do not come in time.
    await soon(async () => rcodeOf(await ask("www.loaded.example.org", "A")) === "NOERROR");
  });
  afterAll(() => server?.stop());

  it("answers what was there before it started, over UDP and TCP", async () => {
    for (const transport of ["udp", "tcp"] as const) {
      const answer = await ask("www.loaded.example.org", "A", transport);
      expect(dataOf(answer)).toEqual(["192.0.2.1"]);
      expect(answer).toMatchObject({ flag_aa: true });
    }
  });

  it("refuses what it does not host", async () => {
    expect(rcodeOf(await ask("www.example.net", "A"))).toBe("REFUSED");
  });

  it("answers a new zone, changed names and removed names when it has notice of them", async () => {
    await putZone("new.example.org", ["@ NS ns1", "ns1 A 192.0.2.53", "www A 192.0.2.1", "a.b A 192.0.2.9"]);
    await soon(async () => dataOf(await ask("www.new.example.org", "A")).includes("192.0.2.1"));

    await putZone("new.example.org", ["@ NS ns1", "ns1 A 192.0.2.53", "www A 192.0.2.2", "mail A 192.0.2.3"]);
    await soon(async () => dataOf(await ask("www.new.example.org", "A")).includes("192.0.2.2"));
    expect(dataOf(await ask("mail.new.example.org", "A"))).toEqual(["192.0.2.3"]);
    expect(rcodeOf(await ask("a.b.new.example.org", "A"))).toBe("NXDOMAIN");
    expect(rcodeOf(await ask("b.new.example.org", "A"))).toBe("NXDOMAIN");
    const [soa] = dataOf(await ask("new.example.org", "SOA"));
    expect(soa).toMatchObject({ serial: 2 });
  });

  it("sees changes that nobody gave notice of within the poll's second", async () => {
    await putZone("silent.example.org", ["@ NS ns1", "ns1 A 192.0.2.53"], "without a notice");
    await eventually(async () => rcodeOf(await ask("ns1.silent.example.org", "A")) === "NOERROR", 60_000);
  });

  it("refuses a suspended zone, answers it again when resumed, and forgets it when deleted", async () => {
    await putZone("moving.example.org", ["@ NS ns1", "ns1 A 192.0.2.53"]);
    await soon(async () => rcodeOf(await ask("ns1.moving.example.org", "A")) === "NOERROR");
    await suspendZone(database, "moving.example.org", true);
    await soon(async () => rcodeOf(await ask("ns1.moving.example.org", "A")) === "REFUSED");
    await suspendZone(database, "moving.example.org", false);
    await soon(async () => rcodeOf(await ask("ns1.moving.example.org", "A")) === "NOERROR");
    const gone = await deleteZone(database, "moving.example.org");
    await notifyZones(database.db, gone);
    await soon(async () => rcodeOf(await ask("ns1.moving.example.org", "A")) === "REFUSED");
  });

  it("goes on with the other zones when a record of one is corrupt", async () => {
    await putZone("corrupt.example.org", ["@ NS ns1", "ns1 A 192.0.2.53"]);
    await soon(async () => rcodeOf(await ask("ns1.corrupt.example.org", "A")) === "NOERROR");
    await suspendZone(database, "corrupt.example.org", true);
    await soon(async () => rcodeOf(await ask("ns1.corrupt.example.org", "A")) === "REFUSED");
    const corrupt =
      "update records set rdata = '\\x05' where type = 2 and zone_id = (select id from zones where name = ?)";
    await database.db.raw(corrupt, ["corrupt.example.org"]);
    await suspendZone(database, "corrupt.example.org", false);
    await putZone("sound.example.org", ["@ NS ns1", "ns1 A 192.0.2.53"]);
    await soon(async () => rcodeOf(await ask("ns1.sound.example.org", "A")) === "NOERROR");
    await soon(async () => rcodeOf(await ask("ns1.corrupt.example.org", "A")) === "SERVFAIL");
  });

  it("takes up a zone that was deleted and made again under the same name", async () => {
    await putZone("again.example.org", ["@ NS ns1", "ns1 A 192.0.2.1"]);
    await soon(async () => rcodeOf(await ask("ns1.again.example.org", "A")) === "NOERROR");
    await deleteZone(database, "again.example.org");
    await putZone("again.example.org", ["@ NS ns1", "ns1 A 192.0.2.2"]);
    await soon(async () => dataOf(await ask("ns1.again.example.org", "A")).includes("192.0.2.2"));
    await sleep(1_200);
    expect(dataOf(await ask("ns1.again.example.org", "A"))).toEqual(["192.0.2.2"]);
  });

  it("answers a suspended child's names from the parent zone", async () => {
    await putZone("parent.example.net", ["@ NS ns1", "ns1 A 192.0.2.53", "*.child TXT parent", "al CNAME x.child"]);
    await putZone("child.parent.example.net", ["@ NS ns1", "ns1 A 192.0.2.53", "x TXT child"]);
    const text = async () => String(dataOf(await ask("x.child.parent.example.net", "TXT")));
    await soon(async () => (await text()) === "child");
    await suspendZone(database, "child.parent.example.net", true);
    await soon(async () => (await text()) === "parent");
    expect(dataOf(await ask("al.parent.example.net", "TXT")).map(String)).toEqual([
      "x.child.parent.example.net",
      "parent",
    ]);
  });

  it("refuses a suspended child's names where the parent zone is another reseller's", async () => {
    const records = ["@ NS ns1", "ns1 A 192.0.2.53", "*.child TXT parent", `child DS 1 13 2 ${"ab".repeat(32)}`];
    await putZone("child.others.example.net", ["@ NS ns1", "ns1 A 192.0.2.53", "x TXT child"]);
    await putZoneInto(database, "others.example.net", records, undefined, OTHER_OWNER);
    const name = "x.child.others.example.net";
    const rcode = async () => rcodeOf(await ask(name, "TXT"));
    await soon(async () => String(dataOf(await ask(name, "TXT"))) === "child");
    await suspendZone(database, "child.others.example.net", true);
    await soon(async () => (await rcode()) === "REFUSED");
    expect(rcodeOf(await ask("child.others.example.net", "SOA"))).toBe("REFUSED");
    expect(rcodeOf(await ask("child.others.example.net", "DS"))).toBe("NOERROR");
    expect(rcodeOf(await ask("beside.others.example.net", "TXT"))).toBe("NXDOMAIN");
    await suspendZone(database, "child.others.example.net", false);
    await soon(async () => (await rcode()) === "NOERROR");
    await suspendZone(database, "child.others.example.net", true);
    await soon(async () => (await rcode()) === "REFUSED");
    await deleteZone(database, "child.others.example.net");
    await soon(async () => String(dataOf(await ask(name, "TXT"))) === "parent");
  });

  it("loads a zone whole where the journal has a gap", async () => {
    await putZone("gap.example.org", ["@ NS ns1", "ns1 A 192.0.2.1"]);
    await soon(async () => rcodeOf(await ask("ns1.gap.example.org", "A")) === "NOERROR");
    await database.db.transaction(async (transaction) => {
      await transaction.raw("update records set rdata = '\\xc0000209' where owner_key = ?", [
        Buffer.from("org\0example\0gap\0ns1\0"),
      ]);
      await transaction.raw(
        "update zones set version = version + 5, changed_xid = pg_current_xact_id() where name = 'gap.example.org'",
      );
    });
    await eventually(async () => dataOf(await ask("ns1.gap.example.org", "A")).includes("192.0.2.9"), 60_000);
  });

  it("outlives random octets on its sockets", async () => {
    await throwOctetsAt(server.addresses.dns!, 5_000, 50);
    for (const transport of ["udp", "tcp"] as const) {
      expect(dataOf(await ask("www.loaded.example.org", "A", transport))).toEqual(["192.0.2.1"]);
    }
  });

  it("goes on answering without the database, and catches up when it is back", async () => {
    const ended = await database
      .db("pg_stat_activity")
      .whereRaw("datname = current_database() and application_name like '%listen'")
      .select(database.db.raw("pg_terminate_backend(pid)"));
    expect(ended.length).toBeGreaterThan(0);
    expect(dataOf(await ask("www.loaded.example.org", "A"))).toEqual(["192.0.2.1"]);
    await putZone("meanwhile.example.org", ["@ NS ns1", "ns1 A 192.0.2.53"], "while nobody listens");
    await eventually(async () => rcodeOf(await ask("ns1.meanwhile.example.org", "A")) === "NOERROR", 60_000);
    expect(dataOf(await ask("www.loaded.example.org", "A"))).toEqual(["192.0.2.1"]);
  });
});

describe("the authoritative server over TLS and HTTPS", () => {
  it("has a certificate of its own making, says where it listens, and counts what it answers", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "palomar-dns-"));
    const listen = { PALOMAR_DNS_TLS_LISTEN: "127.0.0.1:0", PALOMAR_DNS_HTTPS_LISTEN: "127.0.0.1:0" };
    const env = { ...PORTABLE, ...listen, PALOMAR_DATA_DIR: dataDir };
    const secure = await start(dnsServerContext(database, { env }));
    try {
      const answer = await askOverTls(Number(secure.addresses.dns_tls!.split(":")[1]), "www.loaded.example.org");
      expect(dataOf(answer)).toEqual(["192.0.2.1"]);
      const byHttps = await askOverHttps(secure.addresses.dns_https!, "www.loaded.example.org");
      expect(dataOf(byHttps)).toEqual(["192.0.2.1"]);
      const metrics = await registry.metrics();
      expect(metrics).toContain('palomar_dns_queries_total{transport="tls"} 1\n');
      expect(metrics).toContain('palomar_dns_queries_total{transport="https"} 1\n');
      expect(metrics).toContain('palomar_dns_responses_total{rcode="0"} 2\n');
      expect(metrics).toMatch(/palomar_dns_zones [1-9]/);
    } finally {
      await secure.stop();
      rmSync(dataDir, { recursive: true });
    }
  });
});

describe("the authoritative server without a database", () => {
  it("says SERVFAIL until it has loaded its zones", async () => {
    let allow: () => void = () => {};
    const allowed = new Promise<void>((resolve) => {
      allow = resolve;
    });
    const openConnection = async () => {
      await Promise.race([allowed, sleep(50).then(() => Promise.reject(new Error("no database yet")))]);
      return openListenConnection(database.url, "test");
    };
    const waiting = await start(dnsServerContext(database, { env: PORTABLE, openConnection }));
    try {
      expect(rcodeOf(await askDns(waiting.addresses.dns!, "www.loaded.example.org", "A"))).toBe("SERVFAIL");
      allow();
      const answer = () => askDns(waiting.addresses.dns!, "www.loaded.example.org", "A");
      await eventually(async () => rcodeOf(await answer()) === "NOERROR", 60_000);
    } finally {
      await waiting.stop();
    }
  });
});

const putZone = (...zone: [name: string, records: string[], reasonForSilence?: string]) =>
  putZoneInto(database, ...zone);

/** The connection is what counts here: the certificate vouches for nobody. */
function askOverTls(port: number, name: string): Promise<DnsAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["dot"] });
    socket.setTimeout(60_000, () => socket.destroy(new Error("no answer over TLS")));
    socket.once("error", reject);
    socket.once("data", (octets) => {
      socket.end();
      resolve(dnsPacket.decode(octets.subarray(2)));
    });
    socket.write(dnsPacket.streamEncode({ type: "query", id: 1, questions: [{ name, type: "A" }] }));
  });
}

function askOverHttps(address: string, name: string): Promise<DnsAnswer> {
  const query = dnsPacket.encode({ type: "query", id: 0, questions: [{ name, type: "A" }] });
  const url = `https://${address}/dns-query?dns=${query.toString("base64url")}`;
  return new Promise((resolve, reject) => {
    const request = get(url, { rejectUnauthorized: false, agent: false }, async (response) => {
      resolve(dnsPacket.decode(Buffer.concat(await response.toArray())));
    });
    request.once("error", reject);
  });
}

function ask(name: string, type: string, transport: "udp" | "tcp" = "udp") {
  return askDns(server.addresses.dns!, name, type, transport);
}

/** A busy machine takes its time; how fast it is on a quiet one is for the benchmark to say. */
const soon = (holds: () => Promise<boolean>) => eventually(holds, 60_000);
