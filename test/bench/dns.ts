/**
 * The DNS benchmark: `npm run bench:dns [-- --seconds 10 --rounds 3 --small 1000 --large 10000]`.
 *
 * Serves the same zones from our server (out of PostgreSQL) and from NSD, Knot, BIND and PowerDNS where they are
 * installed, drives each in turn with dnsperf on another core, and prints what it measured side by side: absolute
 * figures are this machine's, the ratios are what counts. The last line is JSON, for a history.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Db, openDb } from "../../services/platform/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/embedded-postgres.ts";
import { makeLogger } from "../../services/platform/logger.ts";
import { migrate } from "../../services/platform/migrations.ts";
import { type ChangeResult, measureChanges } from "./dns-changes.ts";
import { type BenchZone, benchQueries, benchZone, benchZoneName, RECORDS_PER_ZONE } from "./dns-data.ts";
import { fillDatabase, fillPowerDnsDatabase } from "./dns-database.ts";
import { type Contender, type LoadResult, measureLoad, memoryOctets } from "./dns-load.ts";
import { startPalomar } from "./dns-palomar.ts";
import { FILE_PEERS, isInstalled, startPowerDns } from "./dns-peers.ts";

const QUERIES = 200_000;
const OUTSTANDING = 200;
const RECORDS_PER_LARGE_ZONE = 100;
const SERVER_CORE = 0;
const LOAD_CORE = 1;
const FIRST_PORT = 15_353;
const POWERDNS_SCHEMA = "/usr/share/doc/pdns-backend-pgsql/schema.pgsql.sql";

/** What is measured of each server, over all rounds. */
interface Row {
  readonly name: string;
  readonly queriesPerSecond: number;
  readonly cpuMicroseconds: number;
  readonly lost: number;
  startMs?: number;
  octetsPerRecord?: number;
}

interface Bench {
  readonly folder: string;
  readonly seconds: number;
  readonly rounds: number;
  /** Makes an empty database; migrated unless another schema is to come. */
  readonly createDatabase: (name: string) => Promise<{ readonly url: string; readonly db: Db }>;
  readonly postgresPids: readonly number[];
}

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    small: { type: "string", default: "1000" },
    large: { type: "string", default: "10000" },
  },
});
const obstacle = obstacleToMeasuring();
if (obstacle !== undefined) {
  process.stderr.write(`bench:dns: ${obstacle}\n`);
  process.exit(2);
}
await main();

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const postgres = await openEmbeddedPostgres({
    dataDir: join(folder, "postgres"),
    logger: makeLogger("bench", "warn"),
  });
  try {
    const bench: Bench = {
      folder,
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
      createDatabase: (name) => createDatabase(postgres.url, name),
      postgresPids: [await postmasterPid(postgres.url)],
    };
    const small = Number(values.small) > 0 ? await measureSmall(bench, Number(values.small)) : undefined;
    const large = Number(values.large) > 0 ? await measureLarge(bench, Number(values.large)) : undefined;
    const machine = `${cpus()[0]?.model ?? "?"}, node ${process.version}`;
    print(JSON.stringify({ at: new Date().toISOString(), machine, small, large }));
    rmSync(folder, { recursive: true, force: true });
  } finally {
    // After a failure the folder stays, with what the servers said.
    await postgres.release();
  }
}

/** Many small customers' zones: speed beside that of every other server. */
async function measureSmall(bench: Bench, count: number): Promise<Row[]> {
  const zones = Array.from({ length: count }, (_, index) => benchZone(index));
  const queries = writeQueries(bench, "small", count);
  const contenders: Contender[] = [];
  let port = FIRST_PORT;
  try {
    for (const peer of FILE_PEERS.filter(({ program }) => isInstalled(program))) {
      const folder = join(bench.folder, `small-${peer.name}`);
      contenders.push(await peer.start({ folder, zones, port: port++, core: SERVER_CORE }));
    }
    if (isInstalled("pdns_server")) {
      const { url, db } = await bench.createDatabase("powerdns");
      await fillPowerDnsDatabase(db, readFileSync(POWERDNS_SCHEMA, "utf8"), zones);
      await db.destroy();
      const options = { folder: join(bench.folder, "small-PowerDNS"), zones, port: port++, core: SERVER_CORE };
      contenders.push(await startPowerDns(options, url, bench.postgresPids));
    }
    const { url, db } = await filledDatabase(bench, "small", zones);
    await db.destroy();
    const own = { databaseUrl: url, folder: bench.folder, port, core: SERVER_CORE, lastZone: benchZoneName(count - 1) };
    contenders.push(await startPalomar(own));
    const rows = await compete(bench, contenders, queries);
    printRows(`${count} zones of ${RECORDS_PER_ZONE} records`, rows);
    await printHeldLoad(bench, contenders, rows, queries);
    return rows;
  } finally {
    for (const contender of contenders) await contender.stop();
  }
}

