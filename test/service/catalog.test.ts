import { afterAll, beforeAll, expect, it } from "vitest";
import type { MessageRecord } from "../../services/core/dns/message.ts";
import { nameFromStoredWire } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { start } from "../../services/dns-server/main.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addZoneOwner,
  deleteZone,
  dnsServerContext,
  eventually,
  nameOf,
  putZone,
  SCOPE,
  suspendZone,
} from "../support/dns-server.ts";
import { operatorOf } from "../support/operator.ts";
import { askOverTcp } from "../support/transfer-client.ts";

const CATALOG = "catalog.example.net";

let database: TestDatabase;
let service: RunningService;
let server: string;
let palomar: ReturnType<typeof operatorOf>;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, "first.example", ["@ NS ns.example.net."]);
  const context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
  palomar = operatorOf(context);
  await palomar("reseller", "add", "other", "--name", "Other");
  await palomar("acl", "add", SCOPE.resellerId, "secondaries", "--block", "127.0.0.1");
  service = await start(context);
  server = service.addresses.dns as string;
});

afterAll(async () => {
  await service?.stop();
  await database?.drop();
});

it("lists the reseller's zones as RFC 9432 has it", async () => {
  const { json } = await palomar("catalog", "add", SCOPE.resellerId, CATALOG);
  expect(json).toEqual({ reseller_id: SCOPE.resellerId, zone: CATALOG });
  await eventually(async () => (await transfer()).rcode === "NOERROR", 60_000);
  const { records } = await transfer();
  expect(textOf(records, TYPE.NS)).toEqual(["invalid"]);
  const version = records.find(({ type }) => type === TYPE.TXT);
  expect(version?.owner.key).toBe(nameOf(`version.${CATALOG}`).key);
  expect(Buffer.from(version!.rdata).toString("latin1")).toBe("\x012");
  const member = records.find(({ type }) => type === TYPE.PTR);
  expect(member?.owner.key.endsWith(nameOf(`zones.${CATALOG}`).key)).toBe(true);
  expect(member?.owner.labelCount).toBe(nameOf(`zones.${CATALOG}`).labelCount + 1);
  expect(membersOf(records)).toEqual(["first.example"]);
});

it("follows zones that come, go, are suspended and resumed", async () => {
  await putZone(database, "second.example", ["@ NS ns.example.net."]);
  await members("first.example", "second.example");
  await suspendZone(database, "first.example", true);
  await members("second.example");
  await suspendZone(database, "first.example", false);
  await members("first.example", "second.example");
  const before = await labelOf("second.example");
  const gone = await deleteZone(database, "second.example");
  await notifyZones(database.db, gone);
  await members("first.example");
  await putZone(database, "second.example", ["@ NS ns.example.net."]);
  await members("first.example", "second.example");
  // RFC 9432 §5.6: a zone made anew is another member, so that secondaries forget what they have.
  expect(await labelOf("second.example")).not.toBe(before);
});

it("is no other reseller's, and lists none of theirs", async () => {
  expect((await palomar("catalog", "add", "other", CATALOG)).refused).toBe(`duplicated zone: ${CATALOG}`);
  expect((await palomar("catalog", "remove", "other", CATALOG)).refused).toContain("does not exist");
  expect((await palomar("catalog", "add", "nobody", "x.example")).refused).toContain("does not exist");
  const long = `${"a".repeat(60)}.`.repeat(4);
  for (const name of [".", "not\\032a.zone.example", "a@b.example", "9.0.192.in-addr.arpa", `${long}example`]) {
    expect((await palomar("catalog", "add", SCOPE.resellerId, name)).refused, name).toMatch(/^zone: /);
  }
  const below = "catalog.first.example";
  expect((await palomar("catalog", "add", "other", below)).refused).toBe(`duplicated zone: ${below}`);
  await palomar("catalog", "add", "other", "theirs.example.net");
  expect((await askOverTcp(server, { name: "theirs.example.net", type: "AXFR" })).rcode).toBe("REFUSED");
});

it("gives increments, and goes when it is removed", async () => {
  const { records } = await askOverTcp(server, { name: CATALOG, type: "IXFR", serial: 1 });
  expect(records.length).toBeGreaterThan(2);
  expect((await palomar("catalog", "remove", SCOPE.resellerId, CATALOG)).status).toBe(0);
  await eventually(async () => (await transfer()).rcode === "NOTAUTH", 60_000);
});

function transfer() {
  return askOverTcp(server, { name: CATALOG, type: "AXFR" });
}

async function members(...names: string[]): Promise<void> {
  await eventually(async () => String(membersOf((await transfer()).records)) === String(names), 60_000);
}

async function labelOf(zone: string): Promise<string | undefined> {
  const { records } = await transfer();
  return records.find((record) => textOf([record], TYPE.PTR)[0] === zone)?.owner.key;
}

function membersOf(records: readonly MessageRecord[]): string[] {
  return textOf(records, TYPE.PTR).sort();
}

/** The names that records of a type point to. */
function textOf(records: readonly MessageRecord[], type: number): string[] {
  return records
    .filter((record) => record.type === type)
    .map(({ rdata }) =>
      nameFromStoredWire(rdata)
        .key.replaceAll(/[\0-\x1f]/g, ".")
        .slice(1, -1),
    );
}
