/**
 * The benchmark of signed zones: `npm run bench:dnssec [-- --names 100000 --seconds 10 --rounds 3 --changes 200]`.
 *
 * Signs one large zone, from the wish to the commit, and has dnssec-signzone sign the same on the same cores; changes
 * single records of it and watches for them on the wire; then serves it beside Knot and compares CPU time per query with
 * DO and memory per record. The last line is JSON, for a history.
 */

import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import * as dnsPacket from "dns-packet";
import { parseDomainName } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import type { SigningTarget } from "../../services/operations/dns/zone-signing-state.ts";
import { enableSigning } from "../../services/operations/dns/zone-signing-switch.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import type { BenchZone } from "./dns-data.ts";
import { fillDatabase } from "./dns-database.ts";
import { type Contender, type LoadResult, measureLoad, memoryOctets } from "./dns-load.ts";
import { startPalomar } from "./dns-palomar.ts";
import { FILE_PEERS } from "./dns-peers.ts";
import { print } from "./dns-report.ts";

const { values } = parseArgs({
  options: {
    names: { type: "string", default: "100000" },
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    changes: { type: "string", default: "200" },
  },
});
const NAMES = Number(values.names);
const ZONE = "signed.example.org";
const SERVER_CORE = "0";
const LOAD_CORE = "1";
const QUERIES = 100_000;

const apex = parseDomainName(`${ZONE}.`);
if (!apex.ok) throw new Error(apex.error.message);
const target: SigningTarget = {
  scope: {},
  apex: apex.value,
  domain: ZONE,
  actor: "bench",
  signer: { keyRing: KeyRing.ofSecret("the benchmark's secret"), clock: systemClock },
};

const folder = mkdtempSync(join(tmpdir(), "palomar-bench-dnssec-"));
const postgres = await openEmbeddedPostgres({ dataDir: join(folder, "postgres"), logger: makeLogger("bench", "warn") });
try {
  await main(postgres.url);
} finally {
  await postgres.release();
}
// After a failure the folder stays, with what the servers said.
rmSync(folder, { recursive: true, force: true });

async function main(serverUrl: string): Promise<void> {
  const unsigned: BenchZone = { name: ZONE, text: zoneText() };
  const { url, db } = await filledDatabase(serverUrl, [unsigned]);
  const signing = await measureSigning(db, unsigned);
  const changes = await measureChanges(db, url);
  const serving = await measureServing(db, url);
  const machine = `${cpus()[0]?.model ?? "?"}, node ${process.version}`;
  print(JSON.stringify({ at: new Date().toISOString(), machine, names: NAMES, signing, changes, serving }));
  await db.destroy();
}

function zoneText(): string {
  const hosts = Array.from({ length: NAMES }, (_, index) => `host${index} A 192.0.2.${index % 250}`);
  const head = [`$ORIGIN ${ZONE}.`, "$TTL 300", "@ SOA ns1 hostmaster 1 7200 3600 1209600 60", "@ NS ns1"];
  return `${[...head, "ns1 A 192.0.2.53", ...hosts].join("\n")}\n`;
}

async function filledDatabase(serverUrl: string, zones: readonly BenchZone[]): Promise<{ url: string; db: Db }> {
  const server = openDb(serverUrl, { connections: 1, name: "bench" });
  await server.raw("create database bench_dnssec");
  await server.destroy();
  const url = new URL(serverUrl);
  url.pathname = "/bench_dnssec";
  const db = openDb(url.href, { connections: 4, name: "bench" });
  await migrate(db);
  await fillDatabase(db, zones);
  return { url: url.href, db };
}

/** Ours until the signed zone is committed, theirs until the signed file is written. */
async function measureSigning(db: Db, { text }: BenchZone) {
  const started = performance.now();
  const enabled = await enableSigning(db, target, {});
  if (!enabled.ok) throw new Error(JSON.stringify(enabled.error));
  const seconds = (performance.now() - started) / 1000;
  const derived = (await readAllDerived(db, enabled.value.zone.id)).length;
  const signzoneSeconds = isInstalled("dnssec-signzone") ? signWithBind(text) : undefined;
  print(`signing ${NAMES} names with algorithm 13, NSEC: ${derived} records made\n`);
  print("| Palomar, s | dnssec-signzone, s | ratio (at most 1.5) |\n|---|---|---|");
  const ratio = signzoneSeconds && seconds / signzoneSeconds;
  print(`| ${seconds.toFixed(1)} | ${signzoneSeconds?.toFixed(1) ?? "–"} | ${ratio?.toFixed(2) ?? "–"} |\n`);
  return { seconds, signzoneSeconds, ratio };
}

