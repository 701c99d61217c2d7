import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import type { RecordEdits } from "../../services/core/dns/zone-edit.ts";
import { startSigningUpkeep } from "../../services/dns-api/signing-upkeep.ts";
import { ZoneAnnouncer } from "../../services/dns-api/zone-announcer.ts";
import { importZone, replaceZone } from "../../services/operations/dns/zone-files.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { rollBackZone } from "../../services/operations/dns/zone-rollback.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import { repairZone } from "../../services/operations/dns/zone-signing-repair.ts";
import { disableSigning, enableSigning } from "../../services/operations/dns/zone-signing-switch.ts";
import { changeSoa } from "../../services/operations/dns/zone-soa.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { listUncheckedZones } from "../../services/store/dns/dnssec-zones.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { REPAIR_ACTOR, readHistory } from "../../services/store/dns/zone-history.ts";
import { findAnyZone, type Zone } from "../../services/store/dns/zones.ts";
import { readSigningStatus } from "../../services/store/status.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, eventually, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";

const NO_EDITS: RecordEdits = { creations: [], modifications: [], deletionIds: [] };

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterAll(() => database.drop());

function targetOf(zone: string) {
  return { scope: SCOPE, apex: nameOf(zone), domain: zone, actor: "test", signer: SIGNER };
}

function file(records: readonly string[], minimum = 60): string {
  return `$TTL 300\n@ SOA ns1 hostmaster 1 7200 3600 1209600 ${minimum}\n@ NS ns.example.net.\n${records.join("\n")}\n`;
}

async function zoneOf(name: string): Promise<Zone> {
  return (await findAnyZone(database.db, nameOf(name)))!;
}

async function expectSound(name: string): Promise<void> {
  const exported = await exportSignedZone(database.db, (snapshot) => findAnyZone(snapshot, nameOf(name)));
  expect(complaintsAbout(name, exported!.text)).toEqual({});
}

async function makeSigned(name: string, denial: "nsec" | "nsec3", records: readonly string[]): Promise<void> {
  await putZone(database, name, ["@ NS ns.example.net.", ...records]);
  expect(await enableSigning(database.db, targetOf(name), { denial })).toMatchObject({ ok: true });
}

async function put(name: string, text: string): Promise<void> {
  expect(await replaceZone(database.db, targetOf(name), { text }, new Date())).toMatchObject({ ok: true });
}

async function setMinimum(name: string, minimum: number): Promise<void> {
  const { soa, ttl } = await zoneOf(name);
  const wanted = { crmId: "company", soa: { ...soa, minimum }, ttl };
  expect(await changeSoa(database.db, targetOf(name), wanted, new Date())).toMatchObject({ ok: true });
}

async function create(name: string, owner: string, type: number = TYPE.A, value = "192.0.2.9"): Promise<void> {
  const rdata = parseRdata(type, value, nameOf(name), "value");
  if (!rdata.ok) throw new Error(rdata.error.message);
  const draft = { owner: nameOf(`${owner}.${name}`), type, ttl: undefined, rdata: rdata.value };
  const edits = { ...NO_EDITS, creations: [draft] };
  expect(await changeRecords(database.db, targetOf(name), edits, new Date())).toMatchObject({ ok: true });
}

async function remove(name: string, isGone: (owner: string) => boolean): Promise<void> {
  const records = await readAllRecords(database.db, (await zoneOf(name)).id);
  const gone = records.filter(({ owner }) => isGone(owner.key));
  const edits = { ...NO_EDITS, deletionIds: gone.map(({ id }) => id) };
  expect(await changeRecords(database.db, targetOf(name), edits, new Date())).toMatchObject({ ok: true });
}

const hosts = (count: number) => Array.from({ length: count }, (_, index) => `h${index} A 192.0.2.1`);

