import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { apexRecords, dnskeyOf } from "../../services/core/dns/dnssec/apex-records.ts";
import { isSignedBy, readRrsig } from "../../services/core/dns/dnssec/rrsig.ts";
import { parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { type ResourceRecord, rrsetKey } from "../../services/core/dns/record.ts";
import { TYPE, typeCode } from "../../services/core/dns/rr-types.ts";
import { soaRecord } from "../../services/core/dns/soa.ts";
import type { RecordEdits, StoredRecord } from "../../services/core/dns/zone-edit.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { deriveChange } from "../../services/operations/dns/zone-signing.ts";
import { nextVersion } from "../../services/operations/dns/zone-signing-state.ts";
import { enableSigning } from "../../services/operations/dns/zone-signing-switch.ts";
import { signingPolicy } from "../../services/platform/config/dnssec-policy.ts";
import { readSigning } from "../../services/store/dns/dnssec-keys.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { findAnyZone, type Zone } from "../../services/store/dns/zones.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { fc } from "../support/property.ts";

let database: TestDatabase;
let zones = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterAll(() => database.drop());

const DS = "12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF";

/** Few names, one below the other, so that cuts, DNAMEs, wildcards and empty non-terminals come and go. */
const owner = fc
  .array(fc.constantFrom("a", "b", "*", "B", "\\000", "z"), { minLength: 1, maxLength: 4 })
  .map((labels) => labels.join("."));
const data = fc.constantFrom(
  ["A", "192.0.2.1"],
  ["TXT", "text"],
  ["NS", "ns.a"],
  ["DS", DS],
  ["DNAME", "elsewhere.test."],
  ["CNAME", "a"],
  ["CAA", '0 issue "ca.test"'],
) as fc.Arbitrary<readonly [string, string]>;
const edit = fc.oneof(
  { weight: 3, arbitrary: fc.record({ owner, data }) },
  { weight: 2, arbitrary: fc.record({ remove: fc.nat() }) },
);

describe.each(["nsec", "nsec3"] as const)("a zone signed with %s", (denial) => {
  it("is so when cuts come and go at each of many levels, whose names below are read once", async () => {
    const name = `levels-${denial}.example.org`;
    const levels = Array.from({ length: 60 }, (_, index) => "a.".repeat(index + 1).slice(0, -1));
    const records = Array.from({ length: 1_500 }, (_, index) => `x${index}.${levels.at(-1)} A 192.0.2.1`);
    await putZone(database, name, ["@ NS ns.example.net.", ...records]);
    const target = { scope: SCOPE, apex: nameOf(name), domain: name, actor: "test", signer: SIGNER };
    expect((await enableSigning(database.db, target, { denial })).ok).toBe(true);
    const edits: RecordEdits = { creations: [], modifications: [], deletionIds: [] };
    for (const level of levels) addTo(edits, { owner: level, data: ["NS", "ns.example.net."] }, [], name);
    expect(await readingsBelow(() => changeRecords(database.db, target, edits, new Date()))).toBe(1);
    await expectWellSigned(name);
    expect((await readZone(name)).derived.filter(({ type }) => type === denialType(denial))).toHaveLength(2);
    const cuts = (await readZone(name)).records.filter(({ owner, type }) => type === TYPE.NS && owner.labelCount > 3);
    const gone = { creations: [], modifications: [], deletionIds: cuts.map(({ id }) => id) };
    expect(await readingsBelow(() => changeRecords(database.db, target, gone, new Date()))).toBe(1);
    await expectWellSigned(name);
  });

  it("is so when deep names come and go at once, each with all those above it", async () => {
    const name = `deep-${denial}.example.org`;
    await putZone(database, name, ["@ NS ns.example.net.", "b.a TXT first"]);
    const target = { scope: SCOPE, apex: nameOf(name), domain: name, actor: "test", signer: SIGNER };
    expect((await enableSigning(database.db, target, { denial })).ok).toBe(true);
    const edits: RecordEdits = { creations: [], modifications: [], deletionIds: [] };
    for (let index = 0; index < 30; index += 1) {
      addTo(edits, { owner: `${"a.".repeat(100)}x${index}`, data: ["A", "192.0.2.1"] }, [], name);
    }
    expect((await changeRecords(database.db, target, edits, new Date())).ok).toBe(true);
    await expectWellSigned(name);
    const { derived, records } = await readZone(name);
    const denied = derived.filter(({ type }) => type === denialType(denial));
    expect(denied).toHaveLength(denial === "nsec3" ? 3 + 30 * 101 : 2 + 30);
    const deep = records.filter(({ owner }) => owner.labelCount > 100).map(({ id }) => id);
    const gone = { creations: [], modifications: [], deletionIds: deep.slice(1) };
    expect((await changeRecords(database.db, target, gone, new Date())).ok).toBe(true);
    await expectWellSigned(name);
  });

  it("after any edits is what signing it anew would make of it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(edit, { minLength: 1, maxLength: 3 }), { maxLength: 14 }), async (steps) => {
        const name = `zone-${zones++}.example.org`;
        await putZone(database, name, ["@ NS ns.example.net.", "b.a TXT first"]);
        const target = { scope: SCOPE, apex: nameOf(name), domain: name, actor: "test", signer: SIGNER };
        expect((await enableSigning(database.db, target, { denial })).ok).toBe(true);
        await expectWellSigned(name);
        for (const step of steps) {
          const { records } = await readZone(name);
          const edits: RecordEdits = { creations: [], modifications: [], deletionIds: [] };
          for (const part of step) addTo(edits, part, records, name);
          // Some make no lawful zone, and are refused.
          await changeRecords(database.db, target, edits, new Date());
          await expectWellSigned(name);
        }
      }),
      { numRuns: 15 },
    );
  });
});

