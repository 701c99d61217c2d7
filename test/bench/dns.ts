/**
 * The DNS benchmark: `npm run bench:dns [-- --seconds 10 --rounds 3 --small 1000 --large 10000]`.
 *
 * Serves the same zones from our server (out of PostgreSQL) and from NSD, Knot, BIND and PowerDNS where they are
 * installed, drives each in turn with dnsperf on another core, and prints what it measured side by side: absolute
 * figures are this machine's, the ratios are what counts. The last line is JSON, for a history.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { type ChangeResult, measureChanges } from "./dns-changes.ts";
import { type BenchZone, benchQueries, benchZone, benchZoneName, RECORDS_PER_ZONE } from "./dns-data.ts";
import { fillDatabase, fillPowerDnsDatabase } from "./dns-database.ts";
import { type Contender, type LoadResult, measureLoad, memoryOctets } from "./dns-load.ts";
import { type PalomarOptions, startFloor, startPalomar } from "./dns-palomar.ts";
import { FILE_PEERS, startPowerDns } from "./dns-peers.ts";
import {
  print,
  printChanges,
  printFloor,
  printRows,
  printThreads,
  type Row,
  type ThreadsResult,
} from "./dns-report.ts";

const QUERIES = 200_000;
const OUTSTANDING = 200;
const RECORDS_PER_LARGE_ZONE = 100;
const SERVER_CORE = "0";
const LOAD_CORE = "1";
/** Of the server, and of the load. */
const THREADS = [1, 2, 4];
const POWERDNS_SCHEMA = "/usr/share/doc/pdns-backend-pgsql/schema.pgsql.sql";

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
    print(
      JSON.stringify({ at: new Date().toISOString(), machine, small: small?.rows, threads: small?.threads, large }),
    );
  } finally {
    await postgres.release();
  }
  // After a failure the folder stays, with what the servers said.
  rmSync(folder, { recursive: true, force: true });
}

/** Many small customers' zones: speed beside that of every other server. */
async function measureSmall(bench: Bench, count: number): Promise<{ rows: Row[]; threads: ThreadsResult[] }> {
  const zones = Array.from({ length: count }, (_, index) => benchZone(index));
  const queries = writeQueries(bench, "small", count);
  const contenders: Contender[] = [];
  try {
    for (const peer of FILE_PEERS.filter(({ program }) => isInstalled(program))) {
      const folder = join(bench.folder, `small-${peer.name}`);
      contenders.push(await peer.start({ folder, zones, port: await freePort(), cores: SERVER_CORE }));
    }
    if (isInstalled("pdns_server")) {
      const { url, db } = await bench.createDatabase("powerdns");
      await fillPowerDnsDatabase(db, readFileSync(POWERDNS_SCHEMA, "utf8"), zones);
      await db.destroy();
      const options = {
        folder: join(bench.folder, "small-PowerDNS"),
        zones,
        port: await freePort(),
        cores: SERVER_CORE,
      };
      contenders.push(await startPowerDns(options, url, bench.postgresPids));
    }
    const { url, db } = await filledDatabase(bench, "small", zones);
    await db.destroy();
    const own = {
      databaseUrl: url,
      folder: bench.folder,
      port: await freePort(),
      cores: SERVER_CORE,
      lastZone: benchZoneName(count - 1),
    };
    contenders.push(await startPalomar(own));
    contenders.push(await startPalomar({ ...own, port: await freePort(), isForgetful: true }));
    contenders.push(await startFloor(await freePort(), SERVER_CORE));
    const rows = await compete(bench, contenders, queries);
    printRows(`${count} zones of ${RECORDS_PER_ZONE} records`, rows);
    printFloor(rows);
    await printHeldLoad(bench, contenders, rows, queries);
    for (const contender of contenders.splice(0)) await contender.stop();
    const threads = await measureThreads(bench, own, queries);
    return { rows, threads };
  } finally {
    for (const contender of contenders) await contender.stop();
  }
}

/** Our server alone, with the load on the same cores: what more threads bring, and where they end. */
async function measureThreads(bench: Bench, own: PalomarOptions, queries: string): Promise<ThreadsResult[]> {
  const cores = `0-${availableParallelism() - 1}`;
  const results: ThreadsResult[] = [];
  for (const serverThreads of THREADS) {
    const palomar = await startPalomar({ ...own, cores, threads: serverThreads });
    try {
      for (const clientThreads of THREADS) {
        const load = { queries, seconds: bench.seconds, outstanding: OUTSTANDING, cores, threads: clientThreads };
        const rounds: LoadResult[] = [];
        while (rounds.length < bench.rounds) rounds.push(await measureLoad(palomar, load));
        results.push({ serverThreads, clientThreads, ...mediansOf(rounds) });
      }
    } finally {
      await palomar.stop();
    }
  }
  printThreads(availableParallelism(), results);
  return results;
}