function signWithBind(text: string): number {
  writeFileSync(join(folder, "unsigned"), text);
  const run = (program: string, ...args: string[]) => {
    const { status, stderr, stdout } = spawnSync(program, args, { cwd: folder, encoding: "utf8" });
    if (status !== 0) throw new Error(`${program}: ${stderr}`);
    return stdout.trim();
  };
  const key = run("dnssec-keygen", "-q", "-a", "13", "-f", "KSK", ZONE);
  const started = performance.now();
  run("dnssec-signzone", "-q", "-S", "-z", "-n", String(cpus().length), "-o", ZONE, "-f", "by-bind", "unsigned", key);
  return (performance.now() - started) / 1000;
}

/** One record after another, from the commit until a query with DO finds it. */
async function measureChanges(db: Db, databaseUrl: string) {
  const palomar = await startPalomar({
    databaseUrl,
    folder,
    port: await freePort(),
    cores: SERVER_CORE,
    lastZone: ZONE,
  });
  const commitMs: number[] = [];
  const wireMs: number[] = [];
  try {
    for (let index = 0; index < Number(values.changes); index += 1) {
      const owner = parseDomainName(`new${randomInt(1e9)}.${ZONE}.`);
      if (!owner.ok) throw new Error(owner.error.message);
      const creations = [{ owner: owner.value, type: TYPE.A, ttl: 300, rdata: Uint8Array.of(192, 0, 2, 1) }];
      const started = performance.now();
      const changed = await changeRecords(db, target, { creations, modifications: [], deletionIds: [] }, new Date());
      if (!changed.ok) throw new Error(JSON.stringify(changed.error));
      commitMs.push(performance.now() - started);
      await notifyZones(db, [changed.value.zone.id]);
      while (!(await isAnswered(palomar.port, owner.value.key))) await sleep(1);
      wireMs.push(performance.now() - started);
    }
  } finally {
    await palomar.stop();
  }
  const result = { commitP50Ms: percentile(commitMs, 50), commitP99Ms: percentile(commitMs, 99) };
  const onWire = { wireP50Ms: percentile(wireMs, 50), wireP99Ms: percentile(wireMs, 99) };
  print(
    "a record more, signed\n\n| commit p50, ms | p99 | on the wire p50, ms | p99 (at most 100) |\n|---|---|---|---|",
  );
  const cells = [result.commitP50Ms, result.commitP99Ms, onWire.wireP50Ms, onWire.wireP99Ms];
  print(`| ${cells.map((ms) => ms.toFixed(1)).join(" | ")} |\n`);
  return { ...result, ...onWire };
}

async function isAnswered(port: number, ownerKey: string): Promise<boolean> {
  const { createSocket } = await import("node:dgram");
  const labels = [];
  for (let at = 0; ownerKey.charCodeAt(at) > 0; at += ownerKey.charCodeAt(at) + 1) {
    labels.push(ownerKey.slice(at + 1, at + 1 + ownerKey.charCodeAt(at)));
  }
  const query = dnsPacket.encode({ type: "query", id: 1, questions: [{ name: labels.join("."), type: "A" }] });
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    const timer = setTimeout(() => socket.close(() => resolve(false)), 1_000);
    socket.on("message", (octets) => {
      clearTimeout(timer);
      socket.close(() => resolve((dnsPacket.decode(octets).answers?.length ?? 0) > 0));
    });
    socket.send(query, port, "127.0.0.1");
  });
}

interface ServingRow {
  readonly name: string;
  readonly queriesPerSecond: number;
  readonly cpuMicroseconds: number;
  readonly octetsPerRecord: number;
}

