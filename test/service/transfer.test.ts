import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { findTsig, type TsigKey } from "../../services/core/dns/tsig.ts";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { start } from "../../services/dns-server/main.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { readZoneDifference } from "../../services/store/dns/transfer-differences.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addZoneOwner,
  deleteZone,
  dnsServerContext,
  eventually,
  nameOf,
  putZone,
  SCOPE,
  suspendZone,
} from "../support/dns-server.ts";
import {
  applyDifference,
  askOverTcp,
  askOverUdp,
  asSet,
  serialOf,
  type TransferQuestion,
} from "../support/transfer-client.ts";

const SECRET = Buffer.from("0123456789abcdef0123456789abcdef");
const KEY: TsigKey = { name: nameOf("key.example"), algorithm: "hmac-sha256", secret: SECRET };
const OTHER_KEY: TsigKey = { name: nameOf("other.example"), algorithm: "hmac-sha512", secret: SECRET };

let database: TestDatabase;
let service: RunningService;
let server: string;
let dataDir: string;
/** The name server's own pool. */
let db: Db;
/** How often it has looked a zone up there that somebody wants to transfer. */
let lookUps = 0;
/** What it could not read of who may transfer, as it tells. */
const leftOut: Observation[] = [];
/** Journals that it could not read, as it tells. */
const corrupt: Observation[] = [];
/** What the name server's clock says; undefined while it goes on. */
let stoppedAtMs: number | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await addZones();
  dataDir = mkdtempSync(join(tmpdir(), "palomar-transfer-"));
  const context = dnsServerContext(database, {
    env: {
      PALOMAR_DNS_UDP: "portable",
      PALOMAR_DNS_TLS_LISTEN: "127.0.0.1:0",
      PALOMAR_DATA_DIR: dataDir,
      PALOMAR_LIMIT_LOOPBACK: "true",
    },
  });
  await allow(context.keyRing, { name: "open", blocks: ["127.0.0.0/8"], zones: ["example.org", "big.example"] });
  await allow(context.keyRing, { name: "coming", blocks: ["127.0.0.0/8"], zones: ["coming.example"] });
  await allow(context.keyRing, { name: "keyed", tsig: KEY, zones: ["keyed.example", "example.org"] });
  await allow(context.keyRing, {
    name: "elsewhere",
    blocks: ["192.0.2.0/24"],
    tsig: OTHER_KEY,
    zones: ["example.net"],
  });
  db = openDb(database.url, { connections: 10, name: "transfers" });
  db.client.pool.on("createSuccess", (_event: number, connection: pg.Client) => countLookUps(connection));
  const observe = (observation: Observation) => {
    if (observation.kind === "transfer-access-left-out") leftOut.push(observation);
    if (observation.kind === "journal-corrupt") corrupt.push(observation);
    context.observe(observation);
  };
  service = await start({ ...context, db, observe, clock: { nowMs: () => stoppedAtMs ?? Date.now() } });
  server = service.addresses.dns as string;
  // A slow database says late who may transfer.
  await eventually(async () => (await axfr("example.org")).rcode === "NOERROR", 60_000);
});

