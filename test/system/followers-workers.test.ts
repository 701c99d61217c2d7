import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { zoneFields } from "../support/dns-api.ts";
import { killStack, makeDataDir, removeDataDir, type StartedPalomar, startPalomar } from "../support/stack.ts";
import { openTcpGate } from "../support/tcp-gate.ts";

const SECRET = "a secret of the tests, long enough";
const HEADERS = { Authorization: "key-of-reseller-one", Reseller: "one", "Content-Type": "application/json" };
const ZONE = "pools.example.org";
const INTERVAL_SECONDS = 5;
const POOLS = 20;
/** What a busy machine may add to what it takes: less than one more interval. */
const BUSY_MS = 4_500;

let database: TestDatabase;
let folders: string[];
let running: StartedPalomar[];
let backend: Server;
/** When each address was connected to. */
let looks: Map<string, number[]>;
const away = new Set<string>();

beforeEach(async () => {
  [folders, running, looks] = [[], [], new Map()];
  away.clear();
  database = await createTestDatabase();
  const keyHash = hashApiKey(KeyRing.ofSecret(SECRET), "dns", HEADERS.Authorization);
  await addReseller(database.db, { id: "one", name: "One", rpzLicence: false, keyHash });
  backend = createServer((socket) => {
    const address = `${socket.localAddress}`;
    looks.set(address, [...(looks.get(address) ?? []), performance.now()]);
    socket.on("error", () => {});
    if (away.has(address)) socket.destroy();
    else socket.end("220 mail.example.org\r\n");
  }).listen(0, "0.0.0.0");
  await once(backend, "listening");
});

afterEach(async () => {
  await Promise.all(running.map(({ process }) => killStack(process)));
  backend.close();
  await database.drop();
  folders.forEach(removeDataDir);
});

async function startWorker(environment: Record<string, string> = {}): Promise<StartedPalomar> {
  const folder = makeDataDir();
  folders.push(folder);
  const own = { PALOMAR_SECRET: SECRET, DATABASE_URL: database.url, PALOMAR_DATA_DIR: folder };
  const allowed = { PALOMAR_FOLLOW_ALLOW: "127.0.0.0/8", PALOMAR_RESOLVER: "127.0.0.1:9" };
  const started = await startPalomar(["dns-api"], { ...own, ...allowed, ...environment });
  running.push(started);
  return started;
}

/** Comes again where it is told to, as clients do: a database this busy may take more than ten seconds to take a connection. */
async function call(worker: StartedPalomar, method: string, path: string, body?: object) {
  const url = `${worker.addresses.dns_api}/api/v1/${path}`;
  const ask = () => fetch(url, { method, headers: HEADERS, ...(body && { body: JSON.stringify(body) }) });
  let response = await ask();
  for (let again = 0; response.status === 503 && again < 3; again += 1) {
    await sleep(Number(response.headers.get("retry-after")) * 1_000);
    response = await ask();
  }
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  const answer: any = await response.json();
  expect(response.status, `${JSON.stringify(answer)}\n${worker.printed()}`).toBe(200);
  return answer;
}

const addressOf = (pool: number, member: number) => `127.1.${pool}.${member + 1}`;

async function makePools(worker: StartedPalomar, fields: object = {}): Promise<void> {
  const { port } = backend.address() as { port: number };
  const check = { type: "smtp", port, interval: INTERVAL_SECONDS, timeout: 4, tries: 2, recovery: 2, ...fields };
  await call(worker, "POST", "company", { crm_id: "acme", name: "Acme", apikey: "acme-api-key-0001" });
  await call(worker, "POST", `master_zone/${ZONE}`, zoneFields());
  const create = Array.from({ length: POOLS }, (_, pool) => ({
    name: `p${pool}`,
    members: [0, 1, 2].map((member) => ({ value: addressOf(pool, member) })),
    check,
  }));
  await call(worker, "POST", `pool/${ZONE}/batch`, { create });
}

async function given(worker: StartedPalomar, pool: number): Promise<string[]> {
  const { pool: pools } = await call(worker, "GET", `pool/${ZONE}`);
  return pools.find(({ name }: { name: string }) => name === `p${pool}`).a;
}