/** A million records in ten thousand zones: start, memory, speed, and changes. */
async function measureLarge(bench: Bench, count: number): Promise<{ rows: Row[]; changes: ChangeResult[] }> {
  const zones = Array.from({ length: count }, (_, index) =>
    benchZone(index, RECORDS_PER_LARGE_ZONE - RECORDS_PER_ZONE),
  );
  const records = count * RECORDS_PER_LARGE_ZONE;
  const queries = writeQueries(bench, "large", count);
  const rows: Row[] = [];
  for (const peer of FILE_PEERS.filter(({ program, name }) => name !== "BIND" && isInstalled(program))) {
    const idle = await peerMemory(bench, peer, zones.slice(0, 1));
    const started = performance.now();
    const options = { folder: join(bench.folder, `large-${peer.name}`), zones, port: FIRST_PORT, core: SERVER_CORE };
    const contender = await peer.start(options);
    rows.push(await measureAlone(bench, contender, { startMs: performance.now() - started, idle, records, queries }));
    await contender.stop();
  }
  const { url, db } = await filledDatabase(bench, "large", zones);
  const empty = await filledDatabase(bench, "empty", zones.slice(0, 1));
  await empty.db.destroy();
  const own = { folder: bench.folder, port: FIRST_PORT, core: SERVER_CORE };
  const idleServer = await startPalomar({ ...own, databaseUrl: empty.url, lastZone: benchZoneName(0) });
  const idle = memoryOctets(idleServer);
  await idleServer.stop();
  const palomar = await startPalomar({ ...own, databaseUrl: url, lastZone: benchZoneName(count - 1) });
  try {
    rows.push(await measureAlone(bench, palomar, { startMs: palomar.startMs, idle, records, queries }));
    printRows(`${count} zones of ${RECORDS_PER_LARGE_ZONE} records`, rows);
    const changes: ChangeResult[] = [];
    for (const changesPerSecond of [50, 1_000]) {
      const options = {
        db,
        port: FIRST_PORT,
        zones: count,
        seconds: bench.seconds,
        changesPerSecond,
        label: `r${changesPerSecond}`,
      };
      changes.push(await measureChanges(options));
    }
    printChanges(changes);
    return { rows, changes };
  } finally {
    await palomar.stop();
    await db.destroy();
  }
}

async function peerMemory(
  bench: Bench,
  peer: (typeof FILE_PEERS)[number],
  zones: readonly BenchZone[],
): Promise<number> {
  const folder = join(bench.folder, `idle-${peer.name}`);
  const contender = await peer.start({ folder, zones, port: FIRST_PORT, core: SERVER_CORE });
  const octets = memoryOctets(contender);
  await contender.stop();
  return octets;
}

async function measureAlone(
  bench: Bench,
  contender: Contender,
  known: { readonly startMs: number; readonly idle: number; readonly records: number; readonly queries: string },
): Promise<Row> {
  // What loading left behind is given back within moments, where it is given back at all.
  await sleep(2_000);
  const octetsPerRecord = (memoryOctets(contender) - known.idle) / known.records;
  const [row] = await compete(bench, [contender], known.queries);
  return { ...row!, startMs: known.startMs, octetsPerRecord };
}

/** Each in turn, several rounds: what slows the machine down for a while hits them alike. */
async function compete(bench: Bench, contenders: readonly Contender[], queries: string): Promise<Row[]> {
  const results = contenders.map((): LoadResult[] => []);
  for (let round = 0; round < bench.rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      const options = { queries, seconds: bench.seconds, outstanding: OUTSTANDING, core: LOAD_CORE };
      results[index]!.push(await measureLoad(contender, options));
    }
  }
  return contenders.map(({ name }, index) => ({
    name,
    queriesPerSecond: median(results[index]!.map((result) => result.queriesPerSecond)),
    cpuMicroseconds: median(results[index]!.map((result) => result.cpuMicrosecondsPerQuery)),
    lost: results[index]!.reduce((sum, { lost }) => sum + lost, 0),
  }));
}

