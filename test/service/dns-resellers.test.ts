import { afterAll, beforeAll, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, dnsServerContext, eventually, putZone } from "../support/dns-server.ts";

/** The reseller whose zones the server is told to hold. */
const HELD = "held";
const RECORDS = ["@ NS ns1", "ns1 A 192.0.2.53", "www A 192.0.2.1"];
/** So much that the zone database has several segments; what nobody writes to costs no memory. */
const ENV = { PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_MEMORY: "8GiB", PALOMAR_DNS_RESELLERS: `${HELD}, other` };

let database: TestDatabase;
let server: RunningService;
const warned: Observation[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await addReseller(database.db, { id: HELD, name: "H", rpzLicence: false, keyHash: Buffer.from("h") });
  await putZone(database, "first.example.org", RECORDS, "loaded at start");
  await putZone(database, "second.example.org", RECORDS, "loaded at start");
  await giveTo(HELD, "first.example.org");
  const observe = (observation: Observation) => {
    if (observation.kind === "resellers-unknown") warned.push(observation);
  };
  server = await start(dnsServerContext(database, { env: ENV, observe }));
});

afterAll(async () => {
  await server?.stop();
  await database?.drop();
});

it("warns once of ids that no reseller has", async () => {
  await eventually(async () => warned.length > 0, 60_000);
  expect(warned).toEqual([{ kind: "resellers-unknown", level: "warn", resellers: ["other"] }]);
});

it("holds the zones of the resellers that it is told alone, as they come and go", async () => {
  await eventually(async () => dataOf(await ask("www.first.example.org")).includes("192.0.2.1"), 60_000);
  expect(rcodeOf(await ask("www.second.example.org"))).toBe("REFUSED");
  await putZone(database, "third.example.org", RECORDS);
  await giveTo(HELD, "second.example.org");
  await eventually(async () => dataOf(await ask("www.second.example.org")).includes("192.0.2.1"), 60_000);
  expect(rcodeOf(await ask("www.third.example.org"))).toBe("REFUSED");
  const [{ reseller_id: unheld }] = await database.db("companies").select("reseller_id");
  await giveTo(unheld, "first.example.org");
  await eventually(async () => rcodeOf(await ask("www.first.example.org")) === "REFUSED", 60_000);
  expect(dataOf(await ask("www.second.example.org"))).toEqual(["192.0.2.1"]);
});

/** Changes whose a zone is, as a change of the zone. */
async function giveTo(resellerId: string, name: string): Promise<void> {
  const next = { version: database.db.raw("version + 1"), changed_xid: database.db.raw("pg_current_xact_id()") };
  const [zone] = await database
    .db("zones")
    .where({ name })
    .update({ reseller_id: resellerId, ...next }, "id");
  await notifyZones(database.db, [zone.id]);
}

function ask(name: string) {
  return askDns(server.addresses.dns!, name, "A");
}
