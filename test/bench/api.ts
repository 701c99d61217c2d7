/**
 * The benchmark of the DNS API: `npm run bench:api [-- --seconds 10]`.
 *
 * Record creations a second by 16 clients over 1,000 zones, with the database (fsync on) on the same machine; how long
 * the list of 100,000 zones takes; DNS UPDATE through a name server, beside BIND and Knot where they are installed; and PowerDNS's API over the same PostgreSQL doing the same, where it is installed:
 * absolute figures are this machine's, the ratio is what counts. CPU time per creation says on a busy machine what a
 * change of the code gains. The last line is JSON, for a history.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Client } from "undici";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { start } from "../../services/dns-api/main.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { type BenchRequest, startPowerDns } from "./api-powerdns.ts";
import { measureUpdates, type UpdateFigures } from "./api-updates.ts";
import { cpuSeconds, cpuSecondsWithChildren } from "./cpu-time.ts";

const ZONES = 1_000;
const CLIENTS = 16;
const LISTED_ZONES = 100_000;
const SECRET = "the secret of the benchmark";
const KEY_RING = KeyRing.ofSecret(SECRET);
const KEY = "key-of-the-benchmark";

const { values, positionals } = parseArgs({ options: { seconds: { type: "string" } }, allowPositionals: true });
const seconds = Number(values.seconds ?? 10);
const [databaseUrl] = positionals;
if (databaseUrl === undefined) await compare();
else await serve(databaseUrl);

/** The API alone in a process, as it runs in production. */
async function serve(databaseUrl: string): Promise<void> {
  const config = loadConfig({ PALOMAR_DNS_API_LISTEN: "127.0.0.1:0" });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const db = openDb(databaseUrl, { connections: config.value.databaseConnections, name: "bench" });
  const service = await start({
    config: config.value,
    keyRing: KEY_RING,
    db,
    clock: systemClock,
    logger: makeLogger("bench", "silent"),
    observe: ({ level, ...event }) => {
      if (level === "error") process.stderr.write(`${JSON.stringify(event)} ${"err" in event ? event.err : ""}\n`);
    },
    openListenConnection: () => openListenConnection(databaseUrl, "bench"),
    addressOf: () => Promise.reject(new Error("not used")),
  });
  process.send?.(service.addresses.dns_api);
  await once(process, "disconnect");
  await service.stop();
  await db.destroy();
}

