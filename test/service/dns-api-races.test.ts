import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { decodeRecords } from "../../services/core/dns/record.ts";
import { type Answer, makeZone, type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
let zone: string;

beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());
beforeEach(async () => {
  zone = await makeZone(api);
});

const create = (record: object) => api.call("POST", `/api/v1/rr/${zone}`, record);
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status).sort();

test("of a CNAME and an A that race for a name, one wins", async () => {
  for (let round = 0; round < 20; round += 1) {
    const name = `name${round}`;
    const answers = await Promise.all([
      create({ name, type: "CNAME", value: "www" }),
      create({ name, type: "A", value: "192.0.2.1" }),
    ]);
    expect(statuses(answers)).toEqual([200, 400]);
  }
});

test("changes at the same moment never share a serial, and the journal holds each of them", async () => {
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) => create({ name: `h${index}`, type: "A", value: "192.0.2.1" })),
  );
  const serials = answers.map(({ body }) => body.serial).sort((a, b) => a - b);
  expect(serials).toEqual(Array.from({ length: 60 }, (_, index) => index + 2));
  const journal = await api.database
    .db("zone_journal")
    .join("zones", "zones.id", "zone_id")
    .where({ name: zone })
    .select("zone_journal.*")
    .orderBy("zone_journal.version");
  expect(journal.map(({ serial_before, serial }) => [serial_before, serial])).toEqual([
    [null, 1],
    ...serials.map((serial) => [serial - 1, serial]),
  ]);
  for (const { deleted, added } of journal.slice(1)) {
    expect(decodeRecords(deleted).map(({ type }) => type)).toEqual([6]);
    expect(decodeRecords(added).map(({ type }) => type)).toEqual([6, 1]);
  }
});

test("of many who create one record, modify or delete it, one wins", async () => {
  const record = { name: "one", type: "A", value: "192.0.2.1" };
  const made = await Promise.all(Array.from({ length: 10 }, () => create(record)));
  expect(made.filter(({ status }) => status === 200)).toHaveLength(1);
  const { rr_id } = made.find(({ status }) => status === 200)?.body ?? {};
  const removed = await Promise.all(
    Array.from({ length: 10 }, () => api.call("DELETE", `/api/v1/rr/${zone}/${rr_id}`)),
  );
  expect(removed.filter(({ status }) => status === 200)).toHaveLength(1);
});

test("the last NS records of an apex cannot be deleted by two at once", async () => {
  await create({ name: "@", type: "NS", value: "ns2.example.net." });
  const { rr } = (await api.call("GET", `/api/v1/rr/${zone}`)).body;
  const answers = await Promise.all(
    rr.map(({ rr_id }: { rr_id: number }) => api.call("DELETE", `/api/v1/rr/${zone}/${rr_id}`)),
  );
  expect(statuses(answers)).toEqual([200, 400]);
});

test("a calendar's last serials go to so many, and no more", async () => {
  api.clock.set("2026-11-20T12:00:00Z");
  zone = "calendar-race.example.org";
  const serial = { serial_type: "calendar", serial: 2026112090 };
  await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields(serial));
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => create({ name: `h${index}`, type: "A", value: "192.0.2.1" })),
  );
  expect(statuses(answers).filter((status) => status === 200)).toHaveLength(9);
  expect((await api.call("GET", `/api/v1/soa/${zone}`)).body.serial).toBe(2026112099);
});

test("one zone is created once, whoever asks", async () => {
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => api.call("POST", "/api/v1/master_zone/once.example.org", zoneFields())),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  const crm = { crm_id: "once", name: "Once", apikey: "once-api-key-0001" };
  const companies = await Promise.all(Array.from({ length: 10 }, () => api.call("POST", "/api/v1/company", crm)));
  expect(companies.filter(({ status }) => status === 200)).toHaveLength(1);
});

test("a company that is suspended, resumed and deleted amid changes leaves no zone behind", async () => {
  const company = { crm_id: "busy", name: "Busy", apikey: "busy-api-key-0001" };
  await api.call("POST", "/api/v1/company", company);
  const makeZone = (index: number) =>
    api.call("POST", `/api/v1/master_zone/busy${index}.example.org`, zoneFields({ crm_id: "busy" }));
  for (let index = 0; index < 5; index += 1) await makeZone(index);
  const record = (index: number) => ({ name: `h${index}`, type: "A", value: "192.0.2.1" });
  const answers = await Promise.all([
    ...Array.from({ length: 40 }, (_, index) =>
      api.call("POST", `/api/v1/rr/busy${index % 5}.example.org`, record(index)),
    ),
    ...[true, false, true].map((suspended) => api.call("PUT", "/api/v1/company/busy", { suspended })),
    ...Array.from({ length: 5 }, (_, index) => makeZone(index + 5)),
    api.call("DELETE", "/api/v1/company/busy", { apikey: "busy-api-key-0001" }),
  ]);
  for (const { status, text } of answers) expect([200, 400], text).toContain(status);
  const left = await api.database.db("zones").whereLike("name", "busy%").select("name");
  expect(left).toEqual([]);
});

test("a zone that is replaced and changed at the same time keeps serial, journal and records in step", async () => {
  const file = "@ NS ns1.example.net.\nfixed A 192.0.2.7\n";
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      index % 4 === 0
        ? api.call("PUT", `/api/v1/zone_file/${zone}`, file)
        : create({ name: `h${index}`, type: "A", value: "192.0.2.1" }),
    ),
  );
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  expect(new Set(answers.map(({ body }) => body.serial)).size).toBe(20);
  const journal = await api.database
    .db("zone_journal")
    .join("zones", "zones.id", "zone_id")
    .where({ name: zone })
    .select("zone_journal.deleted", "zone_journal.added")
    .orderBy("zone_journal.version");
  const key = ({ owner, type }: { owner: { key: string }; type: number }) => `${owner.key} ${type}`;
  const replayed = new Set<string>();
  for (const { deleted, added } of journal) {
    for (const record of decodeRecords(deleted)) expect(replayed.delete(key(record))).toBe(true);
    for (const record of decodeRecords(added)) replayed.add(key(record));
  }
  const { rr } = (await api.call("GET", `/api/v1/rr/${zone}`)).body;
  expect(rr).toHaveLength(replayed.size - 1);
});
