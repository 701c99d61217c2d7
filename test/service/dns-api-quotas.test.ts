import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { QuotaName } from "../../services/core/dns/quotas.ts";
import { recordOctets, zoneOctets } from "../../services/core/dns/zone-octets.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { findQuotaOwner, setLimits } from "../../services/store/dns/quota-settings.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { ZONE_COLUMNS, type ZoneRow, zoneOf } from "../../services/store/dns/zones.ts";
import {
  type Answer,
  KEY_RING,
  RESELLER_ONE,
  RESELLER_TWO,
  type RunningApi,
  startApi,
  zoneFields,
} from "../support/dns-api.ts";
import { processorMs } from "../support/processor-time.ts";

let api: RunningApi;
/** A company of its own for each test, and its zone. */
let crmId: string;
let zone: string;
let made = 0;

beforeAll(async () => {
  api = await startApi({ PALOMAR_LIMIT_LOOPBACK: "true", PALOMAR_API_REQUESTS_PER_SECOND: "100000" });
});
afterAll(() => api.stop());
beforeEach(async () => {
  made += 1;
  crmId = `company${made}`;
  zone = `quota${made}.example.org`;
  await addCompany(crmId);
  expect((await makeZone(zone)).status).toBe(200);
});

const keyOf = (company: string) => ({ reseller: "one", key: `key-of-the-${company}` });
const addCompany = (company: string) =>
  api.call("POST", "/api/v1/company", { crm_id: company, name: company, apikey: keyOf(company).key });
const makeZone = (name: string, as = RESELLER_ONE, company = crmId) =>
  api.call("POST", `/api/v1/master_zone/${name}`, zoneFields({ crm_id: company }), as);
const create = (name: string, value = "192.0.2.1", domain = zone) =>
  api.call("POST", `/api/v1/rr/${domain}`, { name, type: "A", value });
const putFile = (text: string, domain = zone, as: { reseller: string; key: string } = RESELLER_ONE) =>
  api.call("PUT", `/api/v1/zone_file/${domain}`, text, as);
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status).sort();

const FILE_HEAD = "@ NS ns1.example.net.\n";

async function limit(limits: Partial<Record<QuotaName, number | null>>, company: string | null = crmId) {
  const owner = await findQuotaOwner(api.database.db, "one", company ?? undefined);
  await setLimits(api.database.db, owner!, limits);
}

/** What is shown as used by a company. */
async function used(company = crmId): Promise<Record<string, number>> {
  const { body } = await api.call("GET", `/api/v1/company/${company}/quota`);
  return Object.fromEntries(body.quotas.map((quota: { name: string; used: number }) => [quota.name, quota.used]));
}

const refusal = (quota: string, allowed: number, inUse: number, wanted: number) => ({
  status: 400,
  body: {
    msg: `quota exceeded: ${quota} of company ${crmId}: ${allowed} allowed, ${inUse} in use, ${wanted} more wanted`,
  },
});

/** Every zone takes what its records come to, holds no less, and what zones hold is what companies and resellers have. */
async function expectExact(): Promise<void> {
  const { db } = api.database;
  const rows = await queryRows<ZoneRow & Record<"records" | "octets" | "records_held" | "octets_held", number>>(
    db,
    `select ${ZONE_COLUMNS}, z.records, z.octets, z.records_held, z.octets_held
       from zones z join companies c on c.id = z.company_id`,
  );
  for (const row of rows) {
    const { id, apex, soa, name } = zoneOf(row);
    const own = await readAllRecords(db, id);
    const all = [...own, ...(await readAllDerived(db, id))];
    const octets = all.reduce(
      (sum, { owner, rdata }) => sum + recordOctets(owner.wire, apex.wire.length, rdata.length),
      zoneOctets(apex, soa),
    );
    expect({ name, records: row.records, octets: row.octets }).toEqual({ name, records: own.length, octets });
    expect(row.records_held).toBeGreaterThanOrEqual(row.records);
    expect(row.octets_held).toBeGreaterThanOrEqual(row.octets);
  }
  const wrong = await queryRows(
    db,
    `select q.*, z.* from quotas q cross join lateral (
       select count(*) as zones, count(*) filter (where signed) as signed_zones,
              coalesce(sum(records_held), 0)::bigint as records, coalesce(sum(octets_held), 0)::bigint as octets
         from zones z where z.kind = 'primary' and z.reseller_id = q.reseller_id
                        and z.company_id = coalesce(q.company_id, z.company_id)) z
      where (q.zones, q.signed_zones, q.records, q.octets)
        is distinct from (z.zones, z.signed_zones, z.records, z.octets)`,
  );
  expect(wrong).toEqual([]);
}

