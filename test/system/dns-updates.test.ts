import { createSocket } from "node:dgram";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RCODE } from "../../services/core/dns/rr-types.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addAccounts,
  addCompany,
  dnsApiOf,
  type RunningServices,
  startServices,
  zoneBody,
} from "../support/deployment.ts";
import { addition, signUpdate } from "../support/dns-updates.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const ZONE = "updates.test";
const UPDATES = 300;
/** As `nsupdate` does, every three seconds, and for as long as a busy machine takes to start the API anew. */
const SENDINGS = 40;
const EVERY_MS = 3_000;

const dataDir = makeDataDir();
const running: RunningServices[] = [];
let database: TestDatabase;
let env: Record<string, string>;

/** A service on a data folder of its own, so that it can be killed by itself. */
async function startOne(service: "dns-api" | "dns-server", name: string): Promise<RunningServices> {
  const folder = join(dataDir, name);
  mkdirSync(folder);
  const started = await startServices([service], { ...env, PALOMAR_DATA_DIR: folder });
  running.push(started);
  return started;
}

beforeAll(async () => {
  database = await createTestDatabase();
  env = { DATABASE_URL: database.url, PALOMAR_SECRET: "a secret of the tests, long enough" };
});
afterAll(async () => {
  for (const services of running) await services.kill();
  await database?.drop();
  removeDataDir(dataDir);
});

it("an API that is killed in the middle of updates loses none that was answered, and makes none twice", async () => {
  const accounts = await addAccounts({ ...env, PALOMAR_DATA_DIR: dataDir });
  const first = await startOne("dns-api", "first");
  const server = await startOne("dns-server", "server");
  const call = dnsApiOf(first.addresses.dns_api!, accounts);
  await addCompany(call);
  const made = await call("POST", `/master_zone/${ZONE}`, zoneBody(ZONE));
  await call("PUT", `/updates/${ZONE}`, { enabled: true });
  const { tsig } = (await call("POST", "/token", { name: "t", access: "write", tsig: "hmac-sha256" })).body;
  // One that asks for nothing, until the server knows the zone and the key.
  const nothing = () => signUpdate(ZONE, tsig, { updates: [], id: 0 }).octets;
  await eventually(
    async () => (await sendAll(server.addresses.dns!, [nothing()])).get(0),
    (rcode) => rcode === RCODE.NOERROR,
  );
  const messages = Array.from({ length: UPDATES }, (_, id) => {
    const updates = [addition(`n${id}.${ZONE}`, "A", "192.0.2.1")];
    return signUpdate(ZONE, tsig, { updates, id }).octets;
  });
  const answered = sendAll(server.addresses.dns!, messages);
  await sleep(150);
  await first.kill();
  const second = await startOne("dns-api", "second");
  const rcodes = await answered;
  const { body } = await dnsApiOf(second.addresses.dns_api!, accounts)("GET", `/rr/${ZONE}`);
  const names = new Set(body.rr.map(({ name }: { name: string }) => name));
  const good = [...rcodes].filter(([, rcode]) => rcode === RCODE.NOERROR).map(([id]) => `n${id}`);
  expect(good.filter((name) => !names.has(name))).toEqual([]);
  expect(good.length).toBeGreaterThan(0);
  // One NS record was there; each update adds one record, and one to the serial.
  expect(body.serial - made.body.serial).toBe(body.rr.length - 1);
  expect(rcodes.size).toBe(UPDATES);
});

/** Sends requests by UDP until each is answered, or was sent often enough. @returns response codes by id */
async function sendAll(address: string, messages: readonly Uint8Array[]): Promise<Map<number, number>> {
  const [host, port] = address.split(":") as [string, string];
  const socket = createSocket("udp4");
  const rcodes = new Map<number, number>();
  socket.on("message", (answer) => rcodes.set(answer.readUInt16BE(0), answer[3]! & 0xf));
  for (let sending = 0; sending < SENDINGS && rcodes.size < messages.length; sending += 1) {
    for (const [id, message] of messages.entries()) if (!rcodes.has(id)) socket.send(message, Number(port), host);
    for (let waited = 0; waited < EVERY_MS && rcodes.size < messages.length; waited += 50) await sleep(50);
  }
  socket.close();
  return rcodes;
}
