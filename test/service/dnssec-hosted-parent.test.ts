import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dnskeyOf } from "../../services/core/dns/dnssec/apex-records.ts";
import { dsRdata, readDsKeyTag } from "../../services/core/dns/dnssec/dnskey.ts";
import { formatRdata } from "../../services/core/dns/rdata/rdata.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { addCompany, deleteCompany } from "../../services/operations/dns/companies.ts";
import { cdsActor, readHostedDs } from "../../services/operations/dns/dnssec-hosted-parent.ts";
import { setDsAutomatic, updateHostedParent, wishForDs } from "../../services/operations/dns/dnssec-parent.ts";
import { deleteZone } from "../../services/operations/dns/zone-deletion.ts";
import { importZone } from "../../services/operations/dns/zone-files.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import type { SigningTarget } from "../../services/operations/dns/zone-signing-state.ts";
import {
  disableSigning,
  enableSigning,
  type SigningWish,
  startRollover,
} from "../../services/operations/dns/zone-signing-switch.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import { readSigning, type StoredKey } from "../../services/store/dns/dnssec-keys.ts";
import { readRecordsAt } from "../../services/store/dns/records.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { readHistory } from "../../services/store/dns/zone-history.ts";
import { findAnyZone, type Zone } from "../../services/store/dns/zones.ts";
import { withAnswers } from "../support/answered-octets.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone, putZoneFile, SCOPE, SIGNER, suspendZone } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { SIGNING_PROGRAM, signZone } from "../support/signed-zones.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const CHILD = ["@ NS ns1", "ns1 A 192.0.2.54"];
const PARENT = ["@ NS ns1", "ns1 A 192.0.2.53", "sub NS ns1.sub", "ns1.sub A 192.0.2.54"];

let database: TestDatabase;
let nowMs: number;
const signer = { ...SIGNER, clock: { nowMs: () => nowMs } };

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  nowMs = Date.now();
});
afterAll(() => database.drop());

/** A parent and a child that it delegates, both signed. */
async function putPair(parent: string, wish: SigningWish = {}): Promise<{ child: SigningTarget; parentName: string }> {
  await putZone(database, parent, PARENT);
  await putZone(database, `sub.${parent}`, CHILD);
  expect(await enableSigning(database.db, targetOf(parent), {})).toMatchObject({ ok: true });
  const child = targetOf(`sub.${parent}`);
  expect(await enableSigning(database.db, child, wish)).toMatchObject({ ok: true });
  return { child, parentName: parent };
}

function targetOf(domain: string): SigningTarget {
  return { scope: SCOPE, apex: nameOf(domain), domain, actor: "test", signer };
}

async function zoneOf(domain: string): Promise<Zone> {
  return (await findAnyZone(database.db, nameOf(domain)))!;
}

async function keysOf({ domain }: SigningTarget): Promise<readonly StoredKey[]> {
  return (await readSigning(database.db, (await zoneOf(domain)).id))!.keys;
}

/** Tags of the DS records that the parent has for `sub`. */
async function dsTags(parent: string): Promise<number[]> {
  const records = await readRecordsAt(database.db, (await zoneOf(parent)).id, [nameOf(`sub.${parent}`)]);
  return records.filter(({ type }) => type === TYPE.DS).map(({ rdata }) => readDsKeyTag(rdata));
}

/** The DS of a zone's only key. */
async function dsText(target: SigningTarget): Promise<string> {
  const [key] = await keysOf(target);
  return formatRdata(TYPE.DS, dsRdata(target.apex, dnskeyOf(key!)));
}

/** Lets time pass for a zone, whose parent nobody else can be asked for. */
async function pass({ apex }: SigningTarget, ms: number): Promise<string[]> {
  nowMs += ms;
  const changed = await maintainZone(database.db, apex, { signer, lookUpDs: async () => undefined });
  return changed.map(({ name }) => name);
}