describe("zones", () => {
  it("are refused beyond the quota, and taken again when one was deleted", async () => {
    await limit({ zones: 2 });
    expect((await makeZone(`b.${zone}`)).status).toBe(200);
    expect(await makeZone(`c.${zone}`)).toMatchObject(refusal("zones", 2, 2, 1));
    await api.call("PUT", `/api/v1/suspend_zone/b.${zone}`, { crm_id: crmId });
    expect((await makeZone(`c.${zone}`)).status, "a suspended zone comes back").toBe(400);
    await api.call("DELETE", `/api/v1/master_zone/b.${zone}`);
    expect((await makeZone(`c.${zone}`)).status).toBe(200);
    expect((await used()).zones).toBe(2);
    await expectExact();
  });

  it("of many made at the same moment as many are made as are allowed", async () => {
    await limit({ zones: 4 });
    const answers = await Promise.all(Array.from({ length: 9 }, (_, index) => makeZone(`p${index}.${zone}`)));
    expect(statuses(answers)).toEqual([200, 200, 200, 400, 400, 400, 400, 400, 400]);
    await expectExact();
  });

  it("count for the reseller as well, whose quota refuses all of its companies", async () => {
    const { zones } = Object.fromEntries(
      (await api.call("GET", "/api/v1/quota")).body.quotas.map(
        ({ name, used: has }: { name: string; used: number }) => [name, has],
      ),
    );
    await limit({ zones }, null);
    const refused = await makeZone(`r.${zone}`, keyOf(crmId));
    await limit({ zones: null }, null);
    expect(refused.body.msg).toBe(
      `quota exceeded: zones of reseller one: ${zones} allowed, ${zones} in use, 1 more wanted`,
    );
    expect((await makeZone(`r.${zone}`, keyOf(crmId))).status).toBe(200);
  });
});

describe("records", () => {
  it("are refused beyond the quota, whatever other zones hold, and taken again when one was deleted", async () => {
    await makeZone(`b.${zone}`);
    // Both zones get something to hold beyond what they take.
    await create("first");
    await create("first", "192.0.2.1", `b.${zone}`);
    await limit({ records: 6 });
    expect((await create("second")).status).toBe(200);
    const last = await create("second", "192.0.2.1", `b.${zone}`);
    expect(last.status).toBe(200);
    expect(await create("third")).toMatchObject(refusal("records", 6, 6, 1));
    expect((await used()).records).toBe(6);
    await api.call("DELETE", `/api/v1/rr/b.${zone}/${last.body.rr_id}`);
    expect((await create("third")).status).toBe(200);
    await expectExact();
  });

  it("of many made at the same moment in many zones as many are made as are allowed", async () => {
    const zones = [zone, `b.${zone}`, `c.${zone}`, `d.${zone}`];
    for (const name of zones.slice(1)) await makeZone(name);
    await limit({ records: 24 });
    for (const round of [0, 1, 2, 3]) {
      await Promise.all(zones.map((name, index) => create(`r${round}-${index}`, "192.0.2.1", name)));
    }
    expect((await used()).records).toBe(20);
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) => create(`p${index}`, "192.0.2.1", zones[index % 4])),
    );
    expect(statuses(answers).filter((status) => status === 200)).toHaveLength(4);
    expect((await used()).records).toBe(24);
    await expectExact();
  });

  it("may be modified and deleted by who has more than a new quota allows", async () => {
    const { body } = await create("www");
    await limit({ records: 1, octets: 10 });
    expect((await api.call("PUT", `/api/v1/rr/${zone}/${body.rr_id}`, { value: "192.0.2.9" })).status).toBe(200);
    expect((await create("more")).status).toBe(400);
    expect((await api.call("DELETE", `/api/v1/rr/${zone}/${body.rr_id}`)).status).toBe(200);
  });

  it("come to no more by files, batches, ways back and previews", async () => {
    const many = FILE_HEAD + Array.from({ length: 20 }, (_, index) => `h${index} A 192.0.2.1\n`).join("");
    const { serial } = (await putFile(many)).body;
    await putFile(FILE_HEAD);
    await limit({ records: 10 });
    const batch = { create: Array.from({ length: 20 }, (_, n) => ({ name: `b${n}`, type: "A", value: "192.0.2.1" })) };
    const tooMuch = { status: 400, body: { msg: expect.stringContaining("quota exceeded: records of company") } };
    expect(await putFile(many)).toMatchObject(tooMuch);
    expect(await api.call("POST", `/api/v1/rr/${zone}/batch`, batch)).toMatchObject(tooMuch);
    expect(await api.call("POST", `/api/v1/zone_rollback/${zone}`, { serial })).toMatchObject(tooMuch);
    expect(await api.call("POST", `/api/v1/zone_preview/${zone}`, many)).toMatchObject(tooMuch);
    expect(await api.call("POST", `/api/v1/zone_preview/${zone}`, batch)).toMatchObject(tooMuch);
    await expectExact();
  });
});

