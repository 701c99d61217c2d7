import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { publicKeyOctets, type SigningAlgorithm } from "../../services/core/dns/dnssec/algorithm.ts";
import type { BindKey } from "../../services/core/dns/dnssec/bind-key-file.ts";
import { dnskeyRdata, keyTag, readDsKeyTag } from "../../services/core/dns/dnssec/dnskey.ts";
import { readRrsig } from "../../services/core/dns/dnssec/rrsig.ts";
import { decodeRecords } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { ok } from "../../services/core/result.ts";
import { confirmDsSeen, wishForDs } from "../../services/operations/dns/dnssec-parent.ts";
import { replaceZone } from "../../services/operations/dns/zone-files.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import { importKeys } from "../../services/operations/dns/zone-signing-keys.ts";
import { changeSigning, type SigningTarget } from "../../services/operations/dns/zone-signing-state.ts";
import {
  disableSigning,
  enableSigning,
  type SigningWish,
  startRollover,
} from "../../services/operations/dns/zone-signing-switch.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import type { LookUpDs } from "../../services/platform/lookups/ds-lookup.ts";
import { readSigning, type StoredKey } from "../../services/store/dns/dnssec-keys.ts";
import { firstExpiry, readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { listDueZones } from "../../services/store/dns/dnssec-zones.ts";
import { readHistory } from "../../services/store/dns/zone-history.ts";
import { findAnyZone, type Zone } from "../../services/store/dns/zones.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";

const ZONE = "example.org";
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const CONTENT = [
  "@ NS ns1",
  "ns1 A 192.0.2.53",
  "*.wild TXT any",
  "sub NS ns.sub",
  "ns.sub A 192.0.2.54",
  "a.b.c A 192.0.2.1",
];

let database: TestDatabase;
let nowMs: number;
let target: SigningTarget;
/** What the parent has; undefined: it does not answer. */
let parentDs: Uint8Array[] | undefined;
/** Whether the resolver that tells so has validated it. */
let authenticated: boolean;
const lookUpDs: LookUpDs = async () => parentDs && { records: parentDs, ttlSeconds: 3_600, authenticated };

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, ZONE, CONTENT);
  nowMs = Date.now();
  parentDs = [];
  authenticated = true;
  const signer = { ...SIGNER, clock: { nowMs: () => nowMs } };
  target = { scope: SCOPE, apex: nameOf(ZONE), domain: ZONE, actor: "test", signer };
});
afterEach(() => database.drop());

async function sign(wish: SigningWish = {}): Promise<void> {
  expect(await enableSigning(database.db, target, wish)).toMatchObject({ ok: true });
}

async function zone(): Promise<Zone> {
  return (await findAnyZone(database.db, target.apex))!;
}

async function keys(): Promise<readonly StoredKey[]> {
  return (await readSigning(database.db, (await zone()).id))!.keys;
}

async function states(): Promise<string[]> {
  return (await keys()).map(({ role, algorithm, state }) => `${role} ${algorithm} ${state}`);
}

/** Lets time pass in steps, as upkeep sees it, and has the zone checked by others after each of its versions. */
async function pass(ms: number, stepMs = HOUR): Promise<void> {
  const end = nowMs + ms;
  let version = (await zone()).version;
  while (nowMs < end) {
    nowMs = Math.min(end, nowMs + stepMs);
    for (const { apex } of await listDueZones(database.db, new Date(nowMs), { limit: 10, except: [] })) {
      await maintainZone(database.db, apex, { signer: target.signer, lookUpDs });
    }
    const { version: after } = await zone();
    if (after !== version) await expectSound();
    version = after;
  }
}

async function expectSound(): Promise<void> {
  const exported = await exportSignedZone(database.db, (on) => findAnyZone(on, target.apex));
  expect(complaintsAbout(ZONE, exported!.text, new Date(nowMs)), (await states()).join()).toEqual({});
}

/** Does what a parent does that reads CDS (RFC 7344 §6). */
async function parentFollowsCds(): Promise<void> {
  const derived = await readAllDerived(database.db, (await zone()).id);
  parentDs = derived.filter(({ type }) => type === TYPE.CDS).map(({ rdata }) => rdata);
}