afterAll(async () => {
  await service?.stop();
  await db?.destroy();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const axfr = (name: string, more: Partial<TransferQuestion> = {}) =>
  askOverTcp(server, { name, type: "AXFR", ...more });
const ixfr = (name: string, serial: number, more: Partial<TransferQuestion> = {}) =>
  askOverTcp(server, { name, type: "IXFR", serial, ...more });

describe("AXFR", () => {
  it("gives the whole zone between two SOAs, occluded data and glue included", async () => {
    const { rcode, records, decoded } = await axfr("example.org");
    expect(rcode).toBe("NOERROR");
    expect(decoded[0]).toMatchObject({ flags: { qr: true, aa: true, ra: false }, questions: [{ type: TYPE.AXFR }] });
    expect(records[0]!.type).toBe(TYPE.SOA);
    expect(asSet([records.at(-1)!])).toEqual(asSet([records[0]!]));
    const owners = records.slice(1, -1).map(({ owner }) => owner.key);
    expect(owners).toContain(nameOf("ns.cut.example.org").key);
    expect(owners).toContain(nameOf("below.cut.example.org").key);
    expect(records).toHaveLength(2 + 7);
  });

  it("keeps the question's case and the data's", async () => {
    const { decoded, records } = await axfr("eXample.ORG");
    expect(Buffer.from(decoded[0]!.questions[0]!.name.wire).toString("latin1")).toContain("eXample");
    const names = records.map(({ owner }) => Buffer.from(owner.wire).toString("latin1"));
    expect(names.some((name) => name.includes("MiXed"))).toBe(true);
    expect(names.every((name) => name.endsWith("\x07example\x03org\0"))).toBe(true);
  });

  it("fills messages to at least 48 KiB while data last, and signs each", async () => {
    for (const key of [undefined, KEY]) {
      const { messages, records, authentic } = await axfr("big.example", key ? { key } : {});
      expect(messages.length).toBeGreaterThan(10);
      for (const message of messages.slice(0, -1)) expect(message.length).toBeGreaterThanOrEqual(48 * 1024);
      expect(new Set(asSet(records)).size).toBe(records.length - 1);
      expect(records).toHaveLength(40_000 + 4);
      expect(authentic).toBe(key ? true : undefined);
    }
  });

  it("splits RRsets where messages are full", async () => {
    const wide = Array.from({ length: 200 }, (_, index) => `TXT "${String(index).padStart(250, "x")}"`);
    const names = ["a", "b", "c"].flatMap((name) => wide.map((text) => `${name} ${text}`));
    await putZone(database, "wide.example.org", ["@ NS ns.example.net.", ...names]);
    await allowMore("wide.example.org");
    const { records, messages } = await axfr("wide.example.org");
    expect(messages.length).toBeLessThan(4);
    expect(records).toHaveLength(603);
    expect(new Set(asSet(records)).size).toBe(602);
  });

  it("goes over TLS as well, by the same rules", async () => {
    const tls = service.addresses.dns_tls as string;
    const over = await askOverTcp(tls, { name: "big.example", type: "AXFR", tls: true, key: KEY });
    expect(over).toMatchObject({ rcode: "NOERROR", authentic: true });
    expect(asSet(over.records)).toEqual(asSet((await axfr("big.example")).records));
    expect((await askOverTcp(tls, { name: "example.net", type: "AXFR", tls: true })).rcode).toBe("REFUSED");
  });

  it("goes over no TLS below 1.3, on which queries are answered all the same", async () => {
    const ask = { name: "big.example", tls: "TLSv1.2", key: KEY } as const;
    const questions = [{ type: "AXFR" }, { type: "IXFR", serial: 1 }, { type: "SOA" }] as const;
    const answers = await Promise.all(
      questions.map((question) => askOverTcp(service.addresses.dns_tls as string, { ...ask, ...question })),
    );
    expect(answers.map(({ rcode }) => rcode)).toEqual(["REFUSED", "REFUSED", "NOERROR"]);
    expect(answers.map(({ authentic }) => authentic)).toEqual([true, true, true]);
  });

  it("goes at the pace of a client that reads slowly", async () => {
    const [host, port] = server.split(":") as [string, string];
    const socket = connect(Number(port), host);
    const query = dnsPacket.streamEncode({ type: "query", id: 1, questions: [{ name: "big.example", type: "AXFR" }] });
    socket.write(query);
    let octets = 0;
    for await (const chunk of socket) {
      octets += chunk.length;
      await sleep(5);
      if (octets > 1_000_000) break;
    }
    expect((await axfr("example.org")).rcode).toBe("NOERROR");
  });

  it("over UDP is refused", async () => {
    expect((await askOverUdp(server, { name: "example.org", type: "AXFR" })).rcode).toBe("REFUSED");
  });

  it("keeps to one version while changes go on", async () => {
    const transfers = Array.from({ length: 6 }, () => axfr("big.example"));
    for (let change = 0; change < 3; change += 1) await putZone(database, "big.example", bigZone(`v${change}`));
    for (const { records } of await Promise.all(transfers)) {
      expect(serialOf(records[0])).toBe(serialOf(records.at(-1)));
      const marks = records.filter(({ type }) => type === TYPE.TXT);
      expect(new Set(marks.map(({ rdata }) => Buffer.from(rdata).toString())).size).toBe(1);
    }
  });
});

describe("who may transfer", () => {
  it("NOTAUTH for what is no zone of ours, or no apex", async () => {
    for (const name of ["nowhere.example", "www.example.org"]) expect((await axfr(name)).rcode).toBe("NOTAUTH");
  });

  it("REFUSED for a stranger, signed when its key is good", async () => {
    expect(await axfr("example.net")).toMatchObject({ rcode: "REFUSED", authentic: undefined });
    expect(await axfr("example.net", { key: KEY })).toMatchObject({ rcode: "REFUSED", authentic: true });
    expect(await ixfr("example.net", 1, { key: KEY })).toMatchObject({ rcode: "REFUSED", authentic: true });
  });

  it("costs a stranger no look-up of a zone that is answered, by UDP and by TCP", async () => {
    lookUps = 0;
    for (let asked = 0; asked < 20; asked += 1) {
      expect((await axfr("example.net")).rcode).toBe("REFUSED");
      expect((await askOverUdp(server, { name: "example.net", type: "IXFR", serial: 1 })).rcode).toBe("REFUSED");
      expect((await ixfr("example.net", 1, { key: KEY })).rcode).toBe("REFUSED");
    }
    expect(lookUps).toBe(0);
  });

  it("of names that are not answered looks a hundred up a second, whoever asks", async () => {
    lookUps = 0;
    stoppedAtMs = Date.now() - 10_000;
    onTestFinished(() => {
      stoppedAtMs = undefined;
    });
    const ask = async (_: unknown, index: number) => {
      const over = index % 2 === 0 ? askOverUdp : askOverTcp;
      return (await over(server, { name: `n${index}.example`, type: "IXFR", serial: 1 })).rcode;
    };
    const rcodes: string[] = [];
    for (let turn = 0; turn < 10; turn += 1) rcodes.push(...(await Promise.all(Array.from({ length: 30 }, ask))));
    expect(lookUps).toBe(100);
    expect(rcodes.filter((rcode) => rcode === "NOTAUTH").length).toBeLessThanOrEqual(100);
    expect(new Set(rcodes)).toEqual(new Set(["NOTAUTH", "SERVFAIL"]));
    expect((await axfr("example.org")).rcode).toBe("NOERROR");
    stoppedAtMs = undefined;
    expect((await axfr("nowhere.example")).rcode).toBe("NOTAUTH");
  });

  it("any holder of the ACL's key, whatever its address", async () => {
    expect(await axfr("example.net", { key: OTHER_KEY })).toMatchObject({ rcode: "NOERROR", authentic: true });
    expect(await axfr("keyed.example", { key: KEY })).toMatchObject({ rcode: "NOERROR", authentic: true });
  });

  it("a listed source with a good key of somebody else", async () => {
    expect(await axfr("example.org", { key: OTHER_KEY })).toMatchObject({ rcode: "NOERROR", authentic: true });
  });

  it("nobody while the zone is suspended", async () => {
    await suspendZone(database, "keyed.example", true);
    expect(await axfr("keyed.example", { key: KEY })).toMatchObject({ rcode: "REFUSED", authentic: true });
    await suspendZone(database, "keyed.example", false);
    await eventually(async () => (await axfr("keyed.example", { key: KEY })).rcode === "NOERROR", 60_000);
  });

  it("a zone that is just made, or just gone, is there or is not: never SERVFAIL", async () => {
    const rcodes = new Set<string>();
    const look = async () => rcodes.add((await axfr("coming.example")).rcode);
    for (let round = 0; round < 10; round += 1) {
      // The server is not told, and finds it when it looks.
      await putZone(database, "coming.example", ["@ NS ns.example.net."], "looked for");
      await look();
      if (round % 2 === 0) await eventually(async () => (await axfr("coming.example")).rcode === "NOERROR", 60_000);
      await Promise.all([look(), deleteZone(database, "coming.example"), look(), look()]);
      await look();
    }
    expect([...rcodes].filter((rcode) => rcode !== "NOERROR")).toEqual(["NOTAUTH"]);
  });

  it("an ACL is in force within a second, and out of it", async () => {
    await putZone(database, "late.example", ["@ NS ns.example.net."]);
    expect((await axfr("late.example")).rcode).toBe("REFUSED");
    await allowMore("late.example", "late");
    await eventually(async () => (await axfr("late.example")).rcode === "NOERROR", 60_000);
    await database.db("acls").where({ name: "late" }).delete();
    await eventually(async () => (await axfr("late.example")).rcode === "REFUSED", 60_000);
  });

  it("an ACL and a key that cannot be read take nothing else with them, and are told of once", async () => {
    const { db: owner } = database;
    // As rows stand there that were taken before such blocks were refused, or sealed by another secret.
    await owner("acls").insert({ reseller_id: SCOPE.resellerId, name: "mapped", blocks: ["::ffff:127.0.0.1/128"] });
    await owner("tsig_keys").insert({ name: "lost.example", algorithm: "hmac-sha256", secret_sealed: "of another" });
    onTestFinished(async () => {
      await owner("acls").where({ name: "mapped" }).delete();
      await owner("tsig_keys").where({ name: "lost.example" }).delete();
    });
    await putZone(database, "beside.example", ["@ NS ns.example.net."]);
    expect((await axfr("beside.example")).rcode).toBe("REFUSED");
    await allowMore("beside.example", "beside");
    await eventually(async () => (await axfr("beside.example")).rcode === "NOERROR", 60_000);
    await owner("acls").where({ name: "beside" }).delete();
    await eventually(async () => (await axfr("beside.example")).rcode === "REFUSED", 60_000);
    const lines = leftOut.flatMap((observation) => ("unreadable" in observation ? observation.unreadable : []));
    expect(lines.sort()).toEqual([
      expect.stringMatching(/^ACL mapped of reseller .*: ::ffff:127\.0\.0\.1\/128 is about IPv4 addresses/),
      "TSIG key lost.example: its secret cannot be opened",
    ]);
  });
});

describe("TSIG", () => {
  const errorOf = (answer: { messages: readonly Uint8Array[] }) => {
    const found = findTsig(answer.messages[0]!);
    if (!found.ok || !found.value) throw new Error("no TSIG record");
    return found.value;
  };

  it("answers ordinary queries signed, by UDP and TCP", async () => {
    for (const ask of [askOverUdp, askOverTcp]) {
      const answer = await ask(server, { name: "example.org", type: "SOA", key: KEY });
      expect(answer).toMatchObject({ rcode: "NOERROR", authentic: true });
      expect(serialOf(answer.records[0])).toBe(1);
    }
  });

  it("BADKEY, unsigned, even from a listed source", async () => {
    for (const ask of [askOverUdp, askOverTcp]) {
      const stranger = { ...KEY, name: nameOf("unknown.example") };
      const answer = await ask(server, { name: "example.org", type: "SOA", key: stranger });
      expect(answer.rcode).toBe("NOTAUTH");
      expect(errorOf(answer)).toMatchObject({ error: 17, mac: new Uint8Array(0) });
    }
    expect((await axfr("example.org", { key: { ...KEY, algorithm: "hmac-sha1" } })).rcode).toBe("NOTAUTH");
  });

  it("BADSIG, unsigned", async () => {
    const answer = await axfr("example.org", { key: { ...KEY, secret: Buffer.from("another secret") } });
    expect(answer.rcode).toBe("NOTAUTH");
    expect(errorOf(answer)).toMatchObject({ error: 16, mac: new Uint8Array(0) });
    expect(answer.records).toHaveLength(0);
  });

  it("BADTIME, signed, with the client's time and ours", async () => {
    const nowSeconds = Math.floor(Date.now() / 1000) - 400;
    const answer = await axfr("example.org", { key: KEY, nowSeconds });
    expect(answer.rcode).toBe("NOTAUTH");
    const record = errorOf(answer);
    expect(record).toMatchObject({ error: 18, timeSignedSeconds: nowSeconds });
    expect(record.mac).toHaveLength(32);
    expect(Buffer.from(record.otherData).readUIntBE(0, 6) - nowSeconds).toBeGreaterThanOrEqual(400);
  });

  it("FORMERR for a MAC cut below half, unsigned", async () => {
    const cut = (octets: Uint8Array) => shortenMac(octets, 15);
    const answer = await axfr("example.org", { key: KEY, tamper: cut });
    expect(answer.rcode).toBe("FORMERR");
    expect(findTsig(answer.messages[0]!)).toEqual({ ok: true, value: undefined });
    expect((await axfr("example.org", { key: KEY, tamper: (octets) => shortenMac(octets, 16) })).rcode).toBe("NOERROR");
  });
});

describe("IXFR", () => {
  it("condenses the versions in between", async () => {
    const records = (texts: readonly string[]) => ["@ NS ns.example.net.", ...fillers(), ...texts];
    await putZone(database, "steps.example.org", records(["a A 192.0.2.1", "b A 192.0.2.1"]));
    await allowMore("steps.example.org");
    const before = asSet((await axfr("steps.example.org")).records.slice(1));
    await putZone(database, "steps.example.org", records(["a A 192.0.2.2", "b A 192.0.2.1", "c A 192.0.2.1"]));
    await putZone(database, "steps.example.org", records(["a A 192.0.2.3", "b A 192.0.2.1"]));
    await eventually(async () => serialOf((await axfr("steps.example.org")).records[0]) === 3, 60_000);
    const { records: answer } = await ixfr("steps.example.org", 1);
    expect(answer.map(({ type }) => type)).toEqual([TYPE.SOA, TYPE.SOA, TYPE.A, TYPE.SOA, TYPE.A, TYPE.SOA]);
    expect(answer.filter(({ type }) => type === TYPE.SOA).map(serialOf)).toEqual([3, 1, 3, 3]);
    expect(applyDifference(before, answer)).toEqual(asSet((await axfr("steps.example.org")).records.slice(1)));
  });

  it("gives one SOA to whoever is up to date, or ahead", async () => {
    for (const serial of [3, 4]) {
      const { records } = await ixfr("steps.example.org", serial);
      expect(records.map(serialOf)).toEqual([3]);
    }
  });

  it("gives the whole zone where the journal does not reach back, or that is shorter", async () => {
    expect((await ixfr("steps.example.org", 0)).records[1]!.type).not.toBe(TYPE.SOA);
    await putZone(database, "steps.example.org", ["@ NS ns.example.net.", "only A 192.0.2.1"]);
    await eventually(async () => serialOf((await axfr("steps.example.org")).records[0]) === 4, 60_000);
    const { records } = await ixfr("steps.example.org", 3);
    expect(records).toHaveLength(4);
    expect(records[1]!.type).not.toBe(TYPE.SOA);
  });

  it("over UDP fits, or is our SOA alone", async () => {
    const small = await askOverUdp(server, { name: "steps.example.org", type: "IXFR", serial: 4 });
    expect(small.records.map(serialOf)).toEqual([4]);
    const many = Array.from({ length: 40 }, (_, index) => `host${index} A 192.0.2.${index}`);
    await putZone(database, "steps.example.org", ["@ NS ns.example.net.", "only A 192.0.2.1", ...many]);
    await putZone(database, "steps.example.org", ["@ NS ns.example.net.", "only A 192.0.2.2", ...many]);
    const ask = (serial: number) => askOverUdp(server, { name: "steps.example.org", type: "IXFR", serial });
    await eventually(async () => (await ask(5)).records.length === 6, 60_000);
    expect((await ask(4)).records.map(serialOf)).toEqual([6]);
  });

  it("goes on over a suspension", async () => {
    await suspendZone(database, "steps.example.org", true);
    await suspendZone(database, "steps.example.org", false);
    expect((await ixfr("steps.example.org", 5)).records).toHaveLength(6);
  });

  it("reads nothing of a long journal over UDP, or where the zone is far smaller", async () => {
    const hosts = Array.from({ length: 200 }, (_, index) => `host${index} A 192.0.2.1`);
    await putZone(database, "steps.example.org", ["@ NS ns.example.net.", ...hosts]);
    await eventually(async () => serialOf((await axfr("steps.example.org")).records[0]) === 7, 60_000);
    const { id } = await database.db("zones").where({ name: "steps.example.org" }).first("id");
    const garble = (octets: number) =>
      database
        .db("zone_journal")
        .where({ zone_id: id, serial: 7 })
        .update({ added: Buffer.alloc(octets) });
    const isWhole = async () => (await ixfr("steps.example.org", 6)).records.length === 203;
    await garble(70_000);
    const datagram = await askOverUdp(server, { name: "steps.example.org", type: "IXFR", serial: 6 });
    expect(datagram.records.map(serialOf)).toEqual([7]);
    await garble(200_000);
    expect([await isWhole(), corrupt]).toEqual([true, []]);
    await garble(70_000);
    expect([await isWhole(), corrupt]).toMatchObject([true, [{ zone: "steps.example.org." }]]);
  });

  describe("of a large journal", () => {
    const name = "large.example.org";
    const isIncremental = async (serial: number) => (await ixfr(name, serial)).records[1]!.type === TYPE.SOA;
    const putTexts = async (count: number, serial: number) => {
      const texts = Array.from({ length: count }, (_, index) => `t${index} TXT ${"x".repeat(200)}`);
      await putZone(database, name, ["@ NS ns.example.net.", "@ NS ns.example.org.", ...texts]);
      if (serial === 1) await allowMore(name);
      await eventually(async () => serialOf((await axfr(name)).records[0]) === serial, 60_000);
    };

    it("gives the difference to five at one moment", async () => {
      await putTexts(0, 1);
      await putTexts(1_000, 2);
      const asked = Array.from({ length: 5 }, () => isIncremental(1));
      expect(await Promise.all(asked)).toEqual([true, true, true, true, true]);
    });

    it("gives the whole zone after two seconds, beside two that stop reading", async () => {
      // More than the system takes of what nobody reads.
      await putTexts(30_000, 3);
      const silent = await Promise.all([stopReading(name, 2), stopReading(name, 2)]);
      const askedAtMs = performance.now();
      expect(await isIncremental(2)).toBe(false);
      const tookMs = performance.now() - askedAtMs;
      expect(tookMs).toBeGreaterThan(1_900);
      // The silent ones are closed after 15 s.
      expect(tookMs).toBeLessThan(12_000);
      for (const socket of silent) socket.destroy();
      await eventually(() => isIncremental(2), 60_000);
    });

    it("gives the whole zone where the journal was tidied while a place was waited for", async () => {
      const { id } = await database.db("zones").where({ name }).first("id");
      const tidied = async () => (await database.db("zone_journal").where({ zone_id: id }).delete()) > 0;
      expect(await readZoneDifference(database.db, id, 2, tidied)).toMatchObject({ kind: "whole-zone" });
    });
  });

  it("without the client's SOA is malformed, and so it is with half of one", async () => {
    expect((await askOverTcp(server, { name: "example.org", type: "IXFR" })).rcode).toBe("FORMERR");
    for (const ask of [askOverTcp, askOverUdp]) {
      const answer = await ask(server, { name: "example.org", type: "IXFR", serial: 1, tamper: cutSoa });
      expect(answer.rcode).toBe("FORMERR");
    }
  });
});

/** Asks for a difference, and takes nothing of it once it has begun to come. */
async function stopReading(name: string, serial: number): Promise<Socket> {
  const [host, port] = server.split(":") as [string, string];
  const socket = connect(Number(port), host);
  const soa = { mname: name, rname: name, serial, refresh: 0, retry: 0, expire: 0, minimum: 0 };
  const authorities = [{ type: "SOA", name, data: soa } as const];
  socket.write(dnsPacket.streamEncode({ type: "query", id: 1, questions: [{ name, type: "IXFR" }], authorities }));
  await once(socket, "readable");
  return socket;
}

function countLookUps(connection: pg.Client): void {
  const query = connection.query.bind(connection) as (...values: unknown[]) => unknown;
  connection.query = ((...values: [{ name?: string }]) => {
    if (values[0].name === "find-transferable-zone") lookUps += 1;
    return query(...values);
  }) as typeof connection.query;
}

async function addZones(): Promise<void> {
  await putZone(database, "example.org", [
    "@ NS ns",
    "ns A 192.0.2.53",
    "MiXed A 192.0.2.1",
    "cut NS ns.cut",
    "ns.cut A 192.0.2.54",
    "below.cut TXT occluded",
    "*.wild CNAME ns",
  ]);
  await putZone(database, "example.net", ["@ NS ns.example.org."]);
  await putZone(database, "keyed.example", ["@ NS ns.example.org."]);
  await putZone(database, "big.example", bigZone("v"));
}

function bigZone(mark: string): string[] {
  const hosts = Array.from({ length: 20_000 }, (_, index) => [
    `host${index} A 192.0.2.${index % 256}`,
    `host${index} AAAA 2001:db8::${index.toString(16)}`,
  ]);
  return ["@ NS ns.example.org.", `first TXT ${mark}`, ...hosts.flat()];
}

function fillers(): string[] {
  return Array.from({ length: 30 }, (_, index) => `filler${index} A 192.0.2.${index}`);
}

/** A query whose last record, the client's SOA, lacks its last field. */
function cutSoa(octets: Uint8Array): Uint8Array {
  // Both names are pointers to the question; five numbers follow.
  const rdataOctets = 2 + 2 + 5 * 4;
  const rdlengthAt = octets.length - rdataOctets - 2;
  const message = Buffer.from(octets.subarray(0, -4));
  expect(message.readUInt16BE(rdlengthAt)).toBe(rdataOctets);
  message.writeUInt16BE(rdataOctets - 4, rdlengthAt);
  return message;
}

/** A signed message with its MAC cut to so many octets. */
function shortenMac(octets: Uint8Array, length: number): Uint8Array {
  const found = findTsig(octets);
  if (!found.ok || !found.value) throw new Error("not signed");
  const { keyName, algorithmName, mac, offset } = found.value;
  const rdata = offset + keyName.wire.length + 10;
  const macAt = rdata + algorithmName.wire.length + 10;
  const message = Buffer.concat([
    octets.subarray(0, macAt),
    octets.subarray(macAt, macAt + length),
    octets.subarray(macAt + mac.length),
  ]);
  message.writeUInt16BE(message.length - rdata, rdata - 2);
  message.writeUInt16BE(length, macAt - 2);
  return message;
}

async function allow(
  keyRing: KeyRing,
  acl: { name: string; blocks?: string[]; tsig?: TsigKey; zones: string[] },
): Promise<void> {
  const { name, blocks = [], tsig, zones } = acl;
  const stored = tsig && { ...tsig, name: nameText(tsig), secret: Buffer.from(tsig.secret) };
  const entry = { resellerId: SCOPE.resellerId, name, blocks, tsig: stored ?? null, zones, notify: [] };
  const added = await addAcl(database.db, keyRing, entry);
  if (!added.ok) throw new Error(JSON.stringify(added.error));
}

/** Lets loopback clients transfer one more zone, and waits until they may. */
async function allowMore(zone: string, name = zone): Promise<void> {
  await allow(dnsServerContext(database).keyRing, { name, blocks: ["127.0.0.1/32"], zones: [zone] });
  if (name === zone) await eventually(async () => (await axfr(zone)).rcode === "NOERROR", 60_000);
  else await sleep(0);
}

function nameText({ name }: TsigKey): string {
  return Buffer.from(name.wire)
    .toString("latin1")
    .replace(/[\0-\x1f]/g, ".")
    .slice(1, -1);
}
