/**
 * The benchmark of the DNS API: `npm run bench:api [-- --seconds 10] [--only creations,updates,list,powerdns]`.
 *
 * Record creations a second over 1,000 zones, with the database (fsync on) on the same machine: by 1, 16 and 64 clients,
 * in clear and over TLS; by 16 clients in one zone; and by 16 clients beside 16 that read lists of records. Then how long
 * the list of 100,000 zones takes; DNS UPDATE through a name server, beside BIND and Knot where they are installed; and
 * PowerDNS's API over the same PostgreSQL doing the same, where it is installed: absolute figures are this machine's,
 * the ratio is what counts. CPU time per creation says on a busy machine what a change of the code gains. The last line
 * is JSON, for a history.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Client } from "undici";
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
import type { Addresses } from "../../services/platform/service.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { type BenchRequest, type Clients, type Load, load, openClient, send } from "./api-load.ts";
import { startPowerDns } from "./api-powerdns.ts";
import { measureUpdates, type UpdateFigures } from "./api-updates.ts";
import { cpuSeconds, cpuSecondsWithChildren } from "./cpu-time.ts";

const ZONES = 1_000;
const CLIENTS = [1, 16, 64] as const;
const SIXTEEN = "16 clients";
const LISTED_ZONES = 100_000;
/** Until the programs are compiled, and the zones hold what their first records take. */
const WARM_UP_SECONDS = 8;
const SECRET = "the secret of the benchmark";
const KEY_RING = KeyRing.ofSecret(SECRET);
const KEY = "key-of-the-benchmark";
const HEADERS = { Authorization: KEY, Reseller: "bench", "Content-Type": "application/json" };

const PARTS = ["creations", "updates", "list", "powerdns"] as const;
type Part = (typeof PARTS)[number];

const { values, positionals } = parseArgs({
  options: { seconds: { type: "string", default: "10" }, only: { type: "string", default: PARTS.join(",") } },
  allowPositionals: true,
});
const seconds = Number(values.seconds);
const parts = new Set(values.only.split(",")) as ReadonlySet<Part>;
const [databaseUrl, dataDir = ""] = positionals;
/** Numbers the hosts whose addresses are made, so that none is made twice. */
let hosts = 0;
if (databaseUrl === undefined) await compare();
else await serve(databaseUrl);