async function compare(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("bench", "error") });
  const db = openDb(postgres.url, { connections: 4, name: "bench set-up" });
  try {
    await migrate(db);
    await addReseller(db, { id: "bench", name: "Bench", rpzLicence: false, keyHash: hashApiKey(KEY_RING, "dns", KEY) });
    await addCompany(db, KEY_RING, { resellerId: "bench", crmId: "bench", name: "Bench", apikey: "bench" });
    const postmaster = Number(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
    const palomar = await measurePalomar(db, { databaseUrl: postgres.url, postmaster, folder });
    const powerDns = await measurePowerDns(folder, postgres.url);
    print(JSON.stringify({ palomar, powerDns }));
  } finally {
    await db.destroy();
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measurePalomar(
  db: Db,
  {
    databaseUrl,
    postmaster,
    folder,
  }: { readonly databaseUrl: string; readonly postmaster: number; readonly folder: string },
): Promise<PalomarFigures> {
  const child = fork(fileURLToPath(import.meta.url), [databaseUrl]);
  const [url] = (await once(child, "message")) as [string];
  const readCpu = () => [cpuSeconds(child.pid as number), cpuSecondsWithChildren(postmaster), cpuSeconds(process.pid)];
  const headers = { Authorization: KEY, Reseller: "bench", "Content-Type": "application/json" };
  const make = (path: string, body: object) => ({
    method: "POST" as const,
    path: `/api/v1/${path}`,
    headers,
    body: JSON.stringify(body),
  });
  const client = new Client(url);
  for (let zone = 0; zone < ZONES; zone += 1) {
    const soa = { mname: "ns1.example.net", rname: "h.example.net", refresh: 1, retry: 1, expire: 1, minimum: 1 };
    const fields = { crm_id: "bench", ...soa, ttl: 300, serial_type: "numeric" };
    await send(client, make(`master_zone/${zoneName(zone)}`, fields));
  }
  const cpuBefore = readCpu();
  const created = await load(url, (count) =>
    make(`rr/${zoneName(count % ZONES)}`, { name: `h${count}`, type: "A", value: `192.0.2.${count % 256}` }),
  );
  report("Palomar, POST /rr", created);
  const cpuMicroseconds = readCpu().map((after = Number.NaN, index) =>
    Math.round(((after - (cpuBefore[index] ?? Number.NaN)) * 1e6) / created.all),
  );
  print(
    `  CPU time a creation, us: API ${cpuMicroseconds[0]}, database ${cpuMicroseconds[1]}, clients ${cpuMicroseconds[2]}`,
  );

  await send(client, { ...make("updates", { enabled: true }), method: "PUT" });
  const token = JSON.parse(
    await send(client, make("token", { name: "updates", access: "write", tsig: "hmac-sha256" })),
  );
  const zones = Array.from({ length: ZONES }, (_, zone) => zoneName(zone));
  const updateFolder = join(folder, "updates");
  mkdirSync(updateFolder);
  const updates = await measureUpdates({
    ...{ folder: updateFolder, databaseUrl, secret: SECRET, zones, key: token.tsig, seconds, clients: CLIENTS },
  });
  for (const [server, figures] of Object.entries(updates)) {
    const said =
      figures && `${figures.oneZone.toFixed(0)} a second in one zone, ${figures.allZones.toFixed(0)} over ${ZONES}`;
    print(`DNS UPDATE, ${server}: ${said ?? "not installed"}`);
  }

  await fillZones(db);
  const startedAt = performance.now();
  const list = await send(client, { method: "GET", path: "/api/v1/domain_list", headers });
  const listMs = performance.now() - startedAt;
  await client.close();
  print(`Palomar, GET /domain_list: ${JSON.parse(list).domain_list.length} zones in ${listMs.toFixed(0)} ms`);
  child.disconnect();
  await once(child, "exit");
  return { ...created, cpuMicroseconds, listMs, updates };
}

async function measurePowerDns(folder: string, databaseUrl: string): Promise<Load | undefined> {
  const powerDns = await startPowerDns(folder, databaseUrl);
  if (!powerDns) {
    print("PowerDNS: not installed (pdns-server, pdns-backend-pgsql)");
    return undefined;
  }
  const client = new Client(powerDns.url);
  for (let zone = 0; zone < ZONES; zone += 1) await send(client, powerDns.createZone(zoneName(zone)));
  const created = await load(powerDns.url, (count) =>
    powerDns.createRecord(zoneName(count % ZONES), `h${count}`, `192.0.2.${count % 256}`),
  );
  report("PowerDNS, PATCH zone", created);
  await client.close();
  await powerDns.stop();
  return created;
}

/** Fills up to the number of zones that the list is measured with, by SQL: their creation is not what is measured. */
async function fillZones(db: Db): Promise<void> {
  await db.raw(
    `insert into zones (reseller_id, company_id, name, name_key, apex, serial_type, serial, mname, rname, refresh, retry,
                        expire, minimum, ttl)
     select z.reseller_id, z.company_id, 'f' || n || '.example.com',
            convert_to('com' || chr(1) || 'example' || chr(1) || 'f' || n || chr(1), 'utf8'),
            convert_to('f' || n, 'utf8') || z.apex, z.serial_type, 1, z.mname, z.rname, 1, 1, 1, 1, 300
       from generate_series(1, ?) n, (select * from zones limit 1) z`,
    [LISTED_ZONES - ZONES],
  );
  await db.raw("vacuum analyze zones");
}

interface PalomarFigures extends Load {
  /** A creation's share of the CPU time of the API, the database and the clients; NaN without /proc. */
  readonly cpuMicroseconds: readonly number[];
  readonly listMs: number;
  /** DNS UPDATE, by name server. */
  readonly updates: Record<string, UpdateFigures | undefined>;
}

interface Load {
  /** Requests in all, those of the warming up included. */
  readonly all: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Lets the clients send one request after the other for some seconds, after a second to warm up. */
async function load(url: string, make: (count: number) => BenchRequest): Promise<Load> {
  let count = 0;
  let times: number[] = [];
  const startedAt = performance.now();
  const warmUntil = startedAt + 1_000;
  const end = warmUntil + seconds * 1_000;
  const run = async () => {
    const client = new Client(url);
    while (performance.now() < end) {
      const sentAt = performance.now();
      await send(client, make(count++));
      if (sentAt >= warmUntil) times.push(performance.now() - sentAt);
    }
    await client.close();
  };
  await Promise.all(Array.from({ length: CLIENTS }, run));
  times = times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)] as number;
  return { all: count, perSecond: times.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** @returns the answer's body; an answer that is no success ends the benchmark */
async function send(client: Client, { method, path, headers, body }: BenchRequest): Promise<string> {
  const response = await client.request({ method, path, headers, body: body ?? null });
  const text = await response.body.text();
  if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`);
  return text;
}

function zoneName(index: number): string {
  return `z${index}.example.org`;
}

function report(what: string, { perSecond, p50Ms, p99Ms }: Load): void {
  print(`${what}: ${perSecond.toFixed(0)} a second, median ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