async function signatureEnds(): Promise<number[]> {
  const derived = await readAllDerived(database.db, (await zone()).id);
  return derived.filter(({ type }) => type === TYPE.RRSIG).map(({ rdata }) => readRrsig(rdata).expiration * 1000);
}

async function inUse(wish: SigningWish = {}): Promise<void> {
  await sign(wish);
  await pass(3 * HOUR);
  await parentFollowsCds();
  await pass(2 * HOUR);
}

describe("the first DS", () => {
  it("is asked for when no cache has the zone unsigned, and brings the key into use", async () => {
    await sign();
    await parentFollowsCds();
    expect(parentDs).toEqual([]);
    expect(await states()).toEqual(["csk 13 published"]);
    await pass(3 * HOUR);
    expect(await states()).toEqual(["csk 13 ready"]);
    await parentFollowsCds();
    expect(parentDs!.map(readDsKeyTag)).toEqual((await keys()).map(({ keyTag }) => keyTag));
    await pass(HOUR);
    expect(await states()).toEqual(["csk 13 active"]);
    expect((await keys())[0]!.hasDs).toBe(true);
  });

  it.each([
    ["a record of a large TTL was deleted", ["@ NS ns1", "ns1 60 A 192.0.2.53"], 300],
    ["its TTL was lowered", ["@ NS ns1", "ns1 60 A 192.0.2.53", "large 60 A 192.0.2.1"], 300],
    ["the SOA's TTL was lowered", ["@ NS ns1", "ns1 60 A 192.0.2.53"], 60],
  ] as const)(
    "is not asked for while caches may have what the zone was before it was signed: %s",
    async (_, records, ttl) => {
      const isSoa = ttl === 60;
      const file = (soaTtl: number, lines: readonly string[]) =>
        `$TTL 300\n@ ${soaTtl} SOA ns1 hostmaster 1 7200 3600 1209600 60\n${lines.join("\n")}\n`;
      const put = async (text: string) =>
        expect(await replaceZone(database.db, target, { text }, new Date(nowMs))).toMatchObject({ ok: true });
      const large = isSoa ? [] : [`large ${DAY / 1000} A 192.0.2.1`];
      await put(file(isSoa ? DAY / 1000 : ttl, ["@ NS ns1", "ns1 60 A 192.0.2.53", ...large]));
      nowMs += HOUR;
      await put(file(ttl, records));
      // The journal may be gone by the time when the zone is signed, or the change may have been too large for it.
      await database.db("zone_journal").delete();
      nowMs += HOUR;
      await sign();
      const [key] = await keys();
      const cachedUntil = nowMs - HOUR + DAY;
      expect(key!.due!.getTime()).toBeGreaterThanOrEqual(cachedUntil);
      expect(key!.due!.getTime()).toBeLessThanOrEqual(cachedUntil + HOUR);
      await pass(22 * HOUR);
      expect(await states()).toEqual(["csk 13 published"]);
      await pass(2 * HOUR);
      expect(await states()).toEqual(["csk 13 ready"]);
    },
  );

  it("that nobody has validated is shown, and brings no key into use, nor any out of it", async () => {
    await sign();
    await pass(3 * HOUR);
    await parentFollowsCds();
    authenticated = false;
    await pass(HOUR);
    expect(await states()).toEqual(["csk 13 ready"]);
    const { parent } = (await readSigning(database.db, (await zone()).id))!;
    expect(parent).toMatchObject({ ds: parentDs, authenticated: false });
    authenticated = true;
    await pass(HOUR);
    expect(await states()).toEqual(["csk 13 active"]);

    expect(await wishForDs(database.db, target, false)).toMatchObject({ ok: true });
    [parentDs, authenticated] = [[], false];
    await pass(HOUR);
    expect((await keys())[0]!.hasDs).toBe(true);
    expect(await disableSigning(database.db, target, { force: false })).toMatchObject({ ok: false });
    authenticated = true;
    await pass(HOUR);
    expect((await keys())[0]!.hasDs).toBe(false);
    await pass(2 * DAY, DAY);
    expect(await disableSigning(database.db, target, { force: false })).toMatchObject({ ok: true });
  });
});