/** The API alone in a process, as it runs in production. */
async function serve(databaseUrl: string): Promise<void> {
  const config = loadConfig({
    PALOMAR_DNS_API_LISTEN: "127.0.0.1:0",
    PALOMAR_DNS_API_TLS_LISTEN: "127.0.0.1:0",
    PALOMAR_DATA_DIR: dataDir,
  });
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
  process.send?.(service.addresses);
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
    const powerDns = parts.has("powerdns") ? await measurePowerDns(folder, postgres.url) : undefined;
    print(JSON.stringify({ palomar, powerDns }));
  } finally {
    await db.destroy();
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Deployment {
  readonly databaseUrl: string;
  readonly postmaster: number;
  readonly folder: string;
}

async function measurePalomar(db: Db, deployment: Deployment): Promise<PalomarFigures> {
  const { databaseUrl, postmaster, folder } = deployment;
  const child = fork(fileURLToPath(import.meta.url), [databaseUrl, folder]);
  const [addresses] = (await once(child, "message")) as [Addresses];
  const url = addresses.dns_api!;
  const client = openClient(url);
  await makeZones(url);
  const readCpu = () => [cpuSeconds(child.pid as number), cpuSecondsWithChildren(postmaster), cpuSeconds(process.pid)];
  const creations = await measureCreations({ clear: url, tls: `https://${addresses.dns_api_tls}` }, readCpu);
  const sixteen = creations.find(({ name }) => name === SIXTEEN)!;
  const updates = parts.has("updates") ? await measureDnsUpdates(client, deployment) : {};
  const listMs = parts.has("list") ? await measureList(client, db) : Number.NaN;
  await client.close();
  child.disconnect();
  await once(child, "exit");
  const { all, perSecond, p50Ms, p99Ms, cpuMicroseconds } = sixteen;
  return { ...{ all, perSecond, p50Ms, p99Ms, cpuMicroseconds }, creations, listMs, updates };
}

/** Makes the zones, some at a time. */
async function makeZones(url: string): Promise<void> {
  const soa = { mname: "ns1.example.net", rname: "h.example.net", refresh: 1, retry: 1, expire: 1, minimum: 1 };
  const fields = { crm_id: "bench", ...soa, ttl: 300, serial_type: "numeric" };
  let next = 0;
  const run = async () => {
    const client = openClient(url);
    while (next < ZONES) await send(client, post(`master_zone/${zoneName(next++)}`, fields));
    await client.close();
  };
  await Promise.all(Array.from({ length: 8 }, run));
}

interface Creations extends Load {
  readonly name: string;
  /** A creation's share of the CPU time of the API, the database and the clients; NaN without /proc. */
  readonly cpuMicroseconds: readonly number[];
  /** Lists of records that were read meanwhile. */
  readonly reads?: Load;
}

/** Creates records by numbers of clients, in clear and over TLS, in one zone, and beside readers. */
async function measureCreations(
  urls: { readonly clear: string; readonly tls: string },
  readCpu: () => readonly (number | undefined)[],
): Promise<Creations[]> {
  const measured: Creations[] = [];
  const measure = async (name: string, url: string, kinds: readonly [Clients, ...Clients[]]) => {
    const before = readCpu();
    const [created, reads] = await load(url, seconds, kinds);
    const cpuMicroseconds = readCpu().map((after = Number.NaN, index) =>
      Math.round(((after - (before[index] ?? Number.NaN)) * 1e6) / created!.all),
    );
    const [api, database, clients] = cpuMicroseconds;
    report(`Palomar, POST /rr, ${name}`, created!);
    if (reads) report("  beside them, GET /rr", reads);
    print(`  CPU time a creation, us: API ${api}, database ${database}, clients ${clients}`);
    measured.push({ name, ...created!, cpuMicroseconds, ...(reads && { reads }) });
  };
  // The first clients find everything cold.
  await load(urls.clear, parts.has("creations") ? WARM_UP_SECONDS : 0, [creating(16)]);
  if (!parts.has("creations")) {
    await measure(SIXTEEN, urls.clear, [creating(16)]);
    return measured;
  }
  for (const clients of CLIENTS) await measure(named(clients), urls.clear, [creating(clients)]);
  for (const clients of CLIENTS) await measure(`${named(clients)}, TLS`, urls.tls, [creating(clients)]);
  await measure(`${SIXTEEN}, one zone`, urls.clear, [creating(16, 1)]);
  await measure(`${SIXTEEN}, beside 16 readers`, urls.clear, [creating(16), reading(16)]);
  return measured;
}

function named(clients: number): string {
  return clients === 1 ? "1 client" : `${clients} clients`;
}

function creating(clients: number, zones = ZONES): Clients {
  return {
    clients,
    make: (count) => {
      hosts += 1;
      const fields = { name: `h${hosts}`, type: "A", value: `192.0.2.${count % 256}` };
      return post(`rr/${zoneName(count % zones)}`, fields);
    },
  };
}

/** From the last zone back, so that the zone that took the most records is seldom among them. */
function reading(clients: number): Clients {
  return {
    clients,
    make: (count) => ({
      method: "GET",
      path: `/api/v1/rr/${zoneName(ZONES - 1 - (count % (ZONES - 1)))}`,
      headers: HEADERS,
    }),
  };
}

function post(path: string, body: object): BenchRequest {
  return { method: "POST", path: `/api/v1/${path}`, headers: HEADERS, body: JSON.stringify(body) };
}

async function measureDnsUpdates(client: Client, { databaseUrl, folder }: Deployment): Promise<UpdatesByServer> {
  await send(client, { ...post("updates", { enabled: true }), method: "PUT" });
  const token = JSON.parse(
    await send(client, post("token", { name: "updates", access: "write", tsig: "hmac-sha256" })),
  );
  const zones = Array.from({ length: ZONES }, (_, zone) => zoneName(zone));
  const updateFolder = join(folder, "updates");
  mkdirSync(updateFolder);
  const updates = await measureUpdates({
    ...{ folder: updateFolder, databaseUrl, secret: SECRET, zones, key: token.tsig, seconds, clients: 16 },
  });
  for (const [server, figures] of Object.entries(updates)) {
    const said =
      figures && `${figures.oneZone.toFixed(0)} a second in one zone, ${figures.allZones.toFixed(0)} over ${ZONES}`;
    print(`DNS UPDATE, ${server}: ${said ?? "not installed"}`);
  }
  return updates;
}

async function measureList(client: Client, db: Db): Promise<number> {
  await fillZones(db);
  const startedAt = performance.now();
  const list = await send(client, { method: "GET", path: "/api/v1/domain_list", headers: HEADERS });
  const listMs = performance.now() - startedAt;
  print(`Palomar, GET /domain_list: ${JSON.parse(list).domain_list.length} zones in ${listMs.toFixed(0)} ms`);
  return listMs;
}

async function measurePowerDns(folder: string, databaseUrl: string): Promise<Load | undefined> {
  const powerDns = await startPowerDns(folder, databaseUrl);
  if (!powerDns) {
    print("PowerDNS: not installed (pdns-server, pdns-backend-pgsql)");
    return undefined;
  }
  const client = openClient(powerDns.url);
  for (let zone = 0; zone < ZONES; zone += 1) await send(client, powerDns.createZone(zoneName(zone)));
  const make = (count: number) => powerDns.createRecord(zoneName(count % ZONES), `h${count}`, `192.0.2.${count % 256}`);
  const [created] = await load(powerDns.url, seconds, [{ clients: 16, make }]);
  report("PowerDNS, PATCH zone", created!);
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

/** With what 16 clients came to. */
interface PalomarFigures extends Load {
  readonly cpuMicroseconds: readonly number[];
  readonly creations: readonly Creations[];
  readonly listMs: number;
  readonly updates: UpdatesByServer;
}

/** DNS UPDATE, by name server. */
type UpdatesByServer = Readonly<Record<string, UpdateFigures | undefined>>;

function zoneName(index: number): string {
  return `z${index}.example.org`;
}

function report(what: string, { perSecond, p50Ms, p99Ms }: Load): void {
  print(`${what}: ${perSecond.toFixed(0)} a second, median ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