describe.each(["nsec", "nsec3"] as const)("a zone signed with %s of which names leave", (denial) => {
  it("by a file that changes the SOA's minimum has nothing left of them", async () => {
    const name = `file-${denial}.example.org`;
    await makeSigned(name, denial, ["a A 192.0.2.1", "b A 192.0.2.2", "x.y.ent A 192.0.2.3", "*.w TXT any"]);
    await put(name, file(["a A 192.0.2.1"], 30));
    await expectSound(name);
    await create(name, "b");
    await expectSound(name);
  });

  it("by a rollback over a change of the minimum has nothing left of them", async () => {
    const name = `rollback-${denial}.example.org`;
    await makeSigned(name, denial, ["a A 192.0.2.1"]);
    const { serial } = (await zoneOf(name)).soa;
    await setMinimum(name, 30);
    await create(name, "new");
    expect(await rollBackZone(database.db, targetOf(name), serial, new Date())).toMatchObject({ ok: true });
    await expectSound(name);
  });

  it("by the thousand has nothing left of them, neither by a file nor by a batch", async () => {
    const name = `large-${denial}.example.org`;
    await makeSigned(name, denial, hosts(2_500));
    await put(name, file(hosts(300)));
    await expectSound(name);
    await put(name, file(hosts(2_500)));
    await expectSound(name);
    await remove(name, (key) => key.startsWith("\u0005") || key.startsWith("\u0004"));
    await expectSound(name);
  });

  it("while a cut goes that hid others, in a step that goes through the whole zone, is sound", async () => {
    const name = `cut-${denial}.example.org`;
    await makeSigned(name, denial, [
      "sub NS ns.example.net.",
      "ns.sub A 192.0.2.1",
      "x.y.sub A 192.0.2.2",
      "d DNAME e",
      "f.d A 192.0.2.3",
    ]);
    await put(name, file(["ns.sub A 192.0.2.1", "x.y.sub A 192.0.2.2", "f.d A 192.0.2.3"], 30));
    await expectSound(name);
    await put(name, file(["sub NS ns.example.net.", "x.y.sub A 192.0.2.2"], 20));
    await expectSound(name);
  });

  it("while the denial is switched, and off and on again, is sound", async () => {
    const name = `switch-${denial}.example.org`;
    await makeSigned(name, denial, ["a A 192.0.2.1", "b.c A 192.0.2.2"]);
    await Promise.all([
      create(name, "q"),
      enableSigning(database.db, targetOf(name), { denial: denial === "nsec" ? "nsec3" : "nsec" }),
      put(name, file(["a A 192.0.2.1", "z A 192.0.2.3"], 30)),
    ]);
    await expectSound(name);
    await disableSigning(database.db, targetOf(name), { force: true });
    expect(await readAllDerived(database.db, (await zoneOf(name)).id)).toEqual([]);
    await put(name, file(["z A 192.0.2.3"], 10));
    await enableSigning(database.db, targetOf(name), { denial });
    await expectSound(name);
  });

  it("by an import over it has nothing left of them", async () => {
    const name = `import-${denial}.example.org`;
    await makeSigned(name, denial, ["a A 192.0.2.1", "b A 192.0.2.2"]);
    const owner = { resellerId: SCOPE.resellerId, crmId: "company" };
    const imported = await importZone(database.db, owner, targetOf(name), {
      text: file(["c A 192.0.2.1"], 30),
      now: new Date(),
    });
    expect(imported).toMatchObject({ ok: true });
    await expectSound(name);
  });
});

/** Leaves in a zone what a fault in signing might: the chain and the signatures of a name that is gone. */
async function leaveRemains(name: string): Promise<void> {
  const { id } = await zoneOf(name);
  await database
    .db("records")
    .where({ zone_id: id })
    .whereRaw("owner_key = (select owner_key from derived_records where zone_id = ? and owner like ? limit 1)", [
      id,
      Buffer.from("\u0001b%"),
    ])
    .delete();
  await database.db("zone_signing").where({ zone_id: id }).update({ checked_at: null });
}