describe("rollovers, each version checked by others", () => {
  it.each(["nsec", "nsec3"] as const)("of a CSK, with %s", async (denial) => {
    await inUse({ denial });
    const [old] = await keys();
    expect(await startRollover(database.db, target, { roles: ["csk"], algorithm: 13 })).toMatchObject({ ok: true });
    await expectSound();
    expect(await states()).toEqual(["csk 13 active", "csk 13 published"]);
    await pass(3 * HOUR);
    expect(await states()).toEqual(["csk 13 active", "csk 13 ready"]);
    await pass(2 * DAY, 6 * HOUR);
    expect(await states()).toEqual(["csk 13 active", "csk 13 ready"]);
    await parentFollowsCds();
    expect(parentDs!.map(readDsKeyTag)).not.toContain(old!.keyTag);
    // The longer the parent takes, the more seldom it is asked.
    await pass(6 * HOUR);
    expect(await states()).toEqual(["csk 13 retired", "csk 13 active"]);
    await pass(2 * DAY);
    expect(await states()).toEqual(["csk 13 active"]);
    expect((await keys())[0]!.keyTag).not.toBe(old!.keyTag);
  });

  it("of a KSK, and of a ZSK when its time has come", async () => {
    await inUse({ layout: "ksk-zsk" });
    expect(await states()).toEqual(["ksk 13 active", "zsk 13 active"]);
    expect(await startRollover(database.db, target, { roles: ["ksk"], algorithm: 13 })).toMatchObject({ ok: true });
    await pass(3 * HOUR);
    await parentFollowsCds();
    await pass(2 * DAY);
    expect(await states()).toEqual(["zsk 13 active", "ksk 13 active"]);
    const zsk = (await keys()).find(({ role }) => role === "zsk")!.keyTag;
    await pass(88 * DAY, 6 * HOUR);
    const rolling = await states();
    expect(rolling).toContainEqual(expect.stringMatching(/^zsk 13 (published|retired|active)$/));
    await pass(2 * DAY);
    expect((await states()).sort()).toEqual(["ksk 13 active", "zsk 13 active"]);
    expect((await keys()).find(({ role }) => role === "zsk")!.keyTag).not.toBe(zsk);
  });

  it("of a ZSK last as long as caches may have data that a change took out", async () => {
    await putZone(database, ZONE, [...CONTENT, "long 604800 A 192.0.2.9"]);
    await sign({ layout: "ksk-zsk" });
    const removedAt = nowMs;
    await putZone(database, ZONE, CONTENT);
    expect(await startRollover(database.db, target, { roles: ["zsk"], algorithm: 13 })).toMatchObject({ ok: true });
    await pass(2 * HOUR);
    const retired = (await keys()).find(({ state }) => state === "retired")!;
    expect(retired.due!.getTime()).toBeGreaterThanOrEqual(removedAt + 7 * DAY);
    expect(retired.due!.getTime()).toBeLessThan(removedAt + 8 * DAY);
  });

  it("of the algorithm, from one key to two", async () => {
    await inUse();
    await sign({ algorithm: 15, layout: "ksk-zsk" });
    await expectSound();
    expect(await states()).toEqual(["csk 13 active", "ksk 15 generated", "zsk 15 generated"]);
    await pass(2 * HOUR);
    expect(await states()).toEqual(["csk 13 active", "ksk 15 published", "zsk 15 published"]);
    await pass(2 * HOUR);
    expect(await states()).toEqual(["csk 13 active", "ksk 15 ready", "zsk 15 ready"]);
    await parentFollowsCds();
    await pass(HOUR);
    expect(await states()).toEqual(["csk 13 retired", "ksk 15 active", "zsk 15 active"]);
    await pass(26 * HOUR);
    await pass(3 * HOUR);
    expect(await states()).toEqual(["ksk 15 active", "zsk 15 active"]);
  });
});

