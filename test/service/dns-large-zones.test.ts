import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, deleteZone, dnsServerContext, eventually, putZone, suspendZone } from "../support/dns-server.ts";

/** Long enough for a busy machine; what counts is the order of things. */
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let server: RunningService;
/** Ends the wait of whoever opens the connection for large zones. */
let openGate: (outcome?: Error) => void;
let gateAsked: Promise<void>;
let connections = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, "small.test", ["@ NS ns1", "ns1 A 192.0.2.1"]);
});

afterAll(() => database?.drop());

beforeEach(async () => {
  connections = 0;
  let asked: () => void = () => {};
  gateAsked = new Promise((resolve) => {
    asked = resolve;
  });
  const gate = new Promise<void>((resolve, reject) => {
    openGate = (outcome) => (outcome ? reject(outcome) : resolve());
  });
  const openConnection = async () => {
    connections += 1;
    if (connections === 2) {
      asked();
      await gate;
    }
    return openListenConnection(database.url, "test");
  };
  server = await start(dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" }, openConnection }));
  return () => {
    openGate();
    return server.stop();
  };
});

const HOSTS = Array.from({ length: 5_100 }, (_, index) => `h${index} A 192.0.2.3`);
const putLargeZone = (name: string) => putZone(database, name, ["@ NS ns1.small.test.", ...HOSTS]);
const addressOf = async (name: string) => dataOf(await askDns(server.addresses.dns!, name, "A"));
const rcodeAt = async (name: string) => rcodeOf(await askDns(server.addresses.dns!, name, "A"));
const untilAddress = (name: string, address: string) =>
  eventually(async () => (await addressOf(name)).includes(address), PATIENCE_MS);

it("answers changes and new zones while a large zone waits to be loaded", async () => {
  await putLargeZone("large.test");
  await gateAsked;
  await putZone(database, "small.test", ["@ NS ns1", "ns1 A 192.0.2.2"]);
  await untilAddress("ns1.small.test", "192.0.2.2");
  await putZone(database, "new.test", ["@ NS ns1", "ns1 A 192.0.2.4"]);
  await untilAddress("ns1.new.test", "192.0.2.4");
  expect(await rcodeAt("h5000.large.test")).toBe("REFUSED");
  openGate();
  await untilAddress("h5000.large.test", "192.0.2.3");
});

it("answers what a large zone has become while it waited", async () => {
  await putLargeZone("grown.test");
  await gateAsked;
  await putZone(database, "grown.test", ["@ NS ns1.small.test.", "www A 192.0.2.5", ...HOSTS]);
  openGate();
  await untilAddress("www.grown.test", "192.0.2.5");
  // From now on it changes name by name, over the one connection.
  await putZone(database, "grown.test", ["@ NS ns1.small.test.", "www A 192.0.2.6", ...HOSTS]);
  await untilAddress("www.grown.test", "192.0.2.6");
  expect(connections).toBe(2);
});

it("never answers a large zone that has gone before it was loaded", async () => {
  await putLargeZone("gone.test");
  await putLargeZone("paused.test");
  await gateAsked;
  await deleteZone(database, "gone.test");
  await suspendZone(database, "paused.test", true);
  await putLargeZone("after.test");
  openGate();
  await untilAddress("h1.after.test", "192.0.2.3");
  expect([await rcodeAt("h1.gone.test"), await rcodeAt("h1.paused.test")]).toEqual(["REFUSED", "REFUSED"]);
  await suspendZone(database, "paused.test", false);
  await untilAddress("h1.paused.test", "192.0.2.3");
});

it("begins anew where the second connection cannot be had, and loads all", async () => {
  await putLargeZone("retried.test");
  await gateAsked;
  openGate(new Error("too many connections"));
  await untilAddress("h1.retried.test", "192.0.2.3");
  expect(connections).toBe(3);
});

it("stops while a large zone waits", async () => {
  await putLargeZone("waiting.test");
  await gateAsked;
  const stopped = server.stop();
  openGate();
  await stopped;
});
