import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { decodeRecords } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { TogetherChanges } from "../../services/operations/dns/together-changes.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { findQuotaOwner, setLimits } from "../../services/store/dns/quota-settings.ts";
import { type Answer, makeZone, type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
let zones: string[];

beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());
beforeEach(async () => {
  zones = [];
  for (let index = 0; index < 12; index += 1) zones.push(await makeZone(api));
});

const create = (zone: string, name: string, value = "192.0.2.1") =>
  api.call("POST", `/api/v1/rr/${zone}`, { name, type: "A", value });
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);

interface JournalRow {
  readonly transaction: string;
  readonly version: number;
  readonly serial: number;
  readonly actor: string;
  readonly added: Buffer;
}

const journalOf = (names: readonly string[]) =>
  queryRows<JournalRow>(
    api.database.db,
    `select j.xmin::text as transaction, j.version, j.serial, j.actor, j.added from zone_journal j
       join zones z on z.id = j.zone_id where z.name = any($1::text[]) and j.version > 1 order by z.id, j.version`,
    [names],
  );

test("creations in many zones at the same time are written by a few transactions, each as it would be alone", async () => {
  const answers = await Promise.all(
    [1, 2, 3].flatMap((round) => zones.map((zone, index) => create(zone, `h${round}`, `192.0.2.${index}`))),
  );
  expect(new Set(statuses(answers))).toEqual(new Set([200]));
  for (const [index, zone] of zones.entries()) {
    const { body } = await api.call("GET", `/api/v1/rr/${zone}`);
    expect(body.serial).toBe(4);
    const made = answers.filter((_, place) => place % zones.length === index).map(({ body: { rr_id } }) => rr_id);
    const listed = body.rr.filter(({ type }: { type: string }) => type === "A");
    expect(listed.map(({ rr_id }: { rr_id: number }) => rr_id).sort()).toEqual(made.sort());
    for (const { value } of listed) expect(value).toBe(`192.0.2.${index}`);
  }
  const journal = await journalOf(zones);
  expect(journal.map(({ version, serial }) => [version, serial])).toEqual(
    zones.flatMap(() => [2, 3, 4].map((version) => [version, version])),
  );
  for (const { actor, added } of journal) {
    expect(actor).toBe("reseller:one");
    expect(decodeRecords(added).map(({ type }) => type)).toEqual([TYPE.SOA, TYPE.A]);
  }
  expect(new Set(journal.map(({ transaction }) => transaction)).size).toBeLessThan(journal.length);
});

test("what is refused is refused by itself, and those beside it are made", async () => {
  for (const zone of zones) await create(zone, "www");
  const answers = await Promise.all(
    zones.flatMap((zone, index) => [create(zone, index % 2 === 0 ? "www" : "other"), create("not-there.test", "www")]),
  );
  for (const [index, zone] of zones.entries()) {
    const [made, missing] = answers.slice(2 * index, 2 * index + 2) as [Answer, Answer];
    expect(made.status).toBe(index % 2 === 0 ? 400 : 200);
    expect([missing.status, missing.body.msg]).toEqual([400, "not-there.test does not exist"]);
    const { rr } = (await api.call("GET", `/api/v1/rr/${zone}`)).body;
    expect(rr.filter(({ type }: { type: string }) => type === "A")).toHaveLength(index % 2 === 0 ? 1 : 2);
  }
});

test("a company without room is refused with its quota, beside one that has it, and nothing is charged twice", async () => {
  const { db } = api.database;
  const company = { crm_id: "narrow", name: "Narrow", apikey: "narrow-api-key-0001" };
  await api.call("POST", "/api/v1/company", company);
  const narrow = ["narrow1.example.org", "narrow2.example.org", "narrow3.example.org"];
  for (const zone of narrow) {
    await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields({ crm_id: "narrow" }));
  }
  const { quotas } = (await api.call("GET", "/api/v1/company/narrow/quota")).body;
  const before = quotas.find(({ name }: { name: string }) => name === "records").used;
  await setLimits(db, (await findQuotaOwner(db, "one", "narrow"))!, { records: before + 2 });
  const answers = await Promise.all([...narrow, ...zones].map((zone) => create(zone, "www")));
  expect(statuses(answers.slice(0, 3)).sort()).toEqual([200, 200, 400]);
  expect(answers.find(({ status }) => status === 400)!.body.msg).toContain("records");
  expect(new Set(statuses(answers.slice(3)))).toEqual(new Set([200]));
  const after = (await api.call("GET", "/api/v1/company/narrow/quota")).body.quotas;
  expect(after.find(({ name }: { name: string }) => name === "records").used).toBe(before + 2);
  const [sums] = await queryRows<{ charged: number; held: number }>(
    db,
    `select (select q.records from quotas q join companies c on c.id = q.company_id where c.crm_id = 'acme') as charged,
            (select sum(z.records_held)::bigint from zones z join companies c on c.id = z.company_id
              where c.crm_id = 'acme') as held`,
  );
  expect(sums!.charged).toBe(sums!.held);
});

test("a zone that somebody has locked keeps no other zone waiting", async () => {
  const [locked, ...others] = zones as [string, ...string[]];
  for (const zone of zones) await create(zone, "first");
  const { db } = api.database;
  let waiting: Promise<Answer> | undefined;
  await db.transaction(async (transaction) => {
    await queryRows(transaction, "select 1 from zones where name = $1 for update", [locked]);
    waiting = create(locked, "late");
    const answers = await Promise.all(others.map((zone) => create(zone, "now")));
    expect(new Set(statuses(answers))).toEqual(new Set([200]));
    expect(await Promise.race([waiting, "waits"])).toBe("waits");
  });
  expect((await waiting!).status).toBe(200);
});

test("processes that change the same zones at the same time share no serial", async () => {
  const { db } = api.database;
  const processes = [new TogetherChanges(db), new TogetherChanges(db)];
  const changes = zones.flatMap((domain) =>
    processes.map((together, index) => {
      const apex = nameOf(domain);
      const target = { scope: { resellerId: "one" }, apex, domain, actor: "test", together };
      const creation = {
        owner: nameOf(`p${index}`, apex),
        type: TYPE.A,
        ttl: 300,
        rdata: Uint8Array.of(192, 0, 2, index),
      };
      return changeRecords(db, target, { creations: [creation], modifications: [], deletionIds: [] }, new Date());
    }),
  );
  for (const changed of await Promise.all(changes)) expect(changed.ok).toBe(true);
  expect((await journalOf(zones)).map(({ serial }) => serial)).toEqual(zones.flatMap(() => [2, 3]));
});

function nameOf(text: string, origin?: DomainName): DomainName {
  const name = parseDomainName(text, origin);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}
