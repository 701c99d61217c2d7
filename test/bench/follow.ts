/**
 * What health checks cost: `npm run bench:follow [-- --seconds 60]`.
 *
 * 1,000 pools with three members each, which are looked at every ten seconds, half by TCP and half by HTTP, in a process
 * of the DNS API; processor time and memory of that process beside those of the same process without pools, and what
 * PostgreSQL takes for it. The last line is JSON, for a history.
 */
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { residentMemory, serviceProcesses } from "../support/resident-memory.ts";
import { killStack, removeDataDir, startPalomar } from "../support/stack.ts";
import { cpuSeconds } from "./cpu-time.ts";

const POOLS = 1_000;
const INTERVAL_SECONDS = 10;
const SECRET = "the secret of the benchmark";
const HEADERS = { Authorization: "key-of-the-benchmark", Reseller: "one", "Content-Type": "application/json" };
const SOA = {
  mname: "ns1.example.net",
  rname: "hostmaster.example.net",
  refresh: 7200,
  retry: 900,
  expire: 1_209_600,
  minimum: 300,
  ttl: 3600,
  serial_type: "numeric",
};

const { values } = parseArgs({ options: { seconds: { type: "string" } } });
const seconds = Number(values.seconds ?? 60);

const dataDir = mkdtempSync(join(tmpdir(), "palomar-follow-"));
const postgres = await openEmbeddedPostgres({ dataDir, logger: makeLogger("bench", "silent") });
const db = openDb(postgres.url, { connections: 2, name: "bench" });
await migrate(db);
const keyHash = hashApiKey(KeyRing.ofSecret(SECRET), "dns", HEADERS.Authorization);
await addReseller(db, { id: "one", name: "One", rpzLicence: false, keyHash });
await db.destroy();

let looks = 0;
const backend = createServer((_request, response) => response.end("well")).listen(0, "0.0.0.0");
backend.on("connection", () => {
  looks += 1;
});
await once(backend, "listening");
const { port } = backend.address() as { port: number };

const environment = { PALOMAR_SECRET: SECRET, DATABASE_URL: postgres.url, PALOMAR_DATA_DIR: join(dataDir, "stack") };
const stack = await startPalomar(["dns-api"], { ...environment, PALOMAR_FOLLOW_ALLOW: "127.0.0.0/8" });
try {
  const without = await measure();
  await makePools();
  await sleep(2 * INTERVAL_SECONDS * 1_000);
  const withPools = await measure();
  const figures = {
    pools: POOLS,
    checks_a_second: withPools.looks,
    core: withPools.core - without.core,
    core_of_postgres: withPools.postgres - without.postgres,
    memory_mib: withPools.memoryMib,
    memory_mib_without: without.memoryMib,
  };
  for (const [name, figure] of Object.entries(figures))
    process.stdout.write(`${name.padEnd(22)} ${figure.toFixed(3)}\n`);
  process.stdout.write(`${JSON.stringify({ benchmark: "follow", ...figures })}\n`);
} finally {
  await killStack(stack.process);
  backend.close();
  backend.closeAllConnections();
  await postgres.release();
  removeDataDir(dataDir);
}

async function measure() {
  const pid = serviceProcesses(stack.process.pid!)["dns-api"]!;
  const [cpu, ofPostgres, from] = [cpuSeconds(pid)!, postgresSeconds(), looks];
  await sleep(seconds * 1_000);
  return {
    core: (cpuSeconds(pid)! - cpu) / seconds,
    postgres: (postgresSeconds() - ofPostgres) / seconds,
    looks: (looks - from) / seconds,
    memoryMib: residentMemory(stack.process.pid!)["dns-api"]! / 2 ** 20,
  };
}

/** Of all processes that are called so: nobody else runs one beside a benchmark. */
function postgresSeconds(): number {
  const ids = readdirSync("/proc").filter((id) => /^\d+$/.test(id) && nameOfProcess(id) === "postgres");
  return ids.reduce((sum, id) => sum + (cpuSeconds(Number(id)) ?? 0), 0);
}

function nameOfProcess(id: string): string {
  try {
    return readFileSync(`/proc/${id}/comm`, "utf8").trim();
  } catch {
    return "";
  }
}

async function call(method: string, path: string, body: object): Promise<void> {
  const url = `${stack.addresses.dns_api}/api/v1/${path}`;
  const response = await fetch(url, { method, headers: HEADERS, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
}

async function makePools(): Promise<void> {
  await call("POST", "company", { crm_id: "acme", name: "Acme", apikey: "acme-api-key-0001" });
  for (let zone = 0; zone < 10; zone += 1) {
    await call("POST", `master_zone/zone${zone}.example.org`, { crm_id: "acme", ...SOA });
    const create = Array.from({ length: POOLS / 10 }, (_, pool) => ({
      name: `p${pool}`,
      members: [1, 2, 3].map((member) => ({ value: `127.${zone + 1}.${pool}.${member}` })),
      check: { type: pool % 2 === 0 ? "tcp" : "http", port, interval: INTERVAL_SECONDS },
    }));
    await call("POST", `pool/zone${zone}.example.org/batch`, { create });
  }
}
