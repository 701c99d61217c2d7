import { afterAll, beforeAll, expect, test } from "vitest";
import { parseDomainName } from "../../services/core/dns/name.ts";
import { addCatalog } from "../../services/operations/dns/catalogs.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { deleteReseller } from "../../services/operations/dns/resellers.ts";
import { createZone } from "../../services/operations/dns/zone-creation.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { dnsServerContext, nameOf, SIGNER } from "../support/dns-server.ts";
import { operatorOf } from "../support/operator.ts";

/** More than one step takes. */
const ZONES = 130;

let database: TestDatabase;
let palomar: ReturnType<typeof operatorOf>;

beforeAll(async () => {
  database = await createTestDatabase();
  palomar = operatorOf(dnsServerContext(database));
  for (const id of ["going", "staying"]) await addAccount(id);
  for (let zone = 0; zone < ZONES; zone += 1) await makeZone("going", `z${zone}.example.net`);
  await makeZone("staying", "stays.example.org");
});

afterAll(async () => {
  await database?.drop();
});

test("a reseller that is not named twice, or not known, stays", async () => {
  expect((await palomar("reseller", "remove", "going", "--confirm", "staying")).refused).toContain("staying");
  expect((await palomar("reseller", "remove", "nobody", "--confirm", "nobody")).refused).toContain("does not exist");
  expect(await countOf("zones", "going")).toBe(ZONES);
});

test("goes with all that it has, step by step, and takes nothing of anybody else's along", async () => {
  const catalog = parseDomainName("catalog.example.net.");
  const theirs = parseDomainName("catalog.example.org.");
  if (!catalog.ok || !theirs.ok) throw new Error("names");
  const by = { actor: "test", maker: "operator" } as const;
  expect((await addCatalog(database.db, "going", catalog.value, by)).ok).toBe(true);
  expect((await addCatalog(database.db, "staying", theirs.value, by)).ok).toBe(true);
  await palomar("acl", "add", "going", "secondaries", "--block", "192.0.2.0/24");
  await palomar("token", "add", "going", "panel", "--access", "read");

  const { json } = await palomar("reseller", "remove", "going", "--confirm", "going");
  expect(json).toEqual({ reseller_id: "going", zones: ZONES + 1 });

  for (const table of ["zones", "companies", "acls", "dns_tokens", "quotas"]) {
    expect(await countOf(table, "going"), table).toBe(0);
  }
  expect(await countOf("zones", "staying")).toBe(2);
  expect(await countOf("companies", "staying")).toBe(1);
  // Name servers forget them.
  const [gone] = await queryRows<{ count: number }>(database.db, "select count(*) as count from zone_deletions");
  expect(gone?.count).toBe(ZONES + 1);
  expect(
    await queryRows(
      database.db,
      "select 1 from records r where not exists (select from zones z where z.id = r.zone_id)",
    ),
  ).toEqual([]);
});

test("makes an end of one whose programs make zones meanwhile", async () => {
  await addAccount("busy");
  let isDone = false;
  const refused: unknown[] = [];
  const work = async (worker: number) => {
    for (let zone = 0; !isDone; zone += 1) {
      const made = await makeZone("busy", `w${worker}-${zone}.example.com`, false);
      if (made.ok) continue;
      refused.push(made.error);
      return;
    }
  };
  const working = [0, 1, 2].map(work);
  const deleted = await deleteReseller(database.db, "busy", SIGNER);
  isDone = true;
  await Promise.all(working);
  expect(deleted.ok).toBe(true);
  expect(await countOf("zones", "busy")).toBe(0);
  expect((await makeZone("busy", "late.example.com", false)).ok).toBe(false);
  for (const refusal of refused) expect(refusal).toMatchObject({ code: "company-unknown" });
});

async function addAccount(id: string): Promise<void> {
  await addReseller(database.db, { id, name: id, rpzLicence: false, keyHash: Buffer.from(`key of ${id}`) });
  await addCompany(database.db, SIGNER.keyRing, { resellerId: id, crmId: id, name: id, apikey: `key-of-${id}` });
}

async function makeZone(id: string, name: string, mustBe = true) {
  const [apex, mname] = [nameOf(name), nameOf("ns.example.net")];
  const soa = { mname, rname: mname, serial: 1, refresh: 7200, retry: 3600, expire: 1209600, minimum: 300 };
  const records = [{ owner: apex, type: 2, ttl: 300, rdata: mname.wire }];
  const zone = { apex, domain: name, serialType: "numeric" as const, soa, ttl: 300, records };
  const made = await createZone(database.db, { resellerId: id, crmId: id }, zone, "test");
  if (mustBe && !made.ok) throw new Error(JSON.stringify(made.error));
  return made;
}

async function countOf(table: string, resellerId: string): Promise<number> {
  const [row] = await queryRows<{ count: number }>(
    database.db,
    `select count(*) as count from ${table} where reseller_id = $1`,
    [resellerId],
  );
  return row!.count;
}
