import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { startUpkeep } from "../../services/dns-server/feed/catalog-upkeep.ts";
import { addCatalog, refreshCatalog } from "../../services/operations/dns/catalogs.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { systemClock } from "../../services/platform/clock.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { lookForZoneChanges, startOfLooks } from "../../services/store/dns/catalogs.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addZoneOwner,
  deleteZone,
  eventually,
  nameOf,
  putZone,
  SCOPE,
  SIGNER,
  suspendZone,
} from "../support/dns-server.ts";

let database: TestDatabase;
let own: number;
let others: number;

beforeAll(async () => {
  database = await createTestDatabase();
  const { db } = database;
  await addZoneOwner(database);
  await addReseller(db, { id: "other", name: "Other", rpzLicence: false, keyHash: Buffer.from("other") });
  await addCompany(db, SIGNER.keyRing, { resellerId: "other", crmId: "c", name: "C", apikey: "other-key" });
  await putZone(database, "first.example", ["@ NS ns.example.net."]);
  own = await makeCatalog(SCOPE.resellerId, "catalog.example.net");
  others = await makeCatalog("other", "catalog.example.org");
});

afterAll(async () => {
  await database?.drop();
});

test("a look finds the catalog of whose zones come, are suspended and go, and no other's", async () => {
  const { db } = database;
  const since = await startOfLooks(db);
  expect(await looked(since)).toEqual([]);
  await putZone(database, "second.example", ["@ NS ns.example.net."]);
  expect(await looked(since)).toEqual([own]);
  expect(await refreshCatalog(db, others, "test", since)).toBe(false);
  expect(await refreshCatalog(db, own, "test", since)).toBe(true);
  // Seen again, a zone that is listed is no news, and neither is a change of its records.
  await putZone(database, "first.example", ["@ NS ns.example.net.", "www A 192.0.2.1"]);
  expect(await looked(since)).toEqual([]);

  await suspendZone(database, "first.example", true);
  expect(await looked(since)).toEqual([own]);
  expect(await refreshCatalog(db, own, "test", since)).toBe(true);
  await deleteZone(database, "second.example");
  expect(await looked(since)).toEqual([own]);
  expect(await refreshCatalog(db, own, "test", since)).toBe(true);
  expect(await looked(since)).toEqual([]);
  expect(await refreshCatalog(db, own, "test")).toBe(false);
  expect(await queryRows(db, "select 1 from catalog_members", [])).toEqual([]);
});

test("the whole comparison finds what has changed before any look", async () => {
  const { db } = database;
  await putZone(database, "third.example", ["@ NS ns.example.net."]);
  expect(await refreshCatalog(db, own, "test")).toBe(true);
  expect(await refreshCatalog(db, own, "test")).toBe(false);
});

test("a catalog that cannot be read holds up no other, and is followed again when it can", async () => {
  const { db } = database;
  const catalogs = () =>
    queryRows<{ id: number; members: number }>(
      db,
      `select c.id, count(m.zone_id)::int as members from zones c left join catalog_members m on m.catalog_id = c.id
      where c.kind = 'catalog' group by c.id order by c.id`,
      [],
    );
  const [broken] = await queryRows<{ apex: Buffer }>(db, "select apex from zones where id = $1", [own]);
  await queryRows(db, "update zones set apex = $1 where id = $2", [Buffer.from([0xff]), own]);
  const told: Observation[] = [];
  const upkeep = startUpkeep({ db, clock: systemClock, observe: (observation) => told.push(observation) });
  onTestFinished(() => upkeep.stop());
  await putZone(database, "theirs.example", ["@ NS ns.example.net."], "found by a look", {
    resellerId: "other",
    crmId: "c",
  });
  await eventually(async () => (await catalogs()).find(({ id }) => id === others)?.members === 1, 60_000);
  await expect.poll(() => told[0]).toMatchObject({ kind: "zone-upkeep-failed", zoneId: own });
  await putZone(database, "fourth.example", ["@ NS ns.example.net."]);
  await queryRows(db, "update zones set apex = $1 where id = $2", [broken!.apex, own]);
  await eventually(async () => (await catalogs()).find(({ id }) => id === own)?.members === 2, 120_000);
});

test("whatever refers to zones, records and companies is found by an index when they go", async () => {
  const unindexed = await queryRows<{ fk: string }>(
    database.db,
    `select conrelid::regclass || '.' || a.attname as fk
       from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      where c.contype = 'f' and c.confrelid in ('zones'::regclass, 'records'::regclass)
        and not exists (select from pg_index i where i.indrelid = c.conrelid and i.indkey[0] = c.conkey[1])`,
    [],
  );
  expect(unindexed).toEqual([]);
});

async function looked(since: string): Promise<readonly number[]> {
  return (await lookForZoneChanges(database.db, since)).catalogIds;
}

async function makeCatalog(resellerId: string, name: string): Promise<number> {
  const added = await addCatalog(database.db, resellerId, nameOf(name), { actor: "test", maker: "operator" });
  if (!added.ok) throw new Error(JSON.stringify(added.error));
  return added.value.zone.id;
}
