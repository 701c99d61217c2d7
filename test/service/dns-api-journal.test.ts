import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startJournalUpkeep } from "../../services/dns-api/journal-upkeep.ts";
import { registry } from "../../services/platform/observability/metrics.ts";
import { readZoneDifference } from "../../services/store/dns/transfer-differences.ts";
import { boundJournal, pruneJournals } from "../../services/store/dns/zone-journal.ts";
import { type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

const LONG_AGO = new Date("2020-01-01T00:00:00Z");

let api: RunningApi;
beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());

const serials = async (zone: string): Promise<number[]> =>
  (await api.call("GET", `/api/v1/zone_history/${zone}`)).body.history.map(({ serial }: { serial: number }) => serial);

/** A zone whose changes up to a serial are old. */
async function makeZone(name: string, oldSerial: number): Promise<number> {
  await api.call("POST", `/api/v1/master_zone/${name}`, zoneFields());
  for (let index = 0; index < 6; index += 1) {
    await api.call("POST", `/api/v1/rr/${name}`, { name: `h${index}`, type: "A", value: "192.0.2.1" });
  }
  const { db } = api.database;
  const { id } = await db("zones").where({ name }).first("id");
  await db("zone_journal").where({ zone_id: id }).where("serial", "<=", oldSerial).update({ at: LONG_AGO });
  return id;
}

test("old changes go, young ones and the latest of each zone stay, and what is left serves transfers", async () => {
  const busy = await makeZone("busy.example.org", 5);
  const quiet = await makeZone("quiet.example.org", 7);
  const { db } = api.database;
  const removed = await pruneJournals(db, { before: new Date("2021-01-01"), versions: 2 }, () => false);
  expect(removed).toBe(5 + 5);
  expect(await serials("busy.example.org")).toEqual([7, 6]);
  expect(await serials("quiet.example.org")).toEqual([7, 6]);
  expect(await pruneJournals(db, { before: new Date("2021-01-01"), versions: 2 }, () => false)).toBe(0);
  expect(await readZoneDifference(db, busy, 5, async () => true)).toMatchObject({
    kind: "difference",
    added: [{ type: 1 }, { type: 1 }],
  });
  expect(await readZoneDifference(db, quiet, 4, async () => true)).toMatchObject({ kind: "whole-zone" });
});

test("a zone that was made anew leads on from no serial that the one before it may have had", async () => {
  const name = "again.example.org";
  await makeZone(name, 0);
  await api.call("DELETE", `/api/v1/master_zone/${name}`);
  const again = await makeZone(name, 0);
  const { db } = api.database;
  // Both have been at 1 to 7.
  expect(await readZoneDifference(db, again, 6, async () => true)).toMatchObject({ kind: "whole-zone" });
  await api.call("POST", `/api/v1/rr/${name}`, { name: "h7", type: "A", value: "192.0.2.1" });
  expect(await readZoneDifference(db, again, 7, async () => true)).toMatchObject({ kind: "whole-zone" });
  await api.call("POST", `/api/v1/rr/${name}`, { name: "h8", type: "A", value: "192.0.2.1" });
  expect(await readZoneDifference(db, again, 8, async () => true)).toMatchObject({
    kind: "difference",
    added: [{ type: 1 }],
  });
  // Of one that was deleted before its serial was kept nothing is known.
  await db("zone_deletions").where({ serial: 7 }).update({ serial: null });
  expect(await readZoneDifference(db, again, 8, async () => true)).toMatchObject({ kind: "whole-zone" });
});

test("the upkeep does it by the settings, counts it, and forgets old deletions", async () => {
  await makeZone("kept.example.org", 7);
  const { db } = api.database;
  await db("zone_deletions").insert({ zone_id: 1, apex: Buffer.from([0]), deleted_at: LONG_AGO });
  await api.call("POST", "/api/v1/master_zone/gone.example.org", zoneFields());
  await api.call("DELETE", "/api/v1/master_zone/gone.example.org");
  const keep = { journalDays: 30, journalVersions: 3 };
  const upkeep = startJournalUpkeep({ db, clock: api.clock, observe: () => {}, keep, everyMs: 50 });
  while ((await serials("kept.example.org")).length > 3) await sleep(50);
  await upkeep.stop();
  expect(await serials("kept.example.org")).toEqual([7, 6, 5]);
  expect(await registry.getSingleMetric("palomar_zone_journal_rows_removed_total")?.get()).toMatchObject({
    values: [{ value: expect.any(Number) }],
  });
  expect(await db("zone_deletions").where({ deleted_at: LONG_AGO })).toEqual([]);
  expect(await db("zone_deletions").where({ serial: 1 })).toHaveLength(1);
});

test("a journal that takes too much loses its oldest versions, and keeps the newest whatever that takes", async () => {
  const { db } = api.database;
  const id = await makeZone("large.example.org", 0);
  const [{ octets }] = await db("zone_journal")
    .where({ zone_id: id })
    .orderBy("version", "desc")
    .limit(1)
    .select(db.raw("(octet_length(deleted) + octet_length(added))::int as octets"));
  expect(await boundJournal(db, id, 2 * octets)).toBe(5);
  expect(await serials("large.example.org")).toEqual([7, 6]);
  expect(await boundJournal(db, id, 1)).toBe(1);
  expect(await serials("large.example.org")).toEqual([7]);
});

test("a zone that is replaced by large files again and again takes no more of the disk", {
  timeout: 300_000,
}, async () => {
  const { db } = api.database;
  const name = "replaced.example.org";
  await api.call("POST", `/api/v1/master_zone/${name}`, zoneFields());
  const { id } = await db("zones").where({ name }).first("id");
  // A version of some 50 MiB: 10,500 long texts go and as many come.
  const text = (letter: string) =>
    `@ NS ns1.example.net.\n$GENERATE 1-10500 t$ TXT ${`"${letter.repeat(240)}" `.repeat(10)}\n`;
  for (const letter of "abcdefg") {
    const answer = await api.call("PUT", `/api/v1/zone_file/${name}`, text(letter));
    expect(answer.status).toBe(200);
  }
  const [{ octets }] = await db("zone_journal")
    .where({ zone_id: id })
    .select(db.raw("sum(octet_length(deleted) + octet_length(added))::int as octets"));
  expect(octets).toBeGreaterThan(128 * 2 ** 20);
  expect(octets).toBeLessThanOrEqual(256 * 2 ** 20);
});