async function expectSound(domain: string): Promise<void> {
  const exported = await exportSignedZone(database.db, (on) => findAnyZone(on, nameOf(domain)));
  expect(complaintsAbout(domain, exported!.text, new Date(nowMs))).toEqual({});
}

describe("a parent that is hosted here for the same company", () => {
  it("is asked for what it has of the delegation alone, whatever else stands at that name", async () => {
    const { child, parentName } = await putPair("heavy.example");
    const other = (type: number) => `sub TYPE${type} \\# 30000 ${"41".repeat(30_000)}`;
    await putZone(database, parentName, [...PARENT, ...Array.from({ length: 40 }, (_, index) => other(1_000 + index))]);
    const { value, largest } = await withAnswers(() => readHostedDs(database.db, child.apex));
    expect(value).toMatchObject({ records: [], authenticated: true });
    expect(largest).toBeLessThan(10_000);
    expect((await withAnswers(() => pass(child, 3 * HOUR))).value).toContain(parentName);
  });

  it("has the first DS, follows a rollover, and loses it when it is not wanted any more", async () => {
    const { child, parentName } = await putPair("follow.example", { layout: "ksk-zsk" });
    expect(await dsTags(parentName)).toEqual([]);
    const before = await zoneOf(parentName);
    // When no cache has the child without signatures.
    expect(await pass(child, 3 * HOUR)).toEqual([child.domain, parentName]);
    const [first] = await keysOf(child);
    expect(first).toMatchObject({ role: "ksk", state: "active", hasDs: true });
    expect(await dsTags(parentName)).toEqual([first!.keyTag]);
    await expectSound(parentName);
    await expectSound(child.domain);

    const after = await zoneOf(parentName);
    expect(after.soa.serial).toBe(before.soa.serial + 1);
    const [change] = await readHistory(database.db, after.id, undefined, 1);
    expect(change).toMatchObject({ serial: after.soa.serial, actor: cdsActor(child.apex) });
    expect([...change!.added].map(({ type }) => type)).toEqual([TYPE.SOA, TYPE.DS]);
    expect(await pass(child, HOUR)).toEqual([]);

    expect(await startRollover(database.db, child, { roles: ["ksk"], algorithm: 13 })).toMatchObject({ ok: true });
    expect(await dsTags(parentName)).toEqual([first!.keyTag]);
    await pass(child, 3 * HOUR);
    const second = (await keysOf(child)).find(({ role, state }) => role === "ksk" && state === "active")!;
    expect(second.keyTag).not.toBe(first!.keyTag);
    expect(await dsTags(parentName)).toEqual([second.keyTag]);
    expect((await keysOf(child)).find(({ keyTag }) => keyTag === first!.keyTag)).toMatchObject({ state: "retired" });
    await pass(child, 2 * DAY);
    expect((await keysOf(child)).map(({ keyTag }) => keyTag)).not.toContain(first!.keyTag);

    expect(await disableSigning(database.db, child, { force: false })).toMatchObject({ ok: false });
    expect(await wishForDs(database.db, child, false)).toMatchObject({ ok: true });
    expect((await updateHostedParent(database.db, child))?.name).toBe(parentName);
    expect(await dsTags(parentName)).toEqual([]);
    await expectSound(parentName);
    // A key that a DS points to cannot come now; one that none points to may, and brings no DS back.
    expect(await startRollover(database.db, child, { roles: ["ksk"], algorithm: 13 })).toMatchObject({ ok: false });
    expect(await startRollover(database.db, child, { roles: ["zsk"], algorithm: 13 })).toMatchObject({ ok: true });
    await updateHostedParent(database.db, child);
    expect(await dsTags(parentName)).toEqual([]);
    expect(await disableSigning(database.db, child, { force: false })).toMatchObject({
      error: { message: expect.stringContaining("caches may have the DS") },
    });
    nowMs += 2 * DAY;
    expect(await disableSigning(database.db, child, { force: false })).toMatchObject({ ok: true });
  });

  it("follows a rollover of the algorithm, and gets back what a zone file left out", async () => {
    const { child, parentName } = await putPair("algorithm.example");
    await pass(child, 3 * HOUR);
    const [old] = await keysOf(child);
    await putZone(database, parentName, PARENT);
    expect(await dsTags(parentName)).toEqual([]);
    await pass(child, DAY);
    expect(await dsTags(parentName)).toEqual([old!.keyTag]);
    await startRollover(database.db, child, { roles: ["csk"], algorithm: 15 });
    await pass(child, 2 * HOUR);
    expect(await dsTags(parentName)).toEqual([old!.keyTag]);
    await pass(child, 2 * HOUR);
    const next = (await keysOf(child)).find(({ algorithm }) => algorithm === 15)!;
    expect(next.state).toBe("active");
    expect(await dsTags(parentName)).toEqual([next.keyTag]);
    for (const hours of [26, 2]) await pass(child, hours * HOUR);
    expect((await keysOf(child)).map(({ keyTag }) => keyTag)).toEqual([next.keyTag]);
    await expectSound(child.domain);
  });

  it("is left alone where that is switched off, until it is switched on again", async () => {
    const { child, parentName } = await putPair("off.example");
    await setDsAutomatic(database.db, child, false);
    await pass(child, 3 * HOUR);
    expect(await dsTags(parentName)).toEqual([]);
    expect((await keysOf(child))[0]!.state).toBe("ready");
    await setDsAutomatic(database.db, child, true);
    await pass(child, HOUR);
    expect(await dsTags(parentName)).toHaveLength(1);
  });

  it("is left alone where it does not delegate the name", async () => {
    const { child, parentName } = await putPair("undelegated.example");
    await putZone(database, parentName, PARENT.slice(0, 2));
    await pass(child, 3 * HOUR);
    expect(await dsTags(parentName)).toEqual([]);
  });

  it.each([
    ["to others", ["sub NS ns.old.test."]],
    ["to others as well", ["sub NS ns1.sub", "ns1.sub A 192.0.2.54", "sub NS ns.old.test."]],
  ])("keeps another's DS, and gets none, where it delegates the name %s, until that ends", async (_, delegation) => {
    const { child, parentName } = await putPair(`coming-${delegation.length}.example`);
    const other = `sub DS 1 13 2 ${"AB".repeat(32)}`;
    await putZone(database, parentName, [...PARENT.slice(0, 2), ...delegation, other]);
    await pass(child, 3 * HOUR);
    expect(await dsTags(parentName)).toEqual([1]);
    const [key] = await keysOf(child);
    expect(key!.state).toBe("ready");

    await putZone(database, parentName, [...PARENT, other]);
    await pass(child, HOUR);
    expect((await keysOf(child))[0]).toMatchObject({ state: "active", hasDs: true });
    // The other's stays beside it, for caches that still lead there.
    expect((await dsTags(parentName)).sort()).toEqual([1, key!.keyTag].sort());
    await expectSound(parentName);
  });

  it("keeps the DS of where a zone goes to, also when the zone names the servers there, and loses only its own", async () => {
    const { child, parentName } = await putPair("going.example");
    await pass(child, 3 * HOUR);
    const [key] = await keysOf(child);
    expect(await dsTags(parentName)).toEqual([key!.keyTag]);
    const other = `sub DS 1 13 2 ${"AB".repeat(32)}`;
    const gone = [...PARENT.slice(0, 2), "sub NS ns.new.test.", other];
    await putZone(database, parentName, gone);
    await pass(child, DAY);
    expect(await dsTags(parentName)).toEqual([1]);
    await putZone(database, parentName, [...gone, `sub DS ${await dsText(child)}`]);
    await putZone(database, child.domain, ["@ NS ns.new.test."]);
    await pass(child, DAY);
    expect((await dsTags(parentName)).sort()).toEqual([1, key!.keyTag].sort());
    // Withdrawn, it goes wherever the name is delegated to.
    await putZone(database, child.domain, CHILD);
    expect(await wishForDs(database.db, child, false)).toMatchObject({ ok: true });
    expect((await updateHostedParent(database.db, child))?.name).toBe(parentName);
    expect(await dsTags(parentName)).toEqual([1]);
  });

  it("loses the DS of a zone that is deleted, and keeps others of that name", async () => {
    const { child, parentName } = await putPair("deleted.example");
    await pass(child, 3 * HOUR);
    // One for where the zone goes to.
    const other = `sub DS 1 13 2 ${"AB".repeat(32)}`;
    await putZone(database, parentName, [...PARENT, other, `sub DS ${await dsText(child)}`]);
    const before = await zoneOf(parentName);
    expect(await deleteZone(database.db, child)).toMatchObject({ ok: true, value: { parentIds: [before.id] } });
    expect(await dsTags(parentName)).toEqual([1]);
    const after = await zoneOf(parentName);
    expect(after.soa.serial).toBe(before.soa.serial + 1);
    const [change] = await readHistory(database.db, after.id, undefined, 1);
    expect(change).toMatchObject({ actor: cdsActor(child.apex), serial: after.soa.serial });
    await expectSound(parentName);
  });

  it("loses the DS although it is suspended and its calendar is used up", async () => {
    const { child, parentName } = await putPair("full.example");
    await pass(child, 3 * HOUR);
    const day = Number(new Date(nowMs).toISOString().slice(0, 10).replaceAll("-", "")) * 100 + 99;
    await database.db("zones").where({ name: parentName }).update({ serial_type: "calendar", serial: day });
    await suspendZone(database, parentName, true);
    expect(await dsTags(parentName)).toHaveLength(1);
    expect(await deleteZone(database.db, child)).toMatchObject({ ok: true });
    expect(await dsTags(parentName)).toEqual([]);
    expect((await zoneOf(parentName)).soa.serial).toBe(day + 1);
  });

  it("keeps the DS of a zone that is suspended, and of a deleted one whose DS is not to follow by itself", async () => {
    const { child, parentName } = await putPair("kept.example");
    await pass(child, 3 * HOUR);
    await suspendZone(database, child.domain, true);
    await pass(child, DAY);
    expect(await dsTags(parentName)).toHaveLength(1);
    await setDsAutomatic(database.db, child, false);
    expect(await deleteZone(database.db, child)).toMatchObject({ ok: true, value: { parentIds: [] } });
    expect(await dsTags(parentName)).toHaveLength(1);
  });

  it("loses the DS with the company of the zones below, while it is worked on", async () => {
    const { child, parentName } = await putPair("company.example");
    await pass(child, 3 * HOUR);
    const company = { resellerId: SCOPE.resellerId, crmId: "leaving" };
    await addCompany(database.db, SIGNER.keyRing, { ...company, name: "L", apikey: "leavingkey" });
    const row = await database
      .db("companies")
      .where({ reseller_id: company.resellerId, crm_id: company.crmId })
      .first();
    await database.db("zones").where({ name: child.domain }).update({ company_id: row.id });
    const work = Array.from({ length: 5 }, () => updateHostedParent(database.db, child));
    const gone = await deleteCompany(database.db, signer, company, "leavingkey");
    await Promise.all(work);
    const [childId, parentId] = [expect.any(Number), (await zoneOf(parentName)).id];
    expect(gone).toEqual({ ok: true, value: { zoneIds: [childId], parentIds: [parentId] } });
    expect(await dsTags(parentName)).toEqual([]);
  });

  const missing = isInstalled(SIGNING_PROGRAM) ? "" : ` (skipped: ${SIGNING_PROGRAM} is not installed)`;
  it.skipIf(missing !== "")(`is left alone where it came with signatures of its own${missing}`, async () => {
    const parent = "presigned.example";
    const text = `$TTL 300\n@ SOA ns1 hostmaster 7 7200 3600 1209600 60\n${PARENT.join("\n")}\n`;
    await putZoneFile(database, parent, signZone(parent, text, "nsec").text);
    await putZone(database, `sub.${parent}`, CHILD);
    const child = targetOf(`sub.${parent}`);
    await enableSigning(database.db, child, {});
    await pass(child, 3 * HOUR);
    expect(await dsTags(parent)).toEqual([]);
  });
});