describe("octets of the zone database", () => {
  const texts = (count: number) => `${FILE_HEAD}$GENERATE 1-${count} t$ TXT ${`"${"x".repeat(250)}" `.repeat(7)}\n`;

  it("are judged before a file is expanded, with line and column", async () => {
    await limit({ octets: 20_000_000 });
    const before = processorMs();
    const refused = await putFile(texts(60_000));
    expect(processorMs() - before).toBeLessThan(1_000);
    expect(refused.body.msg).toMatch(
      /^line 2, column 19: quota exceeded: octets of company company\d+: 20000000 allowed, \d+ in use, 1[23]\d{7} more wanted$/,
    );
    expect((await putFile(texts(5_000))).status).toBe(200);
    // What the file takes the place of comes free.
    expect((await putFile(texts(6_000))).status).toBe(200);
    expect((await putFile(texts(12_000))).status).toBe(400);
    await expectExact();
  });

  it("are more in a signed zone, which is refused to begin with and never once it is signed", async () => {
    await putFile(FILE_HEAD + Array.from({ length: 50 }, (_, index) => `h${index} A 192.0.2.1\n`).join(""));
    const unsigned = (await used()).octets!;
    await limit({ octets: unsigned + 1_000 });
    const sign = (fields: object) => api.call("PUT", `/api/v1/dnssec/${zone}`, fields);
    expect(await sign({ enabled: true })).toMatchObject({
      status: 400,
      body: { msg: expect.stringContaining("quota exceeded: octets") },
    });
    expect((await api.call("GET", `/api/v1/dnssec/${zone}`)).body.enabled).toBe(false);
    await limit({ octets: unsigned * 10 });
    expect((await sign({ enabled: true })).status).toBe(200);
    await expectExact();
    const signed = (await used()).octets!;
    expect(signed).toBeGreaterThan(unsigned * 2);
    await limit({ octets: unsigned });
    api.clock.set(new Date(api.clock.nowMs() + 30 * 86_400_000).toISOString());
    const signer = { keyRing: KEY_RING, clock: api.clock };
    const [row] = await queryRows<ZoneRow>(
      api.database.db,
      `select ${ZONE_COLUMNS} from zones z join companies c on c.id = z.company_id where z.name = $1`,
      [zone],
    );
    const before = zoneOf(row!);
    const [changed] = await maintainZone(api.database.db, before.apex, { signer, lookUpDs: async () => undefined });
    expect(changed?.version).toBeGreaterThan(before.version);
    await expectExact();
    expect((await create("more")).status).toBe(400);
    expect((await sign({ enabled: false })).status).toBe(200);
    expect(await used()).toMatchObject({ octets: unsigned, signed_zones: 0 });
    await expectExact();
  });

  it("count the names of the SOA", async () => {
    const longName = `${"x".repeat(60)}.${"y".repeat(60)}.example.net`;
    const before = (await used()).octets!;
    const path = `/api/v1/update_soa/${crmId}/${zone}/${longName}/hostmaster.example.net/9/1/1/1/1/1`;
    expect((await api.call("POST", path)).status).toBe(200);
    expect((await used()).octets).toBe(before + longName.length - "ns1.example.net".length);
    await expectExact();
  });
});

describe("signed zones", () => {
  it("are refused beyond the quota, and allowed again when one is signed no longer, or gone", async () => {
    await makeZone(`b.${zone}`);
    await limit({ signed_zones: 1 });
    const sign = (name: string, enabled = true) => api.call("PUT", `/api/v1/dnssec/${name}`, { enabled });
    expect((await sign(zone)).status).toBe(200);
    expect(await sign(`b.${zone}`)).toMatchObject(refusal("signed_zones", 1, 1, 1));
    await api.call("DELETE", `/api/v1/master_zone/${zone}`);
    expect((await sign(`b.${zone}`)).status).toBe(200);
    expect((await used()).signed_zones).toBe(1);
    await expectExact();
  });
});