/** A million records in ten thousand zones: start, memory, speed, and changes. */
async function measureLarge(bench: Bench, count: number): Promise<{ rows: Row[]; changes: ChangeResult[] }> {
  const extraHosts = RECORDS_PER_LARGE_ZONE - RECORDS_PER_ZONE;
  const zones = Array.from({ length: count }, (_, index) => benchZone(index, extraHosts));
  const contenders: Contender[] = [];
  const { url, db } = await filledDatabase(bench, "large", zones);
  try {
    const idleOctets: number[] = [];
    // BIND takes minutes to load so many zones, and is no measure here.
    for (const peer of FILE_PEERS.filter(({ name, program }) => name !== "BIND" && isInstalled(program))) {
      idleOctets.push(
        await idleMemory(
          await peer.start({ ...(await placeOf(bench, `idle-${peer.name}`)), zones: zones.slice(0, 1) }),
        ),
      );
      contenders.push(await peer.start({ ...(await placeOf(bench, `large-${peer.name}`)), zones }));
    }
    const idlePalomar = await idleMemory(await startIdlePalomar(bench, zones[0]!));
    idleOctets.push(idlePalomar, idlePalomar);
    const place = { folder: bench.folder, port: await freePort(), cores: SERVER_CORE };
    const own = { ...place, databaseUrl: url, lastZone: zones.at(-1)!.name };
    const palomar = await startPalomar(own);
    contenders.push(palomar, await startPalomar({ ...own, port: await freePort(), isForgetful: true }));
    // What loading left behind is given back within moments, where it is given back at all.
    await sleep(2_000);
    const records = count * RECORDS_PER_LARGE_ZONE;
    const memory = contenders.map((contender, index) => (memoryOctets(contender) - idleOctets[index]!) / records);
    const measured = await compete(bench, contenders, writeQueries(bench, "large", count));
    const rows = measured.map((row, index) => {
      return { ...row, startMs: contenders[index]!.startMs, octetsPerRecord: memory[index]! };
    });
    for (const other of contenders.filter((contender) => contender !== palomar)) await other.stop();
    contenders.splice(0, contenders.length, palomar);
    const changes = await measureChangesBesideKnot(bench, palomar, db, zones);
    printRows(`${count} zones of ${RECORDS_PER_LARGE_ZONE} records`, rows);
    printChanges(changes);
    return { rows, changes };
  } finally {
    for (const contender of contenders) await contender.stop();
    await db.destroy();
  }
}

async function placeOf(bench: Bench, name: string) {
  return { folder: join(bench.folder, name), port: await freePort(), cores: SERVER_CORE };
}

async function startIdlePalomar(bench: Bench, zone: BenchZone): Promise<Contender> {
  const { url, db } = await filledDatabase(bench, "idle", [zone]);
  await db.destroy();
  const place = { folder: bench.folder, port: await freePort(), cores: SERVER_CORE };
  return startPalomar({ ...place, databaseUrl: url, lastZone: zone.name });
}

async function idleMemory(contender: Contender): Promise<number> {
  await sleep(2_000);
  const octets = memoryOctets(contender);
  await contender.stop();
  return octets;
}

async function measureChangesBesideKnot(
  bench: Bench,
  palomar: Contender,
  db: Db,
  zones: readonly BenchZone[],
): Promise<ChangeResult[]> {
  const peer = FILE_PEERS.find(({ name, program }) => name === "Knot" && isInstalled(program));
  const knot = await peer?.start({ ...(await placeOf(bench, "beside-Knot")), zones });
  try {
    const ports = { port: palomar.port, knotPort: knot?.port };
    for (const server of [palomar, knot]) if (server) releaseFromCore(server);
    const changes: ChangeResult[] = [];
    for (const changesPerSecond of [50, 1_000]) {
      const load = { seconds: bench.seconds, changesPerSecond, label: `r${changesPerSecond}` };
      changes.push(await measureChanges({ db, zones: zones.length, ...ports, ...load }));
    }
    return changes;
  } finally {
    await knot?.stop();
  }
}

/** Server, database and load share the machine as in operation: the system may move a thread to a core that is idle. */
function releaseFromCore({ pids }: Contender): void {
  for (const pid of pids) execFileSync("taskset", ["-acp", `0-${availableParallelism() - 1}`, String(pid)]);
}

function mediansOf(rounds: readonly LoadResult[]) {
  return {
    queriesPerSecond: median(rounds.map(({ queriesPerSecond }) => queriesPerSecond)),
    cpuMicroseconds: median(rounds.map(({ cpuMicrosecondsPerQuery }) => cpuMicrosecondsPerQuery)),
  };
}

/** Each in turn, several rounds: what slows the machine down for a while hits them alike. */
async function compete(bench: Bench, contenders: readonly Contender[], queries: string): Promise<Row[]> {
  const results = contenders.map((): LoadResult[] => []);
  for (let round = 0; round < bench.rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      const options = { queries, seconds: bench.seconds, outstanding: OUTSTANDING, cores: LOAD_CORE };
      results[index]!.push(await measureLoad(contender, options));
    }
  }
  return contenders.map(({ name }, index) => ({
    name,
    ...mediansOf(results[index]!),
    lost: sumOf(results[index]!.map(({ lost }) => lost)),
    droppedByServer: sumOf(results[index]!.map(({ droppedByServer }) => droppedByServer)),
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
  const options = { queries, seconds: bench.seconds, outstanding: OUTSTANDING, cores: LOAD_CORE, queriesPerSecond };
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

function obstacleToMeasuring(): string | undefined {
  if (process.platform !== "linux") return "measures CPU time by /proc, which is Linux'";
  if (!isInstalled("dnsperf"))
    return "needs dnsperf (Debian: apt-get install dnsperf; nsd knot bind9 pdns-backend-pgsql to compare with)";
  if (availableParallelism() < 2) return "needs two cores, one for the server and one for the load";
  return undefined;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