/** How often what lies below a name is read for signing: as much as there is, not the few that warnings are about. */
async function readingsBelow(run: () => Promise<unknown>): Promise<number> {
  const asked = vi.spyOn(pg.Client.prototype, "query");
  await run();
  const statements = asked.mock.calls.map(([statement]) => statement as unknown as pg.QueryConfig);
  asked.mockRestore();
  return statements.filter(({ text, values }) => /owner_key > \$2 and owner_key < \$3/.test(text) && values![3] > 100)
    .length;
}

function denialType(denial: "nsec" | "nsec3"): number {
  return denial === "nsec" ? TYPE.NSEC : TYPE.NSEC3;
}

type Edit = { owner: string; data: readonly [string, string] } | { remove: number };

function addTo(edits: RecordEdits, part: Edit, records: readonly StoredRecord[], zone: string): void {
  if ("remove" in part) {
    const record = records[part.remove % records.length];
    if (record && !edits.deletionIds.includes(record.id)) (edits.deletionIds as number[]).push(record.id);
    return;
  }
  const [mnemonic, value] = part.data;
  const type = typeCode(mnemonic)!;
  const rdata = parseRdata(type, value, nameOf(zone), "value");
  if (!rdata.ok) throw new Error(rdata.error.message);
  const draft = { owner: nameOf(`${part.owner}.${zone}`), type, ttl: undefined, rdata: rdata.value };
  (edits.creations as unknown[]).push(draft);
}

/** Signing all of it again would change nothing but the SOA's signature, and every signature is good. */
async function expectWellSigned(name: string): Promise<void> {
  const { zone, records, derived } = await readZone(name);
  const whole = await deriveChange(database.db, zone, nextVersion(zone, SIGNER), { signer: SIGNER, extent: "zone" });
  if (!whole?.ok) throw new Error("refused");
  expect([...whole.value.deleted, ...whole.value.added].map(coveredOrType)).toEqual(["RRSIG 6", "RRSIG 6"]);
  const state = (await readSigning(database.db, zone.id))!;
  const rrsets = new Map<string, ResourceRecord[]>();
  const unsigned = derived.filter(({ type }) => type !== TYPE.RRSIG);
  for (const record of [soaRecord(zone.apex, zone.soa, zone.ttl), ...records, ...unsigned]) {
    const key = rrsetKey(record.owner, record.type);
    rrsets.set(key, [...(rrsets.get(key) ?? []), record]);
  }
  for (const rrsig of derived.filter(({ type }) => type === TYPE.RRSIG)) {
    const { typeCovered, keyTag } = readRrsig(rrsig.rdata);
    const rrset = rrsets.get(rrsetKey(rrsig.owner, typeCovered));
    const key = state.keys.find((candidate) => candidate.keyTag === keyTag)!;
    expect(rrset !== undefined && isSignedBy(rrset, rrsig.rdata, dnskeyOf(key))).toBe(true);
  }
  const expected = apexRecords(zone.apex, state, signingPolicy.keyTtlSeconds).map(({ type }) => type);
  expect(unsigned.map(({ type }) => type).filter((type) => type !== TYPE.NSEC && type !== TYPE.NSEC3)).toEqual(
    expected,
  );
}

function coveredOrType({ type, rdata }: ResourceRecord): string {
  return type === TYPE.RRSIG ? `RRSIG ${readRrsig(rdata).typeCovered}` : String(type);
}

async function readZone(name: string): Promise<{ zone: Zone; records: StoredRecord[]; derived: StoredRecord[] }> {
  const zone = (await findAnyZone(database.db, nameOf(name)))!;
  return {
    zone,
    records: await readAllRecords(database.db, zone.id),
    derived: await readAllDerived(database.db, zone.id),
  };
}