/** The same signed zone from us and from Knot, in turns. */
async function measureServing(db: Db, databaseUrl: string): Promise<ServingRow[]> {
  const exported = await exportSignedZone(db, (on) => findAnyZone(on, target.apex));
  if (!exported) throw new Error("the zone is gone");
  const signed: BenchZone = { name: ZONE, text: exported.text };
  const records = exported.text.split("\n").length - 3;
  const queries = join(folder, "queries");
  writeFileSync(queries, queryLines());
  const contenders: { readonly contender: Contender; readonly idleOctets: number }[] = [];
  try {
    const knot = FILE_PEERS.find(({ program }) => program === "knotd" && isInstalled(program));
    if (knot) {
      const place = async (name: string) => ({
        folder: join(folder, name),
        port: await freePort(),
        cores: SERVER_CORE,
      });
      const tiny: BenchZone = { name: ZONE, text: zoneText().split("\n").slice(0, 6).join("\n") };
      const idle = await knot.start({ ...(await place("idle-knot")), zones: [tiny] });
      const idleOctets = memoryOctets(idle);
      await idle.stop();
      contenders.push({ contender: await knot.start({ ...(await place("knot")), zones: [signed] }), idleOctets });
    }
    const palomar = async (url: string) =>
      startPalomar({ databaseUrl: url, folder, port: await freePort(), cores: SERVER_CORE, lastZone: ZONE });
    const idleOctets = await idlePalomarOctets(db, databaseUrl, palomar);
    contenders.push({ contender: await palomar(databaseUrl), idleOctets });
    return await compete(contenders, queries, records);
  } finally {
    for (const { contender } of contenders) await contender.stop();
  }
}

/** What our process takes with the zone suspended: all but its records. */
async function idlePalomarOctets(
  db: Db,
  databaseUrl: string,
  start: (url: string) => Promise<Contender>,
): Promise<number> {
  const tinyUrl = new URL(databaseUrl);
  tinyUrl.pathname = "/bench_dnssec_idle";
  await db.raw("create database bench_dnssec_idle");
  const tiny = openDb(tinyUrl.href, { connections: 2, name: "bench" });
  await migrate(tiny);
  await fillDatabase(tiny, [{ name: ZONE, text: zoneText().split("\n").slice(0, 6).join("\n") }]);
  await tiny.destroy();
  const idle = await start(tinyUrl.href);
  const octets = memoryOctets(idle);
  await idle.stop();
  return octets;
}

async function compete(
  contenders: readonly { readonly contender: Contender; readonly idleOctets: number }[],
  queries: string,
  records: number,
): Promise<ServingRow[]> {
  // What loading left behind is given back within moments, where it is given back at all.
  await sleep(2_000);
  const results = new Map<Contender, LoadResult[]>(contenders.map(({ contender }) => [contender, []]));
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const { contender } of contenders) {
      const load = { queries, seconds: Number(values.seconds), outstanding: 200, cores: LOAD_CORE, dnssecOk: true };
      results.get(contender)!.push(await measureLoad(contender, load));
    }
  }
  const rows = contenders.map(({ contender, idleOctets }): ServingRow => {
    const loads = results.get(contender)!;
    const mean = (of: (load: LoadResult) => number) => loads.reduce((sum, load) => sum + of(load), 0) / loads.length;
    return {
      name: contender.name,
      queriesPerSecond: mean((load) => load.queriesPerSecond),
      cpuMicroseconds: mean((load) => load.cpuMicrosecondsPerQuery),
      octetsPerRecord: (memoryOctets(contender) - idleOctets) / records,
    };
  });
  print(
    `queries with DO, ${records} records\n\n| server | queries/s | CPU µs/query | octets/record |\n|---|---|---|---|`,
  );
  for (const { name, queriesPerSecond, cpuMicroseconds, octetsPerRecord } of rows) {
    print(
      `| ${name} | ${queriesPerSecond.toFixed(0)} | ${cpuMicroseconds.toFixed(2)} | ${octetsPerRecord.toFixed(0)} |`,
    );
  }
  print("");
  return rows;
}

/** Names that are there, seven in ten; types that are not; names that are not. */
function queryLines(): string {
  const lines = Array.from({ length: QUERIES }, () => {
    const kind = randomInt(10);
    const host = `host${randomInt(NAMES)}`;
    if (kind < 7) return `${host}.${ZONE} A`;
    return kind === 7 ? `${host}.${ZONE} AAAA` : `x${host}.${ZONE} A`;
  });
  return `${lines.join("\n")}\n`;
}

function percentile(samples: readonly number[], percent: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}