describe.each(["nsec", "nsec3"] as const)("a zone signed with %s that has remains of names that are gone", (denial) => {
  it("is found at the first start and made right once, with a line in its history", async () => {
    const name = `remains-${denial}.example.org`;
    const sound = `sound-${denial}.example.org`;
    for (const zone of [name, sound]) await makeSigned(zone, denial, ["a A 192.0.2.1", "b A 192.0.2.2"]);
    await leaveRemains(name);
    await database.db("zone_signing").update({ checked_at: null });
    await expect(expectSound(name)).rejects.toThrow();
    const before = await zoneOf(sound);
    const observations: Observation[] = [];
    const observe = (observation: Observation) => void observations.push(observation);
    const announcer = new ZoneAnnouncer(database.db, observe);
    const lookUpDs = async () => undefined;
    const upkeep = startSigningUpkeep({ db: database.db, signer: SIGNER, lookUpDs, announcer, observe, everyMs: 20 });
    await eventually(async () => (await listUncheckedZones(database.db, new Date(0), 10)).length === 0, 60_000);
    await upkeep.stop();
    await expectSound(name);
    const [entry] = await readHistory(database.db, (await zoneOf(name)).id, undefined, 1);
    expect(entry).toMatchObject({ actor: REPAIR_ACTOR, serial: (await zoneOf(name)).soa.serial });
    expect(observations.filter(({ kind }) => kind === "zone-repaired")).toMatchObject([{ zone: name, level: "warn" }]);
    expect((await zoneOf(sound)).version).toBe(before.version);
    expect(await repairZone(database.db, nameOf(name), SIGNER)).toBeUndefined();
    await announcer.drained();
  });
});

describe.each(["nsec", "nsec3"] as const)("a zone signed with %s that is as it should be", (denial) => {
  it("is left alone, in whatever case its names came one after the other", async () => {
    const name = `cases-${denial}.example.org`;
    await makeSigned(name, denial, ["b A 192.0.2.1", "z.Ent A 192.0.2.1"]);
    await create(name, "B", TYPE.TXT, "second");
    await create(name, "Z.eNT", TYPE.TXT, "second");
    expect(await repairZone(database.db, nameOf(name), SIGNER)).toBeUndefined();
  });
});

describe("a zone whose keys cannot be opened", () => {
  it("keeps no other from being looked at", async () => {
    const [broken, other] = ["broken-keys.example.org", "other-keys.example.org"];
    for (const zone of [broken, other]) await makeSigned(zone, "nsec", ["a A 192.0.2.1", "b A 192.0.2.2"]);
    await database
      .db("zone_keys")
      .where({ zone_id: (await zoneOf(broken)).id })
      .update({ private_key_sealed: "junk" });
    const nameless = "nameless.example.org";
    await makeSigned(nameless, "nsec", ["a A 192.0.2.1"]);
    await database
      .db("zones")
      .where({ name: nameless })
      .update({ apex: Buffer.from("3f00", "hex") });
    await database.db("zone_signing").update({ checked_at: null });
    await database
      .db("zone_signing")
      .whereIn("zone_id", database.db("zones").where({ name: nameless }).select("id"))
      .update({ due_at: new Date(0) });
    await leaveRemains(other);
    const observations: Observation[] = [];
    const observe = (observation: Observation) => void observations.push(observation);
    const announcer = new ZoneAnnouncer(database.db, observe);
    const lookUpDs = async () => undefined;
    let aheadMs = 0;
    const signer = { ...SIGNER, clock: { nowMs: () => SIGNER.clock.nowMs() + aheadMs } };
    const upkeep = startSigningUpkeep({ db: database.db, signer, lookUpDs, announcer, observe, everyMs: 20 });
    await eventually(async () => (await listUncheckedZones(database.db, new Date(0), 10)).length === 0, 60_000);
    const failures = () => observations.filter(({ kind }) => kind === "zone-signing-failed");
    expect(failures()).toMatchObject([{ zone: nameless }]);
    // It is tried again later, and all see meanwhile that it waits.
    aheadMs = 60_000;
    await eventually(async () => failures().length === 2, 60_000);
    await upkeep.stop();
    expect((await readSigningStatus(database.db)).overdueSeconds).toBeGreaterThan(1_000_000);
    await announcer.drained();
    await expectSound(other);
    expect(observations.filter(({ kind }) => kind === "zone-check-failed")).toMatchObject([
      { zone: broken },
      { zone: nameless },
    ]);
  });
});