test("two workers of a node share its checks, and when one is killed none is missed for longer than an interval", async () => {
  const [first, second] = [await startWorker(), await startWorker()];
  await makePools(first!);
  await expect.poll(() => looks.size).toBe(3 * POOLS);
  await sleep(2_000);
  // Shared: each address is looked at once in an interval, by one of the two.
  const [begunAt, before] = [performance.now(), [...looks.values()].flat().length];
  /** Of looks since then, to what one in an interval at each address comes to. */
  const share = () => {
    const intervals = (performance.now() - begunAt) / (INTERVAL_SECONDS * 1_000);
    return ([...looks.values()].flat().length - before) / (intervals * 3 * POOLS);
  };
  await sleep(2 * INTERVAL_SECONDS * 1_000);
  // Who is held up for long counts as gone, and both look for a moment.
  expect(share()).toBeLessThanOrEqual(1.5);
  await killStack(second!.process);
  await sleep(4 * INTERVAL_SECONDS * 1_000);
  expect(share()).toBeGreaterThanOrEqual(0.75);
  const gaps = [...looks.values()].map((times) => Math.max(...times.slice(1).map((at, index) => at - times[index]!)));
  expect(Math.max(...gaps)).toBeLessThan(2 * INTERVAL_SECONDS * 1_000 + BUSY_MS);
  const dead = addressOf(3, 1);
  away.add(dead);
  await expect.poll(() => given(first!, 3)).toEqual([addressOf(3, 0), addressOf(3, 2)]);
});

test("while nobody checks all stays as it is, and whoever is killed in the middle goes on where it was", async () => {
  const first = await startWorker();
  await makePools(first);
  await expect.poll(() => looks.size).toBe(3 * POOLS);
  away.add(addressOf(0, 0));
  await expect.poll(() => given(first, 0)).toEqual([addressOf(0, 1), addressOf(0, 2)]);
  for (let pool = 1; pool < POOLS; pool += 1) away.add(addressOf(pool, 0));
  await sleep(2_000);
  await killStack(first.process);
  const next = await startWorker({ PALOMAR_CHECKING_NODE: "off" });
  await sleep(2_000);
  expect(await given(next, 0)).toEqual([addressOf(0, 1), addressOf(0, 2)]);
  const third = await startWorker();
  for (let pool = 0; pool < POOLS; pool += 1) {
    await expect.poll(() => given(third, pool)).toEqual([addressOf(pool, 1), addressOf(pool, 2)]);
  }
});

test("a member is down when enough nodes find it so", async () => {
  const [here, there] = [
    await startWorker({ PALOMAR_CHECKING_NODE: "here" }),
    await startWorker({ PALOMAR_CHECKING_NODE: "there" }),
  ];
  await makePools(here!, { quorum: 100 });
  const {
    pool: [{ pool_id: id }],
  } = await call(here!, "GET", `pool/${ZONE}`);
  const state = () => call(there!, "GET", `pool/${ZONE}/${id}`);
  await expect
    .poll(async () => (await state()).states.map(({ verdicts }: { verdicts: [] }) => verdicts.length))
    .toEqual([2, 2, 2]);
  const shown = await state();
  expect(shown.nodes).toEqual(["here", "there"]);
  away.add(shown.states[0].address);
  await expect
    .poll(async () => (await state()).states[0])
    .toMatchObject({
      up: false,
      verdicts: [
        { node: "here", up: false, reason: "the answer is malformed" },
        { node: "there", up: false },
      ],
    });
});

test("while the database is away nothing changes, and what went down meanwhile is left when it is back", async () => {
  const url = new URL(database.url);
  const gate = await openTcpGate({ host: url.hostname, port: Number(url.port) });
  url.host = `127.0.0.1:${gate.port}`;
  const worker = await startWorker({ DATABASE_URL: url.href });
  const witness = await startWorker({ PALOMAR_CHECKING_NODE: "off" });
  await makePools(worker);
  await expect.poll(() => looks.size).toBe(3 * POOLS);
  for (let pool = 0; pool < POOLS; pool += 1) await expect.poll(() => given(witness, pool)).toHaveLength(3);
  const serial = async () => (await call(witness, "GET", `pool/${ZONE}`)).serial;
  await gate.shut();
  const before = await serial();
  away.add(addressOf(5, 0));
  await sleep(2 * INTERVAL_SECONDS * 1_000);
  expect(await serial()).toBe(before);
  await gate.open();
  await expect.poll(() => given(witness, 5)).toEqual([addressOf(5, 1), addressOf(5, 2)]);
  for (const pool of [4, 6]) expect(await given(witness, pool)).toHaveLength(3);
  expect(worker.process.exitCode).toBeNull();
  await killStack(worker.process);
  await gate.shut();
});