/** At a load that NSD and Knot hold, nothing may be lost. */
async function printHeldLoad(
  bench: Bench,
  contenders: readonly Contender[],
  rows: readonly Row[],
  queries: string,
): Promise<void> {
  const peers = rows.filter(({ name }) => name === "NSD" || name === "Knot");
  const palomar = contenders.find(({ name }) => name === "Palomar");
  if (peers.length === 0 || !palomar) return;
  const queriesPerSecond = Math.round(0.8 * Math.min(...peers.map((row) => row.queriesPerSecond)));
  const options = { queries, seconds: bench.seconds, outstanding: OUTSTANDING, core: LOAD_CORE, queriesPerSecond };
  const { lost, averageLatencyMs } = await measureLoad(palomar, options);
  print(
    `At ${queriesPerSecond} queries a second Palomar lost ${lost}; ${averageLatencyMs.toFixed(2)} ms on average.\n`,
  );
}

function writeQueries(bench: Bench, name: string, zones: number): string {
  const file = join(bench.folder, `queries-${name}`);
  writeFileSync(
    file,
    benchQueries(QUERIES, zones)
      .map((query) => `${query.join(" ")}\n`)
      .join(""),
  );
  return file;
}

async function filledDatabase(bench: Bench, name: string, zones: readonly BenchZone[]) {
  const created = await bench.createDatabase(name);
  await migrate(created.db);
  await fillDatabase(created.db, zones);
  return created;
}

async function createDatabase(url: string, name: string): Promise<{ readonly url: string; readonly db: Db }> {
  const server = openDb(url, { connections: 1, name: "bench" });
  await server.raw(`create database ${name}`);
  await server.destroy();
  const own = new URL(url);
  own.pathname = `/${name}`;
  return { url: own.href, db: openDb(own.href, { connections: 10, name: "bench" }) };
}

/** The server process of PostgreSQL, whose children do PowerDNS' work. */
async function postmasterPid(url: string): Promise<number> {
  const db = openDb(url, { connections: 1, name: "bench" });
  const { rows } = await db.raw("select pg_backend_pid() as pid");
  const stat = readFileSync(`/proc/${rows[0].pid}/stat`, "utf8");
  await db.destroy();
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

function printRows(title: string, rows: readonly Row[]): void {
  const best = Math.min(
    ...rows.filter(({ name }) => name === "NSD" || name === "Knot").map((row) => row.cpuMicroseconds),
  );
  print(`${title}\n`);
  print("| server | queries/s | CPU µs/query | to the better of NSD and Knot | lost | start, s | octets/record |");
  print("|---|---|---|---|---|---|---|");
  for (const row of rows) {
    const cells = [
      row.name,
      row.queriesPerSecond.toFixed(0),
      row.cpuMicroseconds.toFixed(2),
      Number.isFinite(best) ? (row.cpuMicroseconds / best).toFixed(2) : "–",
      row.lost,
      row.startMs === undefined ? "–" : (row.startMs / 1000).toFixed(2),
      row.octetsPerRecord?.toFixed(0) ?? "–",
    ];
    print(`| ${cells.join(" | ")} |`);
  }
  print("");
}

function printChanges(changes: readonly ChangeResult[]): void {
  print("| changes/s | commit to wire p50, ms | p99, ms | answer p99.9 meanwhile, ms | unanswered |");
  print("|---|---|---|---|---|");
  for (const { changesPerSecond, wireP50Ms, wireP99Ms, answerP999Ms, unanswered } of changes) {
    const cells = [changesPerSecond.toFixed(0), wireP50Ms.toFixed(1), wireP99Ms.toFixed(1), answerP999Ms.toFixed(1)];
    print(`| ${cells.join(" | ")} | ${unanswered} |`);
  }
  print("");
}

function obstacleToMeasuring(): string | undefined {
  if (process.platform !== "linux") return "measures CPU time by /proc, which is Linux'";
  if (!isInstalled("dnsperf"))
    return "needs dnsperf (Debian: apt-get install dnsperf; nsd knot bind9 pdns-backend-pgsql to compare with)";
  if (availableParallelism() < 2) return "needs two cores, one for the server and one for the load";
  return undefined;
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