describe("a zone below another company's", () => {
  /** A signed parent of the usual company, and a signed child of another one of the same reseller. */
  async function putStrangers(parent: string, madeBy: "reseller" | "company" | null): Promise<SigningTarget> {
    const company = { resellerId: SCOPE.resellerId, crmId: "neighbour" };
    await addCompany(database.db, SIGNER.keyRing, { ...company, name: "N", apikey: "neighbours-key" });
    await putZone(database, parent, PARENT);
    expect(await enableSigning(database.db, targetOf(parent), {})).toMatchObject({ ok: true });
    const child = targetOf(`sub.${parent}`);
    const text = `$TTL 300\n@ SOA ns1 hostmaster 7 7200 3600 1209600 60\n${CHILD.join("\n")}\n`;
    expect(await importZone(database.db, company, child, { text, now: new Date(nowMs) })).toMatchObject({ ok: true });
    await database.db("zones").where({ name: child.domain }).update({ made_by: madeBy });
    expect(await enableSigning(database.db, child, {})).toMatchObject({ ok: true });
    return child;
  }

  it("has its DS there by itself where the reseller put it there", async () => {
    const child = await putStrangers("wish.example", "reseller");
    expect(await pass(child, 3 * HOUR)).toEqual([child.domain, "wish.example"]);
    expect(await dsTags("wish.example")).toHaveLength(1);
  });

  it.each(["company", null] as const)(
    "made by %s neither writes to it nor believes it, nor takes its DS along",
    async (madeBy) => {
      const parent = `${madeBy ?? "unknown"}.example`;
      const child = await putStrangers(parent, madeBy);
      await pass(child, 3 * HOUR);
      expect(await dsTags(parent)).toEqual([]);
      expect(await readHostedDs(database.db, child.apex)).toBeUndefined();
      // Put there by the owner of the zone above.
      await putZone(database, parent, [...PARENT, `sub DS ${await dsText(child)}`]);
      const before = (await zoneOf(parent)).soa.serial;
      expect(await deleteZone(database.db, child)).toMatchObject({ ok: true, value: { parentIds: [] } });
      expect(await dsTags(parent)).toHaveLength(1);
      expect((await zoneOf(parent)).soa.serial).toBe(before);
    },
  );
});

it("another reseller's zone above is no parent: neither written to nor believed", async () => {
  const [parent, child] = ["stranger.example", "sub.stranger.example"];
  // The zone below was there first.
  await putZone(database, child, CHILD);
  const owner = { resellerId: "other", crmId: "other" };
  await addReseller(database.db, { id: owner.resellerId, name: "O", rpzLicence: false, keyHash: Buffer.from("o") });
  await addCompany(database.db, SIGNER.keyRing, { ...owner, name: "O", apikey: "key of the other" });
  const text = `$TTL 300\n@ SOA ns1 hostmaster 7 7200 3600 1209600 60\n${PARENT.join("\n")}\n`;
  const target = { ...targetOf(parent), scope: { resellerId: owner.resellerId } };
  expect(await importZone(database.db, owner, target, { text, now: new Date(nowMs) })).toMatchObject({ ok: true });
  await enableSigning(database.db, targetOf(child), {});
  await pass(targetOf(child), 3 * HOUR);
  expect(await dsTags(parent)).toEqual([]);
  expect(await readHostedDs(database.db, nameOf(child))).toBeUndefined();
});