describe("what one change makes", () => {
  it("is bounded for files, before they are expanded, and for batches", async () => {
    await limit({ records_per_change: 100 });
    expect(
      (await putFile(`${FILE_HEAD}\n$GENERATE 1-99 h$ A 192.0.2.1\n$GENERATE 1-9 g$ A 192.0.2.1\n`)).body.msg,
    ).toBe(
      `line 4, column 15: quota exceeded: records_per_change of company ${crmId}: 100 allowed, 0 in use, 109 more wanted`,
    );
    expect((await putFile(`${FILE_HEAD}$GENERATE 1-99 h$ A 192.0.2.1\n`)).status).toBe(200);
    const create = Array.from({ length: 101 }, (_, n) => ({ name: `b${n}`, type: "A", value: "192.0.2.1" }));
    const batch = await api.call("POST", `/api/v1/rr/${zone}/batch`, { create });
    expect(batch).toMatchObject(refusal("records_per_change", 100, 0, 101));
  });
});

describe("changes a minute", () => {
  it("are counted for who asks, and refused with the time to wait", async () => {
    await limit({ changes_per_minute: 3 });
    const as = keyOf(crmId);
    const change = () => api.call("PUT", `/api/v1/suspend_zone/${zone}`, { crm_id: crmId }, as);
    for (const _ of [1, 2, 3]) expect((await change()).status).toBe(200);
    const refused = await change();
    expect(refused.status).toBe(429);
    const seconds = Number(refused.headers["retry-after"]);
    expect(seconds).toBeGreaterThan(50);
    expect(refused.body.msg).toBe(
      `quota exceeded for now: changes_per_minute of company ${crmId}: 3 allowed, try again in ${seconds} s`,
    );
    // Reading is no change, and others may.
    expect((await api.call("GET", `/api/v1/soa/${zone}`, undefined, as)).status).toBe(200);
    expect((await create("www")).status).toBe(200);
    api.clock.set(new Date(api.clock.nowMs() + 61_000).toISOString());
    expect((await change()).status).toBe(200);
  });
});

describe("companies", () => {
  it("give all back when they are deleted, and keep their quotas under another name", async () => {
    await limit({ zones: 1 });
    const renamed = `${crmId}-renamed`;
    expect((await api.call("PUT", `/api/v1/company/${crmId}`, { crm_id: renamed, suspended: true })).status).toBe(200);
    const refused = await makeZone(`b.${zone}`, RESELLER_ONE, renamed);
    expect(refused.body.msg).toContain(`zones of company ${renamed}: 1 allowed`);
    const total = async () => {
      const { quotas } = (await api.call("GET", "/api/v1/quota")).body;
      return quotas.find(({ name }: { name: string }) => name === "zones").used;
    };
    const before = await total();
    const gone = await api.call("DELETE", `/api/v1/company/${renamed}`, { apikey: keyOf(crmId).key });
    expect(gone.status).toBe(200);
    expect(await total()).toBe(before - 1);
    await expectExact();
  });
});

describe("quotas as they are shown", () => {
  it("are a reseller's own, and those of its companies", async () => {
    const own = await api.call("GET", "/api/v1/quota");
    expect(own.body.quotas.map(({ name }: { name: string }) => name)).toEqual([
      ...["zones", "records", "octets", "signed_zones", "records_per_change", "changes_per_minute"],
      ...["zone_files_in_work", "acls", "tokens"],
    ]);
    expect(own.body.quotas.at(-2)).toEqual({ name: "acls", allowed: 1000, used: 0, default: true });
    await limit({ zones: 7 });
    const expected = { name: "zones", allowed: 7, used: 1, default: false };
    expect((await api.call("GET", `/api/v1/quota?crm_id=${crmId.toUpperCase()}`)).body.quotas[0]).toEqual(expected);
    expect((await api.call("GET", `/api/v1/company/${crmId}/quota`)).body.quotas[0]).toEqual(expected);
    expect((await api.call("GET", "/api/v1/quota", undefined, keyOf(crmId))).body.quotas[0]).toEqual(expected);
  });

  it("are nobody else's", async () => {
    await addCompany(`${crmId}-other`);
    const missing = (name: string) => ({ status: 400, body: { msg: `${name} does not exist` } });
    const other = await api.call("GET", `/api/v1/quota?crm_id=${crmId}-other`, undefined, keyOf(crmId));
    expect(other).toMatchObject(missing(`${crmId}-other`));
    const ofCompany = `/api/v1/company/${crmId}/quota`;
    expect(await api.call("GET", ofCompany, undefined, RESELLER_TWO)).toMatchObject(missing(crmId));
    expect((await api.call("GET", ofCompany, undefined, keyOf(crmId))).status).toBe(403);
  });
});