describe("a rollover of the algorithm of two keys", () => {
  it("ends as well where the parent has the new DS before it should, and where an earlier one has not ended", async () => {
    await inUse({ layout: "ksk-zsk" });
    await sign({ algorithm: 15 });
    await pass(2 * HOUR);
    expect(await states()).toEqual(["ksk 13 active", "zsk 13 active", "ksk 15 published", "zsk 15 published"]);
    const { keyTag: tag } = (await keys())[2]!;
    expect(await confirmDsSeen(database.db, target, tag)).toMatchObject({ ok: true });
    expect(await states()).toEqual(["ksk 13 retired", "zsk 13 retired", "ksk 15 active", "zsk 15 published"]);
    parentDs = undefined;
    await pass(2 * HOUR);
    expect(await states()).toEqual(["ksk 13 retired", "zsk 13 retired", "ksk 15 active", "zsk 15 active"]);
    await pass(3 * DAY);
    expect(await states()).toEqual(["ksk 15 active", "zsk 15 active"]);

    await database
      .db("zone_keys")
      .where({ zone_id: (await zone()).id, role: "zsk" })
      .update({ state: "ready" });
    await pass(25 * HOUR);
    expect(await states()).toEqual(["ksk 15 active", "zsk 15 active"]);
  });
});

describe("keys from elsewhere", () => {
  const entry = (algorithm: SigningAlgorithm) => bindKey(algorithm, true);
  const zoneKey = (algorithm: SigningAlgorithm) => bindKey(algorithm, false);

  it("come into a signed zone of one algorithm, one of each role", async () => {
    await inUse({ layout: "ksk-zsk" });
    const before = await keys();
    for (const [brought, code] of [
      [[zoneKey(13), entry(15)], "key-algorithms-differ"],
      [[entry(15), zoneKey(13)], "key-algorithms-differ"],
      [[zoneKey(13), zoneKey(13)], "key-set-incomplete"],
      [[entry(13), entry(15)], "key-set-incomplete"],
      [[zoneKey(15)], "key-set-incomplete"],
      [ofOneTag(), "key-tags-equal"],
    ] as const) {
      expect(await importKeys(database.db, target, brought)).toMatchObject({ ok: false, error: { code } });
    }
    expect(await keys()).toEqual(before);
    expect(await importKeys(database.db, target, [zoneKey(13), entry(13)])).toMatchObject({ ok: true });
    await expectSound();
  });

  it("come into a zone of a combined key one at a time, and sign a zone only where their tags differ", async () => {
    expect(await importKeys(database.db, target, ofOneTag())).toMatchObject({
      ok: false,
      error: { code: "key-tags-equal" },
    });
    await inUse();
    for (const brought of [
      [entry(13), entry(15)],
      [entry(13), entry(13)],
    ]) {
      const refused = { ok: false, error: { code: "key-set-incomplete" } };
      expect(await importKeys(database.db, target, brought)).toMatchObject(refused);
    }
    expect(await states()).toEqual(["csk 13 active"]);
  });

  it("a state that would leave the data without a signature is never written", async () => {
    await sign();
    const changed = changeSigning(database.db, target, async (_, { state }) =>
      ok({ state: { ...state!, keys: state!.keys.map((key) => ({ ...key, signsZone: false })) }, extent: "zone" }),
    );
    await expect(changed).rejects.toThrow(/no key for its data/);
    await expectSound();
  });
});

/** A fresh key, as its files would have it. */
function bindKey(algorithm: SigningAlgorithm, isEntryPoint: boolean): BindKey {
  const { privateKey } =
    algorithm === 13 ? generateKeyPairSync("ec", { namedCurve: "P-256" }) : generateKeyPairSync("ed25519");
  return { algorithm, isEntryPoint, privateKey, publicKey: publicKeyOctets(algorithm, privateKey) };
}

/** A ZSK and a KSK of one tag. */
function ofOneTag(): BindKey[] {
  const zoneKeys = new Map<number, BindKey>();
  for (;;) {
    const zoneKey = bindKey(15, false);
    zoneKeys.set(keyTag(dnskeyRdata("zsk", 15, zoneKey.publicKey)), zoneKey);
    const entry = bindKey(15, true);
    const same = zoneKeys.get(keyTag(dnskeyRdata("ksk", 15, entry.publicKey)));
    if (same) return [same, entry];
  }
}

describe("signatures", () => {
  it("are made anew before they end, also after a week off, with a new serial that the history does not show", async () => {
    await sign();
    const first = Math.min(...(await signatureEnds()));
    const { soa } = await zone();
    nowMs = first - HOUR;
    const due = await listDueZones(database.db, new Date(nowMs), { limit: 10, except: [] });
    expect(due.map(({ apex }) => apex.key)).toEqual([target.apex.key]);
    parentDs = undefined;
    await maintainZone(database.db, due[0]!.apex, { signer: target.signer, lookUpDs });
    expect(Math.min(...(await signatureEnds()))).toBeGreaterThan(nowMs + 12 * DAY);
    const renewed = await zone();
    expect(renewed.soa.serial).toBeGreaterThan(soa.serial);
    await expectSound();
    const history = await readHistory(database.db, renewed.id, undefined, 100);
    expect(history.map(({ actor }) => actor)).not.toContain("dnssec");
    expect(await listDueZones(database.db, new Date(nowMs), { limit: 10, except: [] })).toEqual([]);
  });

  it("are made anew while nobody is to be asked for the parent's DS, which is asked for as soon as somebody may be", async () => {
    await sign();
    nowMs = Math.min(...(await signatureEnds())) - HOUR;
    const { id } = await zone();
    const checked = () => database.db("zone_signing").where({ zone_id: id }).first("parent_checked_at");
    const before = await checked();
    await maintainZone(database.db, target.apex, { signer: target.signer, lookUpDs: undefined });
    expect(Math.min(...(await signatureEnds()))).toBeGreaterThan(nowMs + 12 * DAY);
    expect(await checked()).toEqual(before);
    nowMs += HOUR;
    await maintainZone(database.db, target.apex, { signer: target.signer, lookUpDs });
    expect(await checked()).not.toEqual(before);
  });

  it("are made anew once when the clock is put back meanwhile", async () => {
    await sign();
    const { version } = await zone();
    let looks = 0;
    const clock = { nowMs: () => nowMs + (looks++ === 0 ? 10 * DAY : 0) };
    await maintainZone(database.db, target.apex, { signer: { ...target.signer, clock }, lookUpDs: undefined });
    expect((await zone()).version).toBe(version + 1);
  });

  it("are made anew a few at a time, so that secondaries of a large zone follow by IXFR, also after a week off", async () => {
    const names = Array.from({ length: 1_100 }, (_, index) => `name-${index} A 192.0.2.1`);
    await putZone(database, ZONE, [...CONTENT, ...names]);
    await sign();
    parentDs = undefined;
    const { id, version: first } = await zone();
    const upkeep = async (until: number) => {
      while (nowMs < until) {
        const { due_at: due } = await database.db("zone_signing").where({ zone_id: id }).first("due_at");
        nowMs = Math.max(nowMs + 60_000, (due as Date).getTime());
        expect((await firstExpiry(database.db, id))! * 1000).toBeGreaterThan(nowMs + 7 * DAY);
        await maintainZone(database.db, target.apex, { signer: target.signer, lookUpDs });
      }
    };
    await upkeep(nowMs + 31 * DAY);
    nowMs += 7 * DAY;
    expect((await firstExpiry(database.db, id))! * 1000).toBeGreaterThan(nowMs);
    await maintainZone(database.db, target.apex, { signer: target.signer, lookUpDs });

    const journal = await database.db("zone_journal").where({ zone_id: id }).where("version", ">", first);
    const { version: last } = await zone();
    expect(journal).toHaveLength(last - first);
    expect(journal.length).toBeGreaterThan(8);
    const sizes = journal.map(
      ({ derived_deleted: deleted, derived_added: added }) =>
        decodeRecords(deleted).length + decodeRecords(added).length,
    );
    // 2,000 signatures and the SOA's, each out and in, whatever the size of the zone.
    expect(Math.max(...sizes)).toBeGreaterThan(3_000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * 2_001);
  });

  it("stay valid through a month of upkeep", async () => {
    await sign({ denial: "nsec3" });
    for (let day = 0; day < 30; day += 1) {
      await pass(DAY, DAY);
      const ends = await signatureEnds();
      expect(Math.min(...ends)).toBeGreaterThan(nowMs + 6 * DAY);
      expect(Math.max(...ends)).toBeLessThan(nowMs + 15 * DAY);
    }
    const versions = (await zone()).version;
    expect(versions).toBeLessThan(14);
  });
});
